package poller_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/poller"
)

// After any fault that ends, every account is on its phase again. The capacity of the replicas
// bounds the catch-up. Each account is checked once in it, however many slots it missed, and
// the longest overdue come first.
func TestEveryAccountIsBackOnItsPhase(t *testing.T) {
	const (
		accounts = 60
		capacity = 5 // checks a second of each replica
	)
	cut := func(string) fault { return notDone }
	lost := func(command string) fault { // the command is executed, but its reply is lost
		if command == "EVALSHA" {
			return replyLost
		}
		return notDone
	}
	for name, tt := range map[string]struct {
		fail  func(string) fault
		both  bool          // the fault hits both replicas, otherwise one
		lasts time.Duration // 0: for ever
	}{
		"Redis is away for ten minutes":  {fail: cut, both: true, lasts: 10 * time.Minute},
		"Redis starts again":             {fail: cut, both: true, lasts: 3 * time.Second},
		"replies are lost for a minute":  {fail: lost, both: true, lasts: time.Minute},
		"one of two replicas is killed":  {fail: cut},
		"a replica is away for a minute": {fail: cut, lasts: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inFakeTime(t, func(w *world) {
				w.checker.check = func(context.Context, poller.Request) (poller.Result, error) {
					time.Sleep(200 * time.Millisecond)
					return poller.Result{}, nil
				}
				ids := names("a", accounts)
				for i, id := range ids {
					w.registerDue(id, "every 1m", time.Now().Add(time.Duration(i)*500*time.Millisecond))
				}
				other := w.another()
				unwatch := w.watch()
				config := poller.Config{Concurrency: capacity / 5, LongTimeout: 2 * time.Minute}
				stop, stopOther := w.start(config), other.start(config)
				time.Sleep(3 * time.Minute)

				began := time.Now()
				other.faulty.set(tt.fail)
				if tt.both {
					w.faulty.set(tt.fail)
				}
				time.Sleep(tt.lasts)
				healed := time.Now()
				if tt.lasts > 0 {
					other.faulty.set(nil)
				}
				w.faulty.set(nil)
				time.Sleep(4 * time.Minute)

				perSecond := make([]int, 240)
				for _, id := range ids {
					var before time.Time
					var after []time.Time
					for _, c := range w.checker.calls(id) {
						switch {
						case c.at.Before(began):
							before = c.at
						case c.at.After(healed):
							after = append(after, c.at)
							perSecond[min(239, int(c.at.Sub(healed).Seconds()))]++
						}
					}
					if len(after) < 3 {
						t.Fatalf("%s was checked %d times in four minutes: %+v", id, len(after), w.look(id))
					}
					last := after[len(after)-1]
					if off := last.Sub(before) % time.Minute; off > 2*time.Second && off < 58*time.Second {
						t.Errorf("%s: its phase moved by %v", id, off)
					}
					// Missed slots make one check. Accounts that a dead replica had claimed
					// may be checked twice, because nobody knows how far it got.
					early := 0
					for _, at := range after {
						if at.Sub(healed) < 50*time.Second {
							early++
						}
					}
					if early > 3 {
						t.Errorf("%s was checked %d times in the first 50 s", id, early)
					}
				}
				for second, n := range perSecond {
					if n > 2*capacity {
						t.Errorf("%d checks in second %d after it, at most %d are possible", n, second, 2*capacity)
					}
				}
				t.Logf("checks a second, by five seconds: %v", fives(perSecond))
				unwatch()
				stop()
				other.faulty.set(nil)
				stopOther()
			})
		})
	}
}

// fives returns the means of each five seconds.
func fives(perSecond []int) string {
	text := ""
	for i := 0; i+5 <= len(perSecond); i += 5 {
		sum := 0
		for _, n := range perSecond[i : i+5] {
			sum += n
		}
		text += fmt.Sprintf("%.0f ", float64(sum)/5)
	}
	return text
}
