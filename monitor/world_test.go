package monitor_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"go.uber.org/goleak"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/monitor"
	"github.com/rounds-dev/rounds/testing/faketime"
	"github.com/rounds-dev/rounds/testing/processes"
)

// The race detector watches the tests in which monitors run beside each other, beside pollers or through
// an outage, and those of the loop. The others take the same steps, one after another.
func TestMain(m *testing.M) {
	faketime.Lean()
	goleak.VerifyTestMain(processes.Watched(m,
		"TestThreeMonitorsRequeueEachEntryOnce", "TestMonitorsAndSlowPollersKeepTheLaw", "TestOneMonitorIsOnDuty", "TestNobodyIsLostWhileRedisIsAway",
		"TestRunOutlivesAnOutageAndTellsOfIt", "TestRunEndsWithItsContextAndLeavesNothingBehind", "TestAuditGoesOnAfterAnOutage", "TestAScanGoesOnAfterAnOutage",
		"TestDeadReplicasAccountsAreBackWithinTwentySeconds", "TestReturnInBetweenIsCompensated", "TestMetricsAfterAMinute", "TestMonitorMigrates",
		"TestProcessesThatGoAreCounted", "TestSharesOfShards", "TestAllShardsOfANodeArePutRight"))
}

const (
	alice = "alice00000"
	bob   = "bob0000000"
	carol = "carol00000"
)

// world is a ring that is monitored.
type world struct{ *faketime.World }

func inFakeTime(t *testing.T, shards int, test func(w *world)) {
	t.Helper()
	faketime.Run(t, shards, func(w *faketime.World) { test(&world{w}) })
}

func (w *world) monitor(config monitor.Config) *monitor.Monitor {
	w.Helper()
	m, err := monitor.New(w.Ring, config, monitor.Options{Log: faketime.Log(w.T), Metrics: monitor.NewMetrics(w.Metrics)})
	if err != nil {
		w.Fatal(err)
	}
	return m
}

// register registers accounts that are due at once.
func (w *world) register(ids ...string) {
	w.Helper()
	for _, id := range ids {
		w.Register(circulate.Registration{ID: id, Record: []byte("{}")})
	}
}

// claim claims up to n accounts of a shard.
func (w *world) claim(shard int, replica string, n int) []circulate.Claim {
	w.Helper()
	b, err := w.Ring.Claim(w.Context(), shard, replica, n, 0)
	if err != nil {
		w.Fatal(err)
	}
	return b.Claims
}

func (w *world) beat(replicas ...string) {
	w.Helper()
	for _, r := range replicas {
		if _, err := w.Ring.Heartbeat(w.Context(), r, nil, time.Minute); err != nil {
			w.Fatal(err)
		}
	}
}

// pass lets time pass while replicas beat so often that none counts as dead.
func (w *world) pass(d time.Duration, replicas ...string) {
	w.Helper()
	for end := time.Now().Add(d); ; {
		w.beat(replicas...)
		left := time.Until(end)
		if left <= 0 {
			return
		}
		time.Sleep(min(left, 3*time.Second))
	}
}

// sweep sweeps and expects how many were requeued for which reason.
func (w *world) sweep(m *monitor.Monitor, stale, orphaned int) monitor.Swept {
	w.Helper()
	s, err := m.Sweep(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	if s.Stale != stale || s.Orphaned != orphaned {
		w.Errorf("swept %+v, want %d stale and %d orphaned", s, stale, orphaned)
	}
	return s
}

// expectLaw expects that many accounts, each in exactly one place under its current
// ticket. It reads the places itself and does not ask the ring.
func expectLaw(t *testing.T, server circulate.Server, ring *circulate.Ring, accounts int) {
	t.Helper()
	conn, err := server.Conn(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	strings := func(name string, args ...any) []string {
		t.Helper()
		texts, err := redis.Strings(conn.Do(name, args...))
		if err != nil {
			t.Fatal(err)
		}
		return texts
	}
	seen := 0
	for shard := range ring.Shards() {
		in, current := make(map[string][]string), make(map[string]string)
		pairs := strings("HGETALL", key(ring, shard, "tickets"))
		for i := 0; i < len(pairs); i += 2 {
			current[pairs[i]] = pairs[i+1][:14]
		}
		for _, place := range []string{"schedule", "parked"} {
			for _, id := range strings("ZRANGE", key(ring, shard, place), 0, -1) {
				in[id] = append(in[id], place)
			}
		}
		for _, place := range []string{"message_queue", "message_queue:urgent", "message_queue:low", "processing_list"} {
			for _, text := range strings("LRANGE", key(ring, shard, place), 0, -1) {
				if e, err := circulate.ParseEntry(text); err == nil && current[e.ID] == fmt.Sprintf("%014d", e.Ticket) {
					in[e.ID] = append(in[e.ID], place)
				}
			}
		}
		seen += len(current)
		for id := range current {
			if len(in[id]) != 1 {
				t.Errorf("%q is in %v", id, in[id])
			}
		}
	}
	if seen != accounts {
		t.Errorf("%d accounts, want %d", seen, accounts)
	}
}

func key(ring *circulate.Ring, shard int, name string) string {
	return fmt.Sprintf("{%s:%0*d}:%s", ring.Namespace(), len(fmt.Sprint(ring.Shards()-1)), shard, name)
}
