package poller_test

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/poller"
)

// Two replicas keep a rate and a concurrency that they share. Denied checks wait in the
// schedule, which is not a failure, and other checks are not slowed.
func TestLimitsAreShared(t *testing.T) {
	inFakeTime(t, func(w *world) {
		var running, most atomic.Int32
		w.checker.check = func(_ context.Context, r poller.Request) (poller.Result, error) {
			if r.Account[0] == 'c' {
				if n := running.Add(1); n > most.Load() {
					most.Store(n)
				}
				time.Sleep(500 * time.Millisecond)
				running.Add(-1)
			}
			return poller.Result{}, nil
		}
		limits, err := poller.ParseLimits("scripted/slow rate=5/s burst=5; scripted/narrow concurrency=3", []string{"scripted"})
		if err != nil {
			t.Fatal(err)
		}
		for host, prefix := range map[string]string{"slow": "r", "narrow": "c", "free": "f"} {
			for _, id := range names(prefix, 60) {
				w.registerRecord(id, fmt.Sprintf(`{"id":%q,"kind":"scripted","cadence":"every 1m","config":{"host":%q}}`, id, host))
			}
		}
		other := w.another()
		stop, stopOther := w.start(poller.Config{Limits: limits}), other.start(poller.Config{Limits: limits})
		began := time.Now()
		time.Sleep(5 * time.Second)
		if denials := w.reported().Denials; !slices.ContainsFunc(denials, func(r accounts.Recent) bool { return r.Name == "scripted/slow" && r.PerMinute >= 30 }) {
			t.Errorf("the heartbeats tell of the denials %+v", denials)
		}
		waiting := 0
		for _, id := range names("r", 60) {
			v := w.look(id)
			if accounts.RuleWord(v.Rule) == accounts.RuleLimit && v.Place == circulate.Scheduled && v.Failures == 0 && v.Due.After(v.Now.Add(-time.Second)) {
				waiting++
			}
		}
		if waiting < 20 {
			t.Errorf("%d accounts wait for the rate", waiting)
		}
		time.Sleep(5 * time.Minute)
		stop()
		stopOther()
		var starts []time.Time
		for _, prefix := range []string{"r", "c", "f"} {
			least, sum := 1000, 0
			for _, id := range names(prefix, 60) {
				calls := w.checker.calls(id)
				least = min(least, len(calls))
				sum += len(calls)
				for _, c := range calls {
					if prefix == "r" {
						starts = append(starts, c.at)
					}
				}
			}
			if least < 4 || prefix == "f" && least < 6 {
				t.Errorf("%s: an account was checked %d times in five minutes, all together %d times", prefix, least, sum)
			}
		}
		perSecond := make(map[int]int)
		for _, at := range starts {
			perSecond[int(at.Sub(began).Seconds())]++
		}
		for second, n := range perSecond {
			if n > 10 { // the burst plus the rate
				t.Errorf("%d checks in second %d of an upstream that allows 5", n, second)
			}
		}
		if most.Load() != 3 {
			t.Errorf("%d checks at once of an upstream that allows 3", most.Load())
		}
		// The replica whose part the shards are checks nearly all of the accounts.
		if w.counted("rounds_limit_denials_total", "scripted")+other.counted("rounds_limit_denials_total", "scripted") < 20 {
			t.Error("the denials were not counted")
		}
	})
}

// While the limits do not answer, no account with a limit is checked, and nothing is lost.
func TestLimitsThatDoNotAnswer(t *testing.T) {
	inFakeTime(t, func(w *world) {
		limits, err := poller.ParseLimits("scripted rate=100/s", []string{"scripted"})
		if err != nil {
			t.Fatal(err)
		}
		var cut atomic.Bool
		w.faulty.set(func(command string) fault {
			if cut.Load() && command == "pipeline" {
				return notDone
			}
			return healthy
		})
		w.register("every 10s", names("a", 10)...)
		stop := w.start(poller.Config{Limits: limits})
		time.Sleep(time.Minute)
		before := len(w.checker.calls("a00"))
		cut.Store(true)
		time.Sleep(time.Minute)
		if n := len(w.checker.calls("a00")); before < 5 || n > before+1 {
			t.Errorf("checked %d times before and %d times while the limits were out of reach", before, n-before)
		}
		cut.Store(false)
		time.Sleep(time.Minute)
		if n := len(w.checker.calls("a00")); n < before+5 {
			t.Errorf("checked %d times after it", n-before)
		}
		stop()
		for _, id := range names("a", 10) {
			if v := w.look(id); v.Place != circulate.Scheduled || v.Failures != 0 {
				t.Errorf("%s is %s with %d failures", id, v.Place, v.Failures)
			}
		}
	})
}
