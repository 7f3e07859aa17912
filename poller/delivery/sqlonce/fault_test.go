package sqlonce_test

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/poller/delivery"
	"github.com/rounds-dev/rounds/poller/delivery/sqlonce"
	"github.com/rounds-dev/rounds/testing/pgtest"
)

// wantUnknown checks that each message of a batch has an error, and not the one of a database
// that is unreachable.
func wantUnknown(t *testing.T, errs []error) {
	t.Helper()
	for i, err := range errs {
		var later *delivery.Later
		if err == nil || errors.As(err, &later) {
			t.Errorf("message %d of a commit without an answer: %v", i, err)
		}
	}
	if errs == nil {
		t.Error("a commit without an answer was taken for done")
	}
}

// The connection is cut during the commit, either before the commit reaches the server or
// after it was executed and the answer is on its way back.
func TestCommitCut(t *testing.T) {
	for name, executed := range map[string]bool{"request lost": false, "answer lost": true} {
		t.Run("PostgreSQL, "+name, func(t *testing.T) {
			t.Parallel()
			server := shared(t)
			database := server.NewDatabase(t)
			w := newWorld(t, pgtest.Open(t, server.URL(database)), sqlonce.PostgreSQL)
			direct := w.handler(apply, sqlonce.Options{})
			proxy := newCutter(t, server.Addr())
			h, err := sqlonce.New(pgtest.Open(t, server.URLAt(proxy.addr(), database)), sqlonce.PostgreSQL, apply, sqlonce.Options{})
			if err != nil {
				t.Fatal(err)
			}
			testCut(t, w, h, direct, func() { proxy.cutNext(executed) }, executed)
		})
		t.Run("SQLite, "+name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, openSQLite(t, ""), sqlonce.SQLite)
			direct := w.handler(apply, sqlonce.Options{})
			var cut, lost atomic.Bool
			lost.Store(executed)
			db := sql.OpenDB(&liar{driver: w.db.Driver(), name: fileOf(t, w.db), cut: &cut, executed: &lost})
			t.Cleanup(func() { _ = db.Close() })
			h, err := sqlonce.New(db, sqlonce.SQLite, apply, sqlonce.Options{})
			if err != nil {
				t.Fatal(err)
			}
			testCut(t, w, h, direct, func() { cut.Store(true) }, executed)
		})
	}
}

func testCut(t *testing.T, w *world, h, direct *sqlonce.Handler, cut func(), executed bool) {
	batch := messages(3, 12)
	wantNone(t, h.Handle(t.Context(), batch[:4]))
	cut()
	wantUnknown(t, h.Handle(t.Context(), batch[4:]))
	want := 4
	if executed {
		want = 12
	}
	if n := w.count("SELECT count(*) FROM effects"); n != want {
		t.Errorf("%d effects after the cut, want %d", n, want)
	}
	wantNone(t, direct.Handle(t.Context(), batch))
	w.wantOnce(batch)
}

// The server ends the backend while it commits.
func TestBackendTerminatedInCommit(t *testing.T) {
	w := newWorld(t, shared(t).Database(t), sqlonce.PostgreSQL)
	w.exec("CREATE TABLE armed (n int)")
	w.exec("CREATE TABLE bombs (n int)")
	w.exec(`CREATE FUNCTION explode() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		PERFORM pg_terminate_backend(pg_backend_pid()) FROM armed;
		RETURN NULL; END $$`)
	w.exec("CREATE CONSTRAINT TRIGGER bomb AFTER INSERT ON bombs DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION explode()")
	w.exec("INSERT INTO armed VALUES (1)")
	h := w.handler(func(ctx context.Context, tx *sql.Tx, d delivery.Delivery) error {
		if _, err := tx.ExecContext(ctx, "INSERT INTO bombs VALUES (1)"); err != nil {
			return err
		}
		return apply(ctx, tx, d)
	}, sqlonce.Options{})
	batch := messages(2, 6)
	wantUnknown(t, h.Handle(t.Context(), batch))
	w.exec("DELETE FROM armed")
	wantNone(t, h.Handle(t.Context(), batch))
	w.wantOnce(batch)
}

