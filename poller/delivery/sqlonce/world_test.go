package sqlonce_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"

	"go.uber.org/goleak"
	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/poller/delivery"
	"github.com/rounds-dev/rounds/poller/delivery/sqlonce"
	"github.com/rounds-dev/rounds/testing/pgtest"
)

// postgres is the server that is shared by all tests which do not kill it. The first test that
// needs it starts it.
var postgres = sync.OnceValues(func() (*pgtest.Server, error) {
	started = true
	return pgtest.Launch()
})

var started bool

func TestMain(m *testing.M) {
	code := m.Run()
	if started {
		if server, err := postgres(); err == nil {
			if err := server.Close(); err != nil {
				fmt.Fprintln(os.Stderr, err)
				code = 1
			}
		}
	}
	if err := goleak.Find(); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func shared(tb testing.TB) *pgtest.Server {
	tb.Helper()
	server, err := postgres()
	if err != nil {
		tb.Fatal(err)
	}
	return server
}

// world is a database with a table of effects. The table is the oracle.
type world struct {
	testing.TB
	db      *sql.DB
	dialect sqlonce.Dialect
}

// each runs fn on PostgreSQL and on SQLite.
func each(t *testing.T, fn func(t *testing.T, w *world)) {
	t.Run("PostgreSQL", func(t *testing.T) {
		t.Parallel()
		fn(t, newWorld(t, shared(t).Database(t), sqlonce.PostgreSQL))
	})
	t.Run("SQLite", func(t *testing.T) {
		t.Parallel()
		fn(t, newWorld(t, openSQLite(t, ""), sqlonce.SQLite))
	})
}

func openSQLite(tb testing.TB, parameters string) *sql.DB {
	tb.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(tb.TempDir(), "test.db")+"?_pragma=journal_mode(WAL)"+parameters)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = db.Close() })
	return db
}

func newWorld(tb testing.TB, db *sql.DB, d sqlonce.Dialect) *world {
	tb.Helper()
	w := &world{TB: tb, db: db, dialect: d}
	key := "INTEGER PRIMARY KEY AUTOINCREMENT"
	if d == sqlonce.PostgreSQL {
		key = "BIGSERIAL PRIMARY KEY"
	}
	w.exec("CREATE TABLE effects (seq " + key + ", account TEXT NOT NULL, message TEXT NOT NULL)")
	return w
}

func (w *world) exec(query string, args ...any) {
	w.Helper()
	if _, err := w.db.ExecContext(w.Context(), query, args...); err != nil {
		w.Fatalf("%s: %v", query, err)
	}
}

func (w *world) count(query string, args ...any) (n int) {
	w.Helper()
	if err := w.db.QueryRowContext(w.Context(), query, args...).Scan(&n); err != nil {
		w.Fatalf("%s: %v", query, err)
	}
	return n
}

// handler returns a prepared handler.
func (w *world) handler(apply sqlonce.Func, o sqlonce.Options) *sqlonce.Handler {
	w.Helper()
	h, err := sqlonce.New(w.db, w.dialect, apply, o)
	if err != nil {
		w.Fatal(err)
	}
	if err := h.Prepare(w.Context()); err != nil {
		w.Fatal(err)
	}
	return h
}

// apply is an effect: it inserts a row.
func apply(ctx context.Context, tx *sql.Tx, d delivery.Delivery) error {
	_, err := tx.ExecContext(ctx, "INSERT INTO effects (account, message) VALUES ($1, $2)", d.Account, d.Message.ID)
	return err
}

// messages returns n messages, which go to the accounts in turn. Their ids are numbered across
// all accounts.
func messages(accounts, n int) []delivery.Delivery {
	batch := make([]delivery.Delivery, n)
	for i := range batch {
		batch[i] = message("a"+strconv.Itoa(i%accounts), fmt.Sprintf("m%06d", i), fmt.Sprintf("1-%d", i))
	}
	return batch
}

func message(account, id, position string) delivery.Delivery {
	return delivery.Delivery{
		Found: circulate.Found{Position: position, Account: account, Message: circulate.Message{ID: id}},
		Group: "g", Attempt: 1,
	}
}

// unapplied returns the messages that must be delivered again.
func unapplied(batch []delivery.Delivery, errs []error) []delivery.Delivery {
	if errs == nil {
		return nil
	}
	var again []delivery.Delivery
	for i, d := range batch {
		if errs[i] != nil {
			d.Attempt++
			again = append(again, d)
		}
	}
	return again
}

// wantOnce checks that the effects are those of the messages, each once, and in
// order in each account.
func (w *world) wantOnce(batch []delivery.Delivery) {
	w.Helper()
	rows, err := w.db.QueryContext(w.Context(), "SELECT account, message FROM effects ORDER BY seq")
	if err != nil {
		w.Fatal(err)
	}
	defer rows.Close()
	effects := map[string][]string{}
	for rows.Next() {
		var account, id string
		if err := rows.Scan(&account, &id); err != nil {
			w.Fatal(err)
		}
		effects[account] = append(effects[account], id)
	}
	if err := rows.Err(); err != nil {
		w.Fatal(err)
	}
	want := map[string][]string{}
	for _, d := range batch {
		want[d.Account] = append(want[d.Account], d.Message.ID)
	}
	for account, ids := range want {
		if !slices.Equal(effects[account], ids) {
			w.Errorf("account %s: effects %q, want %q", account, effects[account], ids)
		}
	}
	if len(effects) != len(want) {
		w.Errorf("effects of %d accounts, want %d", len(effects), len(want))
	}
}

// wantNone checks that the whole batch was handled without errors.
func wantNone(tb testing.TB, errs []error) {
	tb.Helper()
	for i, err := range errs {
		if err != nil {
			tb.Errorf("message %d: %v", i, err)
		}
	}
}
