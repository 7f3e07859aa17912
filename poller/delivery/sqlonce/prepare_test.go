package sqlonce_test

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/rounds-dev/rounds/poller/delivery"
	"github.com/rounds-dev/rounds/poller/delivery/sqlonce"
	"github.com/rounds-dev/rounds/testing/pgtest"
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
		w.exec("CREATE VIEW seen AS SELECT * FROM effects")
		for _, table := range []string{"other", "unkeyed", "seen", "nowhere.applied"} {
			h, err := sqlonce.New(w.db, w.dialect, apply, sqlonce.Options{Table: table})
			if err != nil {
				t.Fatal(err)
			}
			err = h.Prepare(t.Context())
			if err == nil || !strings.Contains(err.Error(), "table "+table) {
				t.Errorf("table %s: %v", table, err)
			}
			const shape = "a table of another shape has this name; name another one in Options.Table"
			if err != nil && strings.Contains(err.Error(), shape) != (table != "nowhere.applied") {
				t.Errorf("table %s: %v", table, err)
			}
		}
	})
}

// A table that is dropped while the handler is in use is created again.
func TestADroppedTableIsCreatedAgain(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		h := w.handler(apply, sqlonce.Options{})
		batch := messages(2, 6)
		wantNone(t, h.Handle(t.Context(), batch[:2]))
		w.exec("DROP TABLE rounds_applied")
		wantNone(t, h.Handle(t.Context(), batch[2:]))
		wantNone(t, h.Handle(t.Context(), batch[2:])) // they are recorded
		if n := w.count("SELECT count(*) FROM rounds_applied"); n != 4 {
			t.Errorf("%d records, want 4", n)
		}
		w.wantOnce(batch)
	})
}

// If the handler may not create the dropped table, no message is to blame, and the error says both.
func TestADroppedTableThatCannotBeCreated(t *testing.T) {
	w := newWorld(t, shared(t).Database(t), sqlonce.PostgreSQL)
	h := w.handler(apply, sqlonce.Options{})
	w.exec("DROP TABLE rounds_applied")
	w.exec("REVOKE CREATE ON SCHEMA public FROM PUBLIC")
	w.exec("CREATE ROLE poor")
	t.Cleanup(func() { _, _ = w.db.Exec("DROP OWNED BY poor; DROP ROLE poor") })
	w.db.SetMaxOpenConns(1)
	w.exec("SET ROLE poor")
	defer w.exec("RESET ROLE")
	errs := h.Handle(t.Context(), messages(1, 1))
	var later *delivery.Later
	if len(errs) != 1 || !errors.As(errs[0], &later) || !strings.Contains(errs[0].Error(), "rounds_applied") || !strings.Contains(errs[0].Error(), "the table cannot be created again") {
		t.Errorf("got %v", errs)
	}
}

// If the table exists already, the handler needs no right to create one.
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

// A server that is away is no reason to give up.
func TestPrepareAway(t *testing.T) {
	server := pgtest.Start(t)
	w := newWorld(t, server.Database(t), sqlonce.PostgreSQL)
	h := w.handler(apply, sqlonce.Options{Table: "later"})
	server.Kill()
	var later *delivery.Later
	if err := h.Prepare(t.Context()); !errors.As(err, &later) || later.Target != "database" || !strings.Contains(err.Error(), "table later") {
		t.Errorf("away: %v", err)
	}
	server.Restart(t)
	for errors.As(h.Prepare(t.Context()), &later) { // each try finds one more connection that the kill broke
	}
	if err := h.Prepare(t.Context()); err != nil {
		t.Error(err)
	}
}