// The server is killed again and again while consumers are in the middle of transactions and
// commits.
func TestServerKilled(t *testing.T) {
	server := pgtest.Start(t)
	w := newWorld(t, server.Database(t), sqlonce.PostgreSQL)
	batch := messages(40, 2000)
	var applied, away atomic.Int64
	h := w.handler(func(ctx context.Context, tx *sql.Tx, d delivery.Delivery) error {
		applied.Add(1)
		return apply(ctx, tx, d)
	}, sqlonce.Options{MaxBatch: 10})
	// All messages of an account go to one consumer.
	parts := make([][]delivery.Delivery, 4)
	for i, d := range batch {
		parts[i%len(parts)] = append(parts[i%len(parts)], d)
	}
	var consumers sync.WaitGroup
	done := make(chan struct{})
	for _, part := range parts {
		consumers.Go(func() {
			for len(part) > 0 && t.Context().Err() == nil {
				n := min(50, len(part))
				errs := h.Handle(t.Context(), part[:n])
				wantHeld(t, part[:n], errs)
				for _, err := range errs {
					var later *delivery.Later
					if errors.As(err, &later) {
						away.Add(1)
					}
				}
				part = append(unapplied(part[:n], errs), part[n:]...)
			}
		})
	}
	go func() { consumers.Wait(); close(done) }()
	for kill := range int64(3) {
		awaitCalls(t, &applied, (kill+1)*400, done)
		server.Kill()
		server.Restart(t)
	}
	<-done
	w.wantOnce(batch)
	if away.Load() == 0 {
		t.Error("nobody noticed that the server was away")
	}
	// The group is set back to its start.
	wantNone(t, h.Handle(t.Context(), batch))
	w.wantOnce(batch)
}

// awaitCalls waits until the function was called n times. The test fails if done is closed
// before that.
func awaitCalls(t *testing.T, calls *atomic.Int64, n int64, done <-chan struct{}) {
	t.Helper()
	poll := time.NewTicker(time.Millisecond)
	defer poll.Stop()
	for calls.Load() < n {
		select {
		case <-poll.C:
		case <-done:
			t.Fatal("all was applied before the server could be killed")
		}
	}
}

// When the database is unreachable, that counts against no message. The handler tries it only
// once for each batch.
func TestAway(t *testing.T) {
	server := pgtest.Start(t)
	w := newWorld(t, server.Database(t), sqlonce.PostgreSQL)
	h := w.handler(apply, sqlonce.Options{})
	server.Kill()
	batch := messages(3, 9)
	for i, err := range h.Handle(t.Context(), batch) {
		var later *delivery.Later
		if i < 3 && (!errors.As(err, &later) || later.After != time.Second || later.Target != "database") || i >= 3 && !errors.Is(err, delivery.ErrHeld) {
			t.Errorf("message %d: %v", i, err)
		}
	}
	server.Restart(t)
	for left := batch; len(left) > 0; { // each try finds one more connection that the kill broke
		left = unapplied(left, h.Handle(t.Context(), left))
	}
	w.wantOnce(batch)
}

// A consumer that is told to stop leaves nothing half done. That counts against no message.
func TestStopped(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		ctx, cancel := context.WithCancel(t.Context())
		batch := messages(6, 6)
		h := w.handler(func(ctx context.Context, tx *sql.Tx, d delivery.Delivery) error {
			if err := apply(ctx, tx, d); err != nil {
				return err
			}
			if d.Message.ID == batch[3].Message.ID {
				cancel()
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		}, sqlonce.Options{})
		for range 2 {
			errs := h.Handle(ctx, batch)
			for i := range batch {
				var later *delivery.Later
				if errs == nil || !errors.As(errs[i], &later) || !errors.Is(errs[i], context.Canceled) {
					t.Fatalf("message %d: %v", i, errs)
				}
			}
		}
		w.wantOnce(nil)
	})
}

// A message that uses up the batch's time counts as failed. The others do not.
func TestDeadline(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		batch := messages(3, 3)
		h := w.handler(func(ctx context.Context, _ *sql.Tx, d delivery.Delivery) error {
			if d.Account == "a1" {
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		}, sqlonce.Options{})
		for i, err := range h.Handle(ctx, batch) {
			var later *delivery.Later
			if errors.As(err, &later) == (i == 1) || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("message %d: %v", i, err)
			}
		}
	})
}
