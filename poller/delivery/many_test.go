package delivery_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rounds-dev/rounds/poller/delivery"
	"github.com/rounds-dev/rounds/testing/faketime"
)

// TestManyIdleGroupsCostLittle runs a consumer of each of many groups in one process. While
// nothing happens, only the number of heartbeats grows with the number of groups. When a
// message comes, all groups get it at once.
func TestManyIdleGroupsCostLittle(t *testing.T) {
	inFakeTime(t, 16, func(w *world) {
		const groups = 50
		own := &process{names: w.names}
		server := &faketime.Faulty{Server: w.Redis}
		server.Set(own.fate)
		ring := w.Open(server)
		ctx, cancel := context.WithCancel(context.Background())
		var consumers sync.WaitGroup
		journals := make([]journal, groups)
		for i := range groups {
			c := delivery.Consumer{Ring: ring, Group: fmt.Sprint("g", i), Handler: journals[i].handler()}
			consumers.Go(func() {
				if err := c.Run(ctx); err != nil {
					t.Error(err)
				}
			})
		}
		time.Sleep(time.Minute)
		count := func() map[string]int {
			own.mu.Lock()
			defer own.mu.Unlock()
			all := make(map[string]int)
			for name, n := range own.calls {
				all[name] = n
			}
			return all
		}
		before := count()
		time.Sleep(time.Minute)
		after := count()
		for name, most := range map[string]int{
			"XREAD":     61,          // one wait a second
			"renew":     13 * 16,     // of all groups' leases of a shard, each 5 s
			"survey":    5 * 16,      // of all groups in a shard, each 15 s
			"HMGET":     61,          // one look a second whether the number of shards changes
			"heartbeat": 61 * groups, // of each consumer, each second
			"read":      0,
			"lease":     0,
		} {
			if n := after[name] - before[name]; n > most {
				t.Errorf("%d of %s in a minute, want at most %d", n, name, most)
			}
			delete(after, name)
		}
		for name, n := range after {
			if n > before[name] {
				t.Errorf("%d of %s in a minute", n-before[name], name)
			}
		}
		for i := range 20 {
			w.add(1, fmt.Sprint("account", i))
			time.Sleep(20 * time.Millisecond)
			synctest.Wait()
			for g := range journals {
				if n := journals[g].total(); n != i+1 {
					t.Fatalf("group %d has %d of %d messages", g, n, i+1)
				}
			}
		}
		cancel()
		consumers.Wait()
	})
}
