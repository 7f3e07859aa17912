package monitor_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/monitor"
)

// die puts dead letters into a shard.
func (w *world) die(shard, n int) {
	w.Helper()
	for i := range n {
		w.Do("XADD", w.Key(shard, "dead"), "*", "for", "crm", "error", "refused", "deliveries", "8", "position", "1-1",
			"account", "a", "kind", "feed", "id", fmt.Sprint(i), "type", "text", "time", "", "data", "{}")
	}
}

func (w *world) dead(want string) {
	w.Helper()
	w.exposed(want, "rounds_dead_letters", "rounds_dead_letter_oldest_seconds", "rounds_dead_letters_dropped_total")
}

func TestDeadLettersAreKeptForTheirRetentionAndShown(t *testing.T) {
	inFakeTime(t, 2, func(w *world) {
		w.die(0, 3)
		time.Sleep(time.Hour)
		w.die(1, 2)
		stop := w.run(monitor.Config{DeadRetention: 2 * time.Hour, SweepInterval: time.Minute})
		time.Sleep(time.Second)
		w.dead(`
			# TYPE rounds_dead_letter_oldest_seconds gauge
			rounds_dead_letter_oldest_seconds 3600
			# TYPE rounds_dead_letters gauge
			rounds_dead_letters 5
			# TYPE rounds_dead_letters_dropped_total counter
			rounds_dead_letters_dropped_total 0`)
		time.Sleep(90 * time.Minute)
		w.dead(`
			# TYPE rounds_dead_letter_oldest_seconds gauge
			rounds_dead_letter_oldest_seconds 5400
			# TYPE rounds_dead_letters gauge
			rounds_dead_letters 2
			# TYPE rounds_dead_letters_dropped_total counter
			rounds_dead_letters_dropped_total 3`)
		stop()
	})
}

func TestDeadLettersAreKeptUpToANumber(t *testing.T) {
	inFakeTime(t, 3, func(w *world) {
		w.die(0, 50)
		w.die(1, 4)
		stop := w.run(monitor.Config{DeadKept: 10})
		time.Sleep(time.Second)
		for shard, want := range []int64{6, 4, 0} {
			if n := w.Do("XLEN", w.Key(shard, "dead")); n != want {
				t.Errorf("shard %d has %d, want %d", shard, n, want)
			}
		}
		stop()
	})
	inFakeTime(t, 1, func(w *world) {
		w.die(0, 50)
		stop := w.run(monitor.Config{})
		time.Sleep(11 * time.Minute) // longer than every interval
		if n := w.Do("XLEN", w.Key(0, "dead")); n != int64(50) {
			t.Errorf("without a limit %d are left", n)
		}
		stop()
	})
}

// Each shard retains its newest letter, even if fewer letters may stay than there are
// shards: without it nobody would see that deliveries fail.
func TestDeadLettersOfEachShardAreKeptBelowOneForEach(t *testing.T) {
	inFakeTime(t, 3, func(w *world) {
		for shard := range 3 {
			w.die(shard, 5+shard)
		}
		stop := w.run(monitor.Config{DeadKept: 2})
		time.Sleep(time.Second)
		for shard := range 3 {
			if n := w.Do("XLEN", w.Key(shard, "dead")); n != int64(1) {
				t.Errorf("shard %d has %d, want the newest alone", shard, n)
			}
		}
		stop()
	})
}
