package sqlonce_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rounds-dev/rounds/poller/delivery/sqlonce"
)

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
		begun, step := time.Now(), 0
		err := h.PruneEvery(ctx, time.Hour, time.Hour, func(pruned int64, err error) {
			if at := time.Since(begun); at != time.Duration(step)*time.Hour {
				t.Errorf("step %d after %v", step, at)
			}
			if want := map[int]int64{0: 3, 3: 2}[step]; pruned != want || (err != nil) != (step == 1) {
				t.Errorf("step %d: pruned %d, %v", step, pruned, err)
			}
			switch step {
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
			step++
		})
		if err != nil || step != 4 {
			t.Errorf("%d steps, %v", step, err)
		}
		if err := h.PruneEvery(ctx, 0, time.Hour, nil); err == nil || !strings.Contains(err.Error(), "interval") {
			t.Errorf("interval 0: %v", err)
		}
		if err := h.PruneEvery(ctx, time.Hour, -1, nil); err == nil || !strings.Contains(err.Error(), "older than") {
			t.Errorf("older than -1: %v", err)
		}
		_ = w.db.Close() // its goroutine belongs to the bubble
	})
}
