package sqlonce_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rounds-dev/rounds/poller/delivery"
	"github.com/rounds-dev/rounds/poller/delivery/sqlonce"
)

func TestPrepareAtOnce(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		h, err := sqlonce.New(w.db, w.dialect, apply, sqlonce.Options{})
		if err != nil {
			t.Fatal(err)
		}
		var group sync.WaitGroup
		for range 12 {
			group.Go(func() {
				if err := h.Prepare(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
		wantNone(t, h.Handle(t.Context(), messages(2, 4)))
	})
}

func TestPrepareNamed(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		table := "main.Applied"
		if w.dialect == sqlonce.PostgreSQL {
			w.exec(`CREATE SCHEMA "Of_rounds"`)
			table = "Of_rounds.Applied"
		}
		h := w.handler(apply, sqlonce.Options{Table: table})
		wantNone(t, h.Handle(t.Context(), messages(2, 4)))
		if n := w.count(`SELECT count(*) FROM "` + strings.ReplaceAll(table, ".", `"."`) + `"`); n != 4 {
			t.Errorf("%d records, want 4", n)
		}
	})
}

func TestPrepareRefuses(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.exec("CREATE TABLE other (id TEXT)")
		w.exec("CREATE TABLE unkeyed (consumer_group TEXT, account TEXT, message TEXT, applied_at INTEGER)")
		for _, table := range []string{"other", "unkeyed", "nowhere.applied"} {
			h, err := sqlonce.New(w.db, w.dialect, apply, sqlonce.Options{Table: table})
			if err != nil {
				t.Fatal(err)
			}
			if err := h.Prepare(t.Context()); err == nil || !strings.Contains(err.Error(), "table "+table) {
				t.Errorf("table %s: %v", table, err)
			}
		}
	})
}

// A table that somebody else made needs no right to make one.
func TestPrepareWithoutRights(t *testing.T) {
	w := newWorld(t, shared(t).Database(t), sqlonce.PostgreSQL)
	w.handler(apply, sqlonce.Options{})
	w.exec("CREATE ROLE modest")
	t.Cleanup(func() { _, _ = w.db.Exec("DROP OWNED BY modest; DROP ROLE modest") })
	w.exec("GRANT SELECT, INSERT ON rounds_applied TO modest")
	w.exec("GRANT ALL ON effects, effects_seq_seq TO modest")
	w.db.SetMaxOpenConns(1)
	w.exec("SET ROLE modest")
	h, err := sqlonce.New(w.db, w.dialect, apply, sqlonce.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Prepare(t.Context()); err != nil {
		t.Error(err)
	}
	wantNone(t, h.Handle(t.Context(), messages(2, 4)))
	w.exec("RESET ROLE")
}

func TestPrune(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		h := w.handler(apply, sqlonce.Options{MaxBatch: 5000})
		batch := messages(10, 2510)
		wantNone(t, h.Handle(t.Context(), batch))
		w.age(48 * time.Hour)
		kept := messages(10, 2600)[2510:]
		wantNone(t, h.Handle(t.Context(), kept))
		if n, err := h.Prune(t.Context(), 49*time.Hour); n != 0 || err != nil {
			t.Errorf("pruned %d (%v) that are too young", n, err)
		}
		if n, err := h.Prune(t.Context(), 47*time.Hour); n != 2510 || err != nil {
			t.Errorf("pruned %d (%v), want 2510", n, err)
		}
		if n := w.count("SELECT count(*) FROM rounds_applied"); n != len(kept) {
			t.Errorf("%d records left, want %d", n, len(kept))
		}
		wantNone(t, h.Handle(t.Context(), kept))
		w.wantOnce(append(batch, kept...))
		if _, err := h.Prune(t.Context(), 0); err == nil || !strings.Contains(err.Error(), "older than") {
			t.Errorf("older than 0: %v", err)
		}
	})
}

// age makes all records older.
func (w *world) age(d time.Duration) {
	w.Helper()
	if w.dialect == sqlonce.PostgreSQL {
		w.exec("UPDATE rounds_applied SET applied_at = applied_at - make_interval(secs => $1)", int(d.Seconds()))
		return
	}
	w.exec("UPDATE rounds_applied SET applied_at = applied_at - ?", int(d.Seconds()))
}

