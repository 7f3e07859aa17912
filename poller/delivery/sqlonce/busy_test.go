package sqlonce_test

import (
	"errors"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/poller/delivery"
	"github.com/rounds-dev/rounds/poller/delivery/sqlonce"
)

// While another process writes to the file, the handler waits, with busy_timeout and without.
// If that takes too long, it does not count against any message.
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
