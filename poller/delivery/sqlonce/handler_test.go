package sqlonce_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/rounds-dev/rounds/poller/delivery"
	"github.com/rounds-dev/rounds/poller/delivery/sqlonce"
)

// A group that is set back delivers everything again. After a failover, messages that are
// found again have other positions. Neither applies anything twice. Another group is another
// consumer, which applies everything for itself.
func TestRedelivered(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		batch := messages(7, 100)
		h := w.handler(apply, sqlonce.Options{})
		wantNone(t, h.Handle(t.Context(), batch))
		wantNone(t, h.Handle(t.Context(), batch))
		for i := range batch {
			batch[i].Position = fmt.Sprintf("2-%d", i)
			batch[i].Attempt = 1 + i%4
		}
		wantNone(t, h.Handle(t.Context(), append(batch, batch...)))
		w.wantOnce(batch)
		for i := range batch {
			batch[i].Group = "other"
		}
		wantNone(t, h.Handle(t.Context(), batch))
		if n := w.count("SELECT count(*) FROM effects"); n != 200 {
			t.Errorf("%d effects for two groups, want 200", n)
		}
	})
}

func TestWithoutID(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		h := w.handler(apply, sqlonce.Options{})
		one, two, reused := message("a", "", "1-1"), message("a", "", "1-2"), message("a", "", "1-1")
		reused.Message.Data = []byte(`"another"`)
		wantNone(t, h.Handle(t.Context(), []delivery.Delivery{one, two, one}))
		wantNone(t, h.Handle(t.Context(), []delivery.Delivery{one, reused, reused}))
		if n := w.count("SELECT count(*) FROM effects"); n != 3 {
			t.Errorf("%d effects, want 3", n)
		}
	})
}

