package poller_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/testing/faketime"
	"github.com/rounds-dev/rounds/testing/processes"
)

// claims returns an account's calls, grouped by claim.
func (w *world) claims(id string) (all [][]call) {
	before := ""
	for _, c := range w.checker.calls(id) {
		parts := strings.Split(c.request.CheckID, "-")
		claim := strings.Join(parts[:3], "-") // behind that is the number of the call
		if claim != before {
			all = append(all, nil)
		}
		all[len(all)-1], before = append(all[len(all)-1], c), claim
	}
	return all
}

// An account stays with one claim for ten minutes at most, however quiet it is.
func TestAHeldAccountIsClaimedAnew(t *testing.T) {
	inFakeTime(t, func(w *world) {
		w.checker.check = newThirdParty().check
		w.registerHeld("a", "30", "every 0")
		stop := w.startHolding(poller.Config{})
		time.Sleep(35 * time.Minute)
		stop()
		claims := w.claims("a")
		if n := len(claims); n < 4 || n > 6 {
			t.Errorf("%d claims in 35 minutes", n)
		}
		for _, calls := range claims {
			if lasted := calls[len(calls)-1].at.Sub(calls[0].at); lasted > 10*time.Minute {
				t.Errorf("a call begins %v after its claim", lasted)
			}
		}
	})
}

// A held call counts toward the concurrency of its limits while it begins, for a second. After that
// it only waits, and others may begin.
func TestAHeldCallCountsWhileItBegins(t *testing.T) {
	inFakeTime(t, func(w *world) {
		limits, err := poller.ParseLimits("scripted concurrency=1", []string{"scripted"})
		if err != nil {
			t.Fatal(err)
		}
		third := newThirdParty()
		w.checker.check = third.check
		for i := range 5 {
			w.registerHeld(fmt.Sprint("a", i), "140", "every 0")
		}
		stop := w.startHolding(poller.Config{Limits: limits})
		defer func() { stop() }()
		time.Sleep(2 * time.Minute)
		if n := third.calls(); n != 5 {
			t.Fatalf("%d of 5 are held", n)
		}
		var began []time.Time
		for i := range 5 {
			began = append(began, w.checker.calls(fmt.Sprint("a", i))[0].at)
		}
		slices.SortFunc(began, time.Time.Compare)
		for i := range began[1:] {
			if after := began[i+1].Sub(began[i]); after < time.Second {
				t.Errorf("a call begins %v after another", after)
			}
		}
	})
}

// An account does not stay in a shard that accounts are leaving: each call has a claim of its own,
// and between two of them the account can be moved.
func TestAHeldAccountLeavesAShardThatIsBeingLeft(t *testing.T) {
	inFakeTime(t, func(w *world) {
		w.checker.check = newThirdParty().check
		w.registerHeld("a", "30", "every 0")
		if _, err := w.ring.Mover().Begin(w.Context(), 5); err != nil {
			t.Fatal(err)
		}
		ring, err := circulate.Open(w.Context(), w.faulty, circulate.Options{Log: testLog(t)})
		if err != nil || ring.Sources() == 0 {
			t.Fatal(err)
		}
		w.ring = ring
		stop := w.startHolding(poller.Config{})
		time.Sleep(5 * time.Minute)
		stop()
		if claims := w.claims("a"); len(claims) < 5 || len(claims) != len(w.checker.calls("a")) {
			t.Errorf("%d calls of %d claims", len(w.checker.calls("a")), len(claims))
		}
	})
}

// Above the memory mark a held account does not stay: its next call could bring what Redis has no
// room for. It waits, and goes on when there is room.
func TestNoHeldCallAboveTheMark(t *testing.T) {
	inFakeTime(t, func(w *world) {
		memory := w.fill(50)
		third := newThirdParty()
		w.checker.check = third.check
		w.registerHeld("a", "30", "every 0")
		stop := w.startHolding(poller.Config{})
		defer func() { stop() }()
		time.Sleep(2*time.Minute + 10*time.Second)
		if n := len(w.claims("a")); n != 2 {
			t.Fatalf("%d claims", n) // the first ends with the first call
		}
		memory.percent.Store(99)
		time.Sleep(time.Minute) // the call under way ends
		before := len(w.checker.calls("a"))
		time.Sleep(3 * time.Minute)
		if n := len(w.checker.calls("a")); n != before || third.calls() != 0 || w.rule("a") != accounts.RuleMemory {
			t.Errorf("%d calls more, %d under way, by %s", n-before, third.calls(), w.rule("a"))
		}
		third.send("a", "1")
		memory.percent.Store(50)
		time.Sleep(2 * time.Minute)
		if found := w.found("a"); len(found) != 1 || third.calls() != 1 {
			t.Errorf("found %v, %d calls under way", found, third.calls())
		}
	})
}

// A page of a call that was abandoned is not written. If the third party gives it only once, the
// log says that it is lost.
func TestAPageOfAnAbandonedCallIsToldOf(t *testing.T) {
	inFakeTime(t, func(w *world) {
		log := new(processes.Output)
		w.checker.check = func(_ context.Context, r poller.Request) (poller.Result, error) {
			if r.Attempt > 1 {
				return poller.Result{}, nil
			}
			time.Sleep(2 * time.Minute)
			return poller.Result{Messages: []poller.Message{{ID: "1"}}}, nil
		}
		w.register("every 1h", "a")
		stop := w.startChecking(poller.Config{}, &forgetting{w.checker}, slog.New(slog.NewTextHandler(log, nil)))
		time.Sleep(3 * time.Minute)
		stop()
		if found := w.found("a"); len(found) != 0 || !strings.Contains(log.String(), "messages are lost") {
			t.Errorf("found %v; the log:\n%s", found, log.String())
		}
	})
}

// The reply to a page takes so long that the replica meanwhile looks up whether it still has the
// account. The account has another ticket by then, and stays.
func TestASlowCommitIsNoLostClaim(t *testing.T) {
	inFakeTime(t, func(w *world) {
		third := newThirdParty()
		w.checker.check = third.check
		server := &faketime.Faulty{Server: w.server}
		server.Set(func(s faketime.Step) faketime.Fate {
			if s.At == faketime.Called && isProgress(s) {
				time.Sleep(10 * time.Second)
			}
			return faketime.Healthy
		})
		ring, err := circulate.Open(w.Context(), server, circulate.Options{Log: testLog(t)})
		if err != nil {
			t.Fatal(err)
		}
		w.ring = ring
		w.registerHeld("a", "30", "every 0")
		stop := w.startHolding(poller.Config{})
		time.Sleep(time.Minute)
		third.send("a", "1")
		time.Sleep(15 * time.Second)
		third.send("a", "2")
		time.Sleep(15 * time.Second)
		if n := len(w.claims("a")); n != 2 || third.calls() != 1 {
			t.Errorf("%d claims, %d calls under way", n, third.calls())
		}
		if n := w.counted("rounds_returns_total", "fenced"); n != 0 {
			t.Errorf("%v claims count as lost", n)
		}
		stop()
		if found := w.found("a"); !slices.Equal(found, []string{"1", "2"}) {
			t.Errorf("found %v", found)
		}
	})
}
