package monitor_test

import (
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/monitor"
	"github.com/rounds-dev/rounds/testing/faketime"
)

// nodes is a cluster in which one node has the replicas' names and another has the rest.
type nodes struct{ *faketime.Faulty }

func (nodes) NodeOf(key string) string {
	if strings.HasSuffix(key, ":replicas") {
		return "names"
	}
	return "shards"
}

// While the node that has the replicas' names is away, claims that outlast the long
// timeout are requeued, and no replica counts as dead.
func TestShardsAreSweptWithoutTheReplicasNames(t *testing.T) {
	inFakeTime(t, 2, func(w *world) {
		ring, err := circulate.Open(w.Context(), nodes{w.Server}, circulate.Options{Log: faketime.Log(w.T)})
		if err != nil {
			w.Fatal(err)
		}
		w.Ring = ring
		w.register("a", "b", "c", "d")
		m := w.monitor(monitor.Config{})
		for shard := range 2 {
			w.claim(shard, alice, 10)
		}
		w.pass(5*time.Second, alice)
		w.sweep(m, 0, 0)
		w.Server.Set(func(s faketime.Step) faketime.Fate {
			if s.At == faketime.Connect && strings.HasSuffix(s.Key, ":replicas") {
				return faketime.NotDone
			}
			return faketime.Healthy
		})
		for range 10 { // alice is silent, as far as anybody knows
			time.Sleep(20 * time.Second)
			if s, err := m.Sweep(w.Context()); err == nil || s.Orphaned+s.Stale > 0 {
				t.Errorf("swept %+v, %v", s, err)
			}
		}
		time.Sleep(2 * time.Minute)
		if s, err := m.Sweep(w.Context()); err == nil || s.Stale != 4 || s.Orphaned != 0 {
			t.Errorf("swept %+v, %v, want what is older than the long timeout", s, err)
		}
		w.Server.Set(nil)
		w.beat(alice)
		w.claim(0, alice, 1)
		time.Sleep(time.Minute)
		w.sweep(m, 0, 0) // what was known before proves nothing
	})
}