// Ids that a key cannot hold, and ids that could be mistaken for each other.
func TestOddIdentities(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		count := func(ctx context.Context, tx *sql.Tx, _ delivery.Delivery) error {
			_, err := tx.ExecContext(ctx, "INSERT INTO effects (account, message) VALUES ('', '')")
			return err
		}
		h := w.handler(count, sqlonce.Options{})
		odd := []string{"x", "X", "x ", "é", "e\u0301", "a\x00", "a\x00b", "\xff", "\xfe", "1", "01", "null", `"`, `\`, "at:1-1", "sha256:", "<&>\u2028",
			strings.Repeat("l", 100_000), strings.Repeat("l", 100_001), "\U0001f600"}
		var batch []delivery.Delivery
		for i, id := range odd {
			batch = append(batch, message("a", id, fmt.Sprint(i)), message(id, "m", fmt.Sprint(i)))
			other := message("a", "m", fmt.Sprint(i))
			other.Group = id
			batch = append(batch, other)
		}
		wantNone(t, h.Handle(t.Context(), batch))
		wantNone(t, h.Handle(t.Context(), batch))
		if n := w.count("SELECT count(*) FROM effects"); n != len(batch) {
			t.Errorf("%d effects, want %d", n, len(batch))
		}
	})
}

// The function fails and panics at random after its effect, until all is applied.
func TestFailuresAndPanics(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		var mu sync.Mutex
		random := rand.New(rand.NewPCG(1, 2))
		h := w.handler(func(ctx context.Context, tx *sql.Tx, d delivery.Delivery) error {
			if err := apply(ctx, tx, d); err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			switch random.IntN(12) {
			case 0:
				return errors.New("failed")
			case 1:
				panic("panicked")
			case 2:
				return fmt.Errorf("nonsense: %w", delivery.ErrAcknowledged)
			case 3:
				panic(delivery.ErrAcknowledged)
			}
			return nil
		}, sqlonce.Options{MaxBatch: 32})
		batch := messages(9, 120)
		for left, round := batch, 0; len(left) > 0; round++ {
			errs := h.Handle(t.Context(), left)
			wantHeld(t, left, errs)
			left = unapplied(left, errs)
			if round == 200 {
				t.Fatalf("%d messages are still not applied", len(left))
			}
		}
		w.wantOnce(batch)
	})
}

// wantHeld checks that exactly the messages behind a failed one of their account have the
// error ErrHeld, and that none has ErrAcknowledged.
func wantHeld(t *testing.T, batch []delivery.Delivery, errs []error) {
	t.Helper()
	failed := map[string]bool{}
	for i, err := range errs {
		if held := errors.Is(err, delivery.ErrHeld); held != failed[batch[i].Account] {
			t.Errorf("message %d: %v, an earlier one failed: %t", i, err, failed[batch[i].Account])
		}
		if errors.Is(err, delivery.ErrAcknowledged) {
			t.Errorf("message %d answers as acknowledged: %v", i, err)
		}
		failed[batch[i].Account] = failed[batch[i].Account] || err != nil
	}
}

// A message that cannot be applied holds up only those behind it in its account, wherever its
// transaction fails.
func TestPoison(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.exec("CREATE TABLE parents (id TEXT PRIMARY KEY)")
		w.exec("CREATE TABLE children (parent TEXT REFERENCES parents (id) DEFERRABLE INITIALLY DEFERRED)")
		w.exec("CREATE TABLE taken (id TEXT PRIMARY KEY)")
		w.exec("INSERT INTO taken VALUES ('x')")
		abort := "INSERT INTO taken VALUES ('x')"
		if w.dialect == sqlonce.SQLite {
			abort = "INSERT OR ROLLBACK INTO taken VALUES ('x')"
		}
		kinds := map[string]func(context.Context, *sql.Tx) error{
			"error":      func(context.Context, *sql.Tx) error { return errors.New("poison") },
			"panic":      func(context.Context, *sql.Tx) error { panic("poison") },
			"constraint": func(ctx context.Context, tx *sql.Tx) error { _, err := tx.ExecContext(ctx, abort); return err },
			"deferred constraint": func(ctx context.Context, tx *sql.Tx) error {
				if w.dialect == sqlonce.SQLite {
					if _, err := tx.ExecContext(ctx, "PRAGMA defer_foreign_keys = 1"); err != nil {
						return err
					}
				}
				_, err := tx.ExecContext(ctx, "INSERT INTO children VALUES ('none')")
				return err
			},
			"error left out": func(ctx context.Context, tx *sql.Tx) error { _, _ = tx.ExecContext(ctx, abort); return nil },
			"rolled back":    func(_ context.Context, tx *sql.Tx) error { return tx.Rollback() },
		}
		if w.dialect == sqlonce.SQLite {
			w.db.SetMaxOpenConns(1)
			w.exec("PRAGMA foreign_keys = 1")
		}
		for name, poison := range kinds {
			for _, at := range []int{0, 20, 63} {
				w.exec("DELETE FROM effects")
				batch := messages(16, 64)
				calls := 0
				h := w.handler(func(ctx context.Context, tx *sql.Tx, d delivery.Delivery) error {
					calls++
					if err := apply(ctx, tx, d); err != nil {
						return err
					}
					if d.Message.ID == batch[at].Message.ID {
						return poison(ctx, tx)
					}
					return nil
				}, sqlonce.Options{Table: "applied_" + strings.ReplaceAll(name, " ", "_") + fmt.Sprint(at)})
				errs := h.Handle(t.Context(), batch)
				var want []delivery.Delivery
				for i, d := range batch {
					behind := d.Account == batch[at].Account && i > at
					var later *delivery.Later
					switch {
					case i == at && (errs[i] == nil || errors.Is(errs[i], delivery.ErrHeld) || errors.As(errs[i], &later)):
						t.Errorf("%s at %d: the poison answers %v", name, at, errs[i])
					case behind && !errors.Is(errs[i], delivery.ErrHeld):
						t.Errorf("%s at %d: message %d behind it answers %v", name, at, i, errs[i])
					case i != at && !behind && errs[i] != nil:
						t.Errorf("%s at %d: message %d answers %v", name, at, i, errs[i])
					}
					if i != at && !behind {
						want = append(want, d)
					}
				}
				w.wantOnce(want)
				if calls > 8*len(batch) {
					t.Errorf("%s at %d: %d calls for %d messages", name, at, calls, len(batch))
				}
			}
		}
	})
}

// From its third delivery on a message has a transaction of its own.
func TestAloneWhenRedelivered(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		txs := map[*sql.Tx][]string{}
		h := w.handler(func(_ context.Context, tx *sql.Tx, d delivery.Delivery) error {
			txs[tx] = append(txs[tx], d.Message.ID)
			return nil
		}, sqlonce.Options{MaxBatch: 3})
		batch := messages(10, 10)
		batch[2].Attempt, batch[3].Attempt = 3, 4
		wantNone(t, h.Handle(t.Context(), batch))
		sizes := map[int]int{}
		for _, ids := range txs {
			sizes[len(ids)]++
		}
		if sizes[1] != 2 || sizes[2] != 1 || sizes[3] != 2 || len(sizes) != 3 {
			t.Errorf("transactions by size: %v", sizes)
		}
	})
}

func TestConcurrent(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		for _, isolation := range []sql.IsolationLevel{sql.LevelDefault, sql.LevelSerializable} {
			w.exec("DELETE FROM effects")
			h := w.handler(apply, sqlonce.Options{Table: fmt.Sprintf("applied_%d", isolation), Isolation: isolation})
			batch := messages(8, 160)
			var group sync.WaitGroup
			for from := range 6 {
				group.Go(func() {
					// All parts begin at the stream's start and end at different places.
					part := batch[:min(len(batch), 60+from*20)]
					for len(part) > 0 {
						part = unapplied(part, h.Handle(t.Context(), part))
					}
				})
			}
			group.Wait()
			w.wantOnce(batch)
		}
	})
}

// The error of a panic has its stack, for a log.
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
