package poller_test

import (
	"context"
	"fmt"
	"math"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/accounts/budget"
	"github.com/rounds-dev/rounds/accounts/cadence"
	"github.com/rounds-dev/rounds/monitor"
	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/testing/faketime"
)

// clockwork gives each account messages at an even rate, and counts calls.
type clockwork struct {
	*scripted
	apart func(account string) time.Duration // from one message to the next
	began time.Time
	calls atomic.Int64
}

func (c *clockwork) Check(_ context.Context, r poller.Request) (poller.Result, error) {
	c.calls.Add(1)
	var seen int64
	_, _ = fmt.Sscan(string(r.Cursor), &seen) // there is none at first
	now := int64(time.Since(c.began) / c.apart(r.Account))
	result := poller.Result{Cursor: fmt.Append(nil, now)}
	for n := max(seen, now-100); n < now; n++ {
		result.Messages = append(result.Messages, poller.Message{ID: fmt.Sprint(n), Type: "tick", Data: []byte("{}")})
	}
	return result, nil
}

// Several replicas keep one budget together: after it is set, when a replica dies, when accounts
// are added, and when it changes. Without a price, accounts go on by themselves.
func TestReplicasShareABudget(t *testing.T) {
	t.Parallel()
	inFakeTime(t, func(w *world) {
		const accountsAtFirst = 40
		c := &clockwork{scripted: w.checker, began: time.Now(), apart: func(account string) time.Duration {
			var n int
			_, _ = fmt.Sscanf(account, "a%d", &n)
			return 15 * time.Second * time.Duration(math.Pow(2, float64(n%8))) // to 32 minutes
		}}
		add := func(from, to int) {
			for n := from; n < to; n++ {
				w.register("adaptive 2s..2h", fmt.Sprint("a", n))
			}
		}
		add(0, accountsAtFirst)
		pools := make([]*poller.Pool, 3)
		stop := make([]func(), len(pools))
		for i := range pools {
			w.newMetrics()
			pools[i] = w.pool(poller.Config{Heartbeat: 5 * time.Second}, poller.Options{}, c)
			stop[i] = faketime.Go(w, pools[i].Run)
		}
		m, err := monitor.New(w.ring, monitor.Config{SweepInterval: time.Minute, DeadAfter: 30 * time.Second}, monitor.Options{})
		if err != nil {
			t.Fatal(err)
		}
		stopMonitor := faketime.Go(w, m.Run)
		set := func(perSecond float64) {
			m.SetBudget(perSecond)
			for _, p := range pools {
				p.SetBudget(perSecond > 0)
			}
		}
		keeps := func(when string, perSecond float64, settle time.Duration) {
			t.Helper()
			time.Sleep(settle)
			before := c.calls.Load()
			time.Sleep(15 * time.Minute)
			if got := float64(c.calls.Load()-before) / 900; math.Abs(got/perSecond-1) > 0.1 {
				t.Errorf("%s: %.3f calls/s, want %v", when, got, perSecond)
			}
		}
		set(0.5)
		keeps("at first", 0.5, 20*time.Minute)
		state, ok, err := budget.Current(w.Context(), w.ring)
		if err != nil || !ok || state.Budget != 0.5 || state.Price <= 0 || math.Abs(state.Spent-0.5) > 0.2 || state.Verdict() != budget.Kept {
			t.Errorf("posted: %+v, %v, %v", state, ok, err)
		}
		interval := func(id string) time.Duration {
			memory, err := accounts.ReadMemory(w.look(id).State)
			if err != nil || !memory.Cadence.Budgeted {
				t.Errorf("%s: %+v, %v", id, memory, err)
			}
			return memory.Cadence.Interval
		}
		// A message every 15 seconds against one every 16 minutes: eight times as often.
		if busy, quiet := interval("a0"), interval("a6"); quiet < 5*busy || quiet > 13*busy {
			t.Errorf("checked every %v and every %v", busy, quiet)
		}
		add(accountsAtFirst, 2*accountsAtFirst)
		stop[0]()
		keeps("with twice the accounts and a replica less", 0.5, 20*time.Minute)
		set(1)
		keeps("with another budget", 1, 15*time.Minute)
		stopMonitor()
		time.Sleep(10 * time.Minute)
		if v := w.look("a0"); accounts.RuleWord(v.Rule) != cadence.RuleAdaptive {
			t.Errorf("without a monitor, a0 is due by %q", accounts.RuleWord(v.Rule))
		}
		stop[1]()
		stop[2]()
	})
}
