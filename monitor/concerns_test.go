package monitor_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/monitor"
	"github.com/rounds-dev/rounds/testing/faketime"
	"github.com/rounds-dev/rounds/testing/processes"
)

// unsettled is a Redis whose settings change.
type unsettled struct {
	mu      sync.Mutex
	found   []monitor.Concern
	failure error
}

func (u *unsettled) set(failure error, found ...monitor.Concern) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.found, u.failure = found, failure
}

func (u *unsettled) concerns(context.Context) ([]monitor.Concern, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.found, u.failure
}

// A setting of Redis that could lose data is logged when it begins and when it ends,
// while the service runs. A server that cannot be asked proves nothing.
func TestConcernsAreToldOnceAndWhenTheyEnd(t *testing.T) {
	inFakeTime(t, 1, func(w *world) {
		redis, log := new(unsettled), new(processes.Output)
		m, err := monitor.New(w.Ring, monitor.Config{}, monitor.Options{
			Log: slog.New(slog.NewTextHandler(log, nil)), Metrics: monitor.NewMetrics(w.Metrics), Concerns: redis.concerns,
		})
		if err != nil {
			w.Fatal(err)
		}
		stop := faketime.Go(w.T, m.Run)
		time.Sleep(90 * time.Second)
		w.exposed("", "rounds_redis_concerns")
		told := func(what string, want int) {
			w.Helper()
			if got := strings.Count(log.String(), what); got != want {
				w.Errorf("%q was told %d times, want %d:\n%s", what, got, want, log)
			}
		}
		redis.set(nil, monitor.Concern{Node: "n", Code: "eviction", Text: "accounts are dropped"},
			monitor.Concern{Node: "m", Code: "unasked", Text: "it may not be asked", Mild: true})
		time.Sleep(5 * time.Minute)
		told(`level=WARN msg="accounts are dropped"`, 1)
		told(`level=INFO msg="it may not be asked"`, 1)
		both := `
			# TYPE rounds_redis_concerns gauge
			rounds_redis_concerns{concern="eviction",node="n"} 1
			rounds_redis_concerns{concern="unasked",node="m"} 1`
		w.exposed(both, "rounds_redis_concerns")
		redis.set(errors.New("away"))
		time.Sleep(5 * time.Minute)
		told("has ended", 0)
		w.exposed(both, "rounds_redis_concerns")
		redis.set(nil)
		time.Sleep(5 * time.Minute)
		told("has ended", 2)
		w.exposed("", "rounds_redis_concerns")
		stop()
	})
}
