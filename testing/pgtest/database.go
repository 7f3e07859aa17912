package pgtest

import (
	"crypto/rand"
	"database/sql"
	"strings"
	"testing"
)

// Database makes a database for one test, opens it, and drops it at the end of the test
// if the server still runs.
func (s *Server) Database(tb testing.TB) *sql.DB {
	tb.Helper()
	return Open(tb, s.URL(s.NewDatabase(tb)))
}

// NewDatabase makes a database for one test and returns its name.
func (s *Server) NewDatabase(tb testing.TB) string {
	tb.Helper()
	name := "test_" + strings.ToLower(rand.Text())
	admin := Open(tb, s.URL("postgres"))
	if _, err := admin.ExecContext(tb.Context(), "CREATE DATABASE "+name); err != nil {
		tb.Fatalf("pgtest: %v", err)
	}
	tb.Cleanup(func() {
		if s.ended() {
			return
		}
		if _, err := admin.Exec("DROP DATABASE " + name + " WITH (FORCE)"); err != nil {
			tb.Errorf("pgtest: %v", err)
		}
	})
	return name
}

// Open opens a pool at a URL and closes it with the test.
func Open(tb testing.TB, url string) *sql.DB {
	tb.Helper()
	db, err := sql.Open("pgx", url)
	if err != nil {
		tb.Fatalf("pgtest: %v", err)
	}
	tb.Cleanup(func() { _ = db.Close() })
	return db
}