// The loop prunes at once and at each interval, and goes on after a failure.
func TestPruneEvery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, openSQLite(t, ""), sqlonce.SQLite)
		h := w.handler(apply, sqlonce.Options{})
		wantNone(t, h.Handle(t.Context(), messages(1, 3)))
		w.age(2 * time.Hour)
		ctx, cancel := context.WithCancel(t.Context())
		begun, turn := time.Now(), 0
		err := h.PruneEvery(ctx, time.Hour, time.Hour, func(pruned int64, err error) {
			if at := time.Since(begun); at != time.Duration(turn)*time.Hour {
				t.Errorf("turn %d after %v", turn, at)
			}
			if want := map[int]int64{0: 3, 3: 2}[turn]; pruned != want || (err != nil) != (turn == 1) {
				t.Errorf("turn %d: pruned %d, %v", turn, pruned, err)
			}
			switch turn {
			case 0:
				w.exec("ALTER TABLE rounds_applied RENAME TO elsewhere")
			case 1:
				w.exec("ALTER TABLE elsewhere RENAME TO rounds_applied")
			case 2:
				wantNone(t, h.Handle(t.Context(), messages(1, 2)))
				w.age(2 * time.Hour)
			case 3:
				cancel()
			}
			turn++
		})
		if err != nil || turn != 4 {
			t.Errorf("%d turns, %v", turn, err)
		}
		if err := h.PruneEvery(ctx, 0, time.Hour, nil); err == nil || !strings.Contains(err.Error(), "interval") {
			t.Errorf("interval 0: %v", err)
		}
		if err := h.PruneEvery(ctx, time.Hour, -1, nil); err == nil || !strings.Contains(err.Error(), "older than") {
			t.Errorf("older than -1: %v", err)
		}
		_ = w.db.Close() // its goroutine is the bubble's
	})
}

// Another process writes to the file: that is waited for, with busy_timeout and
// without, and blames nobody when it takes too long.
func TestSQLiteBusy(t *testing.T) {
	for name, parameters := range map[string]string{"bare": "", "busy_timeout": "&_pragma=busy_timeout(20)", "immediate": "&_txlock=immediate"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, openSQLite(t, parameters), sqlonce.SQLite)
			patient := w.handler(apply, sqlonce.Options{ConflictWait: time.Minute})
			hasty := w.handler(apply, sqlonce.Options{ConflictWait: time.Millisecond})
			writer, err := w.db.BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := writer.ExecContext(t.Context(), "CREATE TABLE busy (n INTEGER)"); err != nil {
				t.Fatal(err)
			}
			batch := messages(2, 2)
			for i, err := range hasty.Handle(t.Context(), batch) {
				var later *delivery.Later
				if !errors.As(err, &later) {
					t.Errorf("message %d: %v", i, err)
				}
			}
			done := make(chan []error)
			go func() { done <- patient.Handle(t.Context(), batch) }()
			select {
			case errs := <-done:
				t.Errorf("answered %v while another wrote", errs)
			case <-time.After(100 * time.Millisecond):
			}
			if err := writer.Commit(); err != nil {
				t.Error(err)
			}
			wantNone(t, <-done)
			w.wantOnce(batch)
		})
	}
}

func TestInvalidOptions(t *testing.T) {
	db := openSQLite(t, "")
	long := strings.Repeat("x", 49)
	for _, c := range []struct {
		o    sqlonce.Options
		want string
	}{
		{sqlonce.Options{Table: `a"; DROP TABLE b`}, "table:"},
		{sqlonce.Options{Table: "a.b.c"}, "table:"},
		{sqlonce.Options{Table: "a."}, "table:"},
		{sqlonce.Options{Table: "1a"}, "table:"},
		{sqlonce.Options{Table: "SQLite_a"}, "table:"},
		{sqlonce.Options{Table: long}, "table:"},
		{sqlonce.Options{MaxBatch: -1}, "max batch:"},
		{sqlonce.Options{MaxBatch: 10_001}, "max batch:"},
		{sqlonce.Options{ConflictWait: -1}, "conflict wait:"},
		{sqlonce.Options{Isolation: 99}, "isolation:"},
	} {
		if _, err := sqlonce.New(db, sqlonce.SQLite, apply, c.o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %s", c.o, err, c.want)
		}
	}
	_, err := sqlonce.New(nil, 0, nil, sqlonce.Options{Table: "-", MaxBatch: -1})
	for _, field := range []string{"table:", "max batch:", "db:", "dialect:", "function:"} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%v does not name %s", err, field)
		}
	}
}

// The stack of a panic is there for a log.
func TestPanicError(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		h := w.handler(func(context.Context, *sql.Tx, delivery.Delivery) error { panic("why") }, sqlonce.Options{})
		var p *sqlonce.PanicError
		errs := h.Handle(t.Context(), messages(1, 1))
		if len(errs) != 1 || !errors.As(errs[0], &p) || p.Value != "why" || !strings.Contains(string(p.Stack), "TestPanicError") {
			t.Errorf("got %v", errs)
		}
	})
}
