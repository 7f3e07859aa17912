package poller_test

import (
	"context"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/testing/faketime"
)

// newer is a checker that older replicas do not have.
type newer struct{ scripted }

func (*newer) Kind() string { return "newer" }

// Accounts of a kind that only one of two replicas knows are checked, whichever replica their
// shards belong to. Nothing that the other replica does counts against them. The same holds
// for a cadence that a replica cannot read.
func TestWhatAReplicaDoesNotKnowIsLeftToOthers(t *testing.T) {
	inFakeTime(t, func(w *world) {
		ids := names("n", 20)
		for _, id := range ids {
			w.registerRecord(id, `{"id":"`+id+`","kind":"newer","cadence":"every 1m"}`)
			w.strike(id, 1)
		}
		other := w.another()
		known := &newer{scripted{seen: make(map[string][]call)}}
		checkers, err := poller.NewCheckers(known)
		if err != nil {
			w.Fatal(err)
		}
		// Every shard is the older replica's part.
		oldName, newName := circulate.NewReplica(), circulate.NewReplica()
		for alive := []string{oldName, newName}; circulate.Preferred(0, alive) != oldName || circulate.Preferred(1, alive) != oldName; alive[1] = newName {
			newName = circulate.NewReplica()
		}
		old := w.start(poller.Config{Replica: oldName})
		time.Sleep(10 * time.Minute)
		for _, id := range ids {
			if v := w.look(id); v.Place != circulate.Scheduled || v.Failures != 0 || v.Strikes != 1 || v.Error == "" {
				t.Fatalf("%s is %s with %d failures, %d strikes, %q", id, v.Place, v.Failures, v.Strikes, v.Error)
			}
		}
		if n := w.counted("rounds_put_back_total", "unknown_kind"); n < 200 || n > 20*20 {
			t.Errorf("they were given back %v times in ten minutes", n)
		}
		pool, err := poller.New(other.ring, checkers, poller.Config{Replica: newName}, poller.Options{Log: testLog(w.T), Metrics: poller.NewMetrics(other.metrics)})
		if err != nil {
			w.Fatal(err)
		}
		stop := faketime.Go(w, func(ctx context.Context) error { return pool.Run(ctx) })
		time.Sleep(10 * time.Minute)
		for _, id := range ids {
			if n := len(known.calls(id)); n < 8 {
				t.Errorf("%s was checked %d times in ten minutes", id, n)
			}
			if v := w.look(id); v.Place == circulate.Parked || v.Failures != 0 || v.Strikes != 0 {
				t.Errorf("%s is %s with %d failures, %d strikes", id, v.Place, v.Failures, v.Strikes)
			}
		}
		stop()
		old()
	})
}
