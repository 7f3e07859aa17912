package poller_test

import (
	"context"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/poller"
)

func TestAccountKeepsToItsShareOverAllReplicas(t *testing.T) {
	inFakeTime(t, func(w *world) {
		const page, share = 10_000, 200_000
		data := []byte(`"` + strings.Repeat("x", page-2) + `"`)
		var brought atomic.Int64
		w.checker.check = func(_ context.Context, r poller.Request) (poller.Result, error) {
			time.Sleep(10 * time.Millisecond)
			n, _ := strconv.Atoi(string(r.Cursor))
			result := poller.Result{Cursor: []byte(strconv.Itoa(n + 1)), HasMore: r.Account == "greedy"}
			if r.Account == "greedy" {
				brought.Add(page)
				result.Messages = []circulate.Message{{ID: strconv.Itoa(n + 1), Data: data}}
			} else {
				result.Messages = []circulate.Message{{ID: strconv.Itoa(n + 1), Data: []byte(`"little"`)}}
			}
			return result, nil
		}
		w.register("every 1m", "greedy", "modest")
		stopOne := w.start(poller.Config{AccountShare: share})
		w.newMetrics()
		stopTwo := w.start(poller.Config{AccountShare: share})
		defer func() { stopOne(); stopTwo() }()

		time.Sleep(time.Minute)
		if brought := brought.Load(); brought < share || brought > share+2*page {
			t.Errorf("brought %d at once, its share is %d", brought, share)
		}
		if w.rule("greedy") != accounts.RuleShare || w.look("greedy").Place != circulate.Scheduled {
			t.Errorf("greedy: rule %s, %+v", w.rule("greedy"), w.look("greedy"))
		}
		// A nudge does not give it more.
		for range 60 {
			time.Sleep(time.Minute)
			if err := w.ring.Account("greedy").Nudge(w.Context(), circulate.Nudge{}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Second)
		if brought := brought.Load(); brought < 2*share-2*page || brought > 2*share+2*page {
			t.Errorf("brought %d in an hour after the first share, the share is %d", brought-share, share)
		}
		w.gapless("greedy")
		if got := len(w.checker.calls("modest")); got < 60 {
			t.Errorf("modest was checked %d times", got)
		}
		if kept := w.state("modest"); kept != "" {
			t.Errorf("of an account with few messages is kept: %q", kept)
		}
		if memory, err := accounts.ReadMemory(w.state("greedy")); memory.UsedUntil.IsZero() || err != nil {
			t.Errorf("of greedy is kept: %q", w.state("greedy"))
		}
	})
}

// state returns what is stored of an account besides its record.
func (w *world) state(id string) string {
	w.Helper()
	turn, err := w.ring.Account(id).QueuePosition(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	return turn.State
}

// Redis' clock is a day ahead for a while, and a held account brings messages meanwhile. It goes on
// when the clock is right again, because it used up its share by the wrong clock.
func TestAHeldAccountsShareSurvivesAWrongClock(t *testing.T) {
	inFakeTime(t, func(w *world) {
		var ahead atomic.Int64
		w.server.SetClock(func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) })
		third := newThirdParty()
		w.checker.check = third.check
		w.registerHeld("a", "30", "every 0")
		ahead.Store(int64(24 * time.Hour))
		stop := w.startHolding(poller.Config{})
		defer func() { stop() }()
		for _, id := range []string{"1", "2"} { // the first goes with a return, and the account stays after it
			time.Sleep(10 * time.Second)
			third.send("a", id)
		}
		time.Sleep(10 * time.Second)
		ahead.Store(0)
		time.Sleep(2 * time.Minute) // the replica has read the clock again
		third.send("a", "3")
		time.Sleep(10 * time.Second)
		if v := w.look("a"); third.calls() != 1 || v.Place != circulate.Claimed {
			t.Errorf("%d calls; it is %s, due in %v by %s", third.calls(), v.Place, v.Due.Sub(v.Now), w.rule("a"))
		}
	})
}
