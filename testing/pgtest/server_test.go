package pgtest_test

import (
	"context"
	"database/sql"
	"net"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/rounds-dev/rounds/testing/pgtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func count(t *testing.T, db *sql.DB) (n int) {
	t.Helper()
	if err := db.QueryRowContext(t.Context(), "SELECT count(*) FROM kept").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// After a kill in the middle of a transaction, what was committed is still there, and the
// transaction is not.
func TestKillAndRestart(t *testing.T) {
	server := pgtest.Start(t)
	db := server.Database(t)
	exec := func(on interface {
		ExecContext(context.Context, string, ...any) (sql.Result, error)
	}, query string) {
		t.Helper()
		if _, err := on.ExecContext(t.Context(), query); err != nil {
			t.Fatal(err)
		}
	}
	exec(db, "CREATE TABLE kept (n int)")
	exec(db, "INSERT INTO kept VALUES (1)")
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	exec(tx, "INSERT INTO kept VALUES (2)")
	server.Kill()
	server.Kill() // a second time does no harm
	if err := tx.Commit(); err == nil {
		t.Error("a transaction on a killed server was committed")
	}
	if err := db.PingContext(t.Context()); err == nil {
		t.Error("a killed server answers")
	}
	server.Restart(t)
	if n := count(t, db); n != 1 {
		t.Errorf("%d rows after the restart, want 1", n)
	}
}

func TestCloseLeavesNothing(t *testing.T) {
	server, err := pgtest.Launch(pgtest.WithSettings("work_mem=1MB"))
	if err != nil {
		t.Fatal(err)
	}
	db := pgtest.Open(t, server.URL("postgres"))
	var setting string
	if err := db.QueryRowContext(t.Context(), "SHOW work_mem").Scan(&setting); err != nil || setting != "1MB" {
		t.Errorf("work_mem is %q (%v), want 1MB", setting, err)
	}
	if err := server.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(server.Dir); !os.IsNotExist(err) {
		t.Errorf("the directory is still there: %v", err)
	}
	if conn, err := net.Dial("tcp", server.Addr()); err == nil {
		_ = conn.Close()
		t.Error("the port is still served")
	}
}
