package poller_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/poller"
)

// unavailable is the failure of a check whose host is at fault.
var unavailable = &poller.CheckError{Kind: poller.Transient, Scope: poller.ScopeRateKey, Code: "http_503", Message: "no"}

// fleet registers accounts of a host.
func (w *world) fleet(host, prefix, cadence string, n int) []string {
	w.Helper()
	ids := names(prefix, n)
	for _, id := range ids {
		w.registerRecord(id, fmt.Sprintf(`{"id":%q,"kind":"scripted","cadence":%q,"config":{"host":%q}}`, id, cadence, host))
	}
	return ids
}

// between returns how many calls of accounts began in a time.
func (s *scripted) between(ids []string, from, to time.Time) (n int) {
	for _, id := range ids {
		for _, c := range s.calls(id) {
			if !c.at.Before(from) && c.at.Before(to) {
				n++
			}
		}
	}
	return n
}

// lastFirst returns when the last of some accounts was first called after a time, or the zero time if
// one was not.
func (s *scripted) lastFirst(ids []string, after time.Time) (last time.Time) {
	for _, id := range ids {
		first := time.Time{}
		for _, c := range s.calls(id) {
			if !c.at.Before(after) {
				first = c.at
				break
			}
		}
		if first.IsZero() {
			return first
		}
		if first.After(last) {
			last = first
		}
	}
	return last
}

// TestAHostThatIsDownIsOneThing has the host of many accounts fail for a minute. Two replicas probe it
// now and then, the accounts of another host go on, nothing counts against an account, and after the
// first success all are soon checked.
func TestAHostThatIsDownIsOneThing(t *testing.T) {
	inFakeTime(t, func(w *world) {
		limits, err := poller.ParseLimits("scripted/down rate=50/s", []string{"scripted"})
		if err != nil {
			t.Fatal(err)
		}
		ids, others := w.fleet("down", "a", "every 4s", 100), w.fleet("up", "b", "every 4s", 5)
		var broken atomic.Bool
		var mu sync.Mutex
		var recovered time.Time
		w.checker.check = func(_ context.Context, r poller.Request) (poller.Result, error) {
			if r.Account[0] == 'b' {
				return poller.Result{}, nil
			}
			if broken.Load() {
				return poller.Result{}, unavailable
			}
			mu.Lock()
			defer mu.Unlock()
			if recovered.IsZero() {
				recovered = time.Now()
			}
			return poller.Result{}, nil
		}
		other := w.another()
		stop, stopOther := w.start(poller.Config{Limits: limits}), other.start(poller.Config{Limits: limits})
		time.Sleep(10 * time.Second)
		broken.Store(true)
		began := time.Now()
		time.Sleep(50 * time.Second)
		waiting := 0
		for _, id := range ids {
			v := w.look(id)
			if v.Failures != 0 {
				t.Errorf("%s has %d failures", id, v.Failures)
			}
			if accounts.RuleWord(v.Rule) == accounts.RuleDown && v.Place == circulate.Scheduled && v.Due.Before(v.Now.Add(21*time.Second)) {
				waiting++
			}
		}
		checkers, err := poller.NewCheckers(w.checker)
		if err != nil {
			t.Fatal(err)
		}
		if e, err := accounts.NewRegistry(w.ring, checkers).Explain(w.Context(), ids[0]); err != nil || e.Shares != "scripted/down" || e.DueRule != accounts.RuleDown {
			t.Errorf("%s, which shares %q, is due by %q, %v", ids[0], e.Shares, e.DueRule, err)
		}
		if waiting < 95 {
			t.Errorf("%d of 100 accounts wait for their host", waiting)
		}
		time.Sleep(10 * time.Second)
		ended := time.Now()
		mu.Lock()
		recovered = time.Time{}
		mu.Unlock()
		broken.Store(false)
		time.Sleep(35 * time.Second)
		stop()
		stopOther()

		if n := w.checker.between(ids, began, ended); n < 5 || n > 60 { // each replica notices by itself
			t.Errorf("%d checks of a host that is down for a minute", n)
		}
		if n := w.checker.between(ids, began.Add(10*time.Second), ended); n > 8 {
			t.Errorf("%d checks of a host that has been down for a while", n)
		}
		if n := w.checker.between(others, began, ended); n < 70 {
			t.Errorf("%d checks of another host", n)
		}
		last := w.checker.lastFirst(ids, ended)
		if last.IsZero() || last.Sub(recovered) > 10*time.Second || last.Sub(ended) > 30*time.Second {
			t.Errorf("the first check succeeded %v after the end, and all were checked %v later", recovered.Sub(ended), last.Sub(recovered))
		}
	})
}

// TestPartlyFailingHostIsNotDown has every seventh check of a host fail. That takes no account out for
// long, and does not make the host count as down.
func TestPartlyFailingHostIsNotDown(t *testing.T) {
	inFakeTime(t, func(w *world) {
		ids := w.fleet("half", "a", "every 2s", 50)
		random := rand.New(rand.NewPCG(7, 7))
		var mu sync.Mutex
		w.checker.check = func(context.Context, poller.Request) (poller.Result, error) {
			mu.Lock()
			defer mu.Unlock()
			if random.IntN(7) == 0 {
				return poller.Result{}, unavailable
			}
			return poller.Result{}, nil
		}
		stop := w.start(poller.Config{})
		time.Sleep(time.Minute)
		stop()
		for _, id := range ids {
			calls := w.checker.calls(id)
			for i := range calls {
				if i > 0 && calls[i].at.Sub(calls[i-1].at) > 5*time.Second {
					t.Errorf("%s was not checked for %v", id, calls[i].at.Sub(calls[i-1].at))
				}
			}
		}
		if n := w.counted("rounds_put_back_total", accounts.RuleDown); n != 0 {
			t.Errorf("%v accounts were put off", n)
		}
	})
}

// TestThrottledAccountPausesItsHost: a 429 keeps all accounts of the host from it for as long as it
// says.
func TestThrottledAccountPausesItsHost(t *testing.T) {
	inFakeTime(t, func(w *world) {
		ids := w.fleet("busy", "a", "every 2s", 50)
		var throttle atomic.Bool
		w.checker.check = func(_ context.Context, r poller.Request) (poller.Result, error) {
			if r.Account == "a00" && throttle.Swap(false) {
				return poller.Result{}, &poller.CheckError{Kind: poller.RateLimited, Scope: poller.ScopeRateKey, Code: "http_429", Message: "slow down", RetryAfter: 20 * time.Second}
			}
			return poller.Result{}, nil
		}
		stop := w.start(poller.Config{})
		time.Sleep(10 * time.Second)
		throttle.Store(true)
		for throttle.Load() {
			time.Sleep(10 * time.Millisecond)
		}
		asked := time.Now()
		time.Sleep(40 * time.Second)
		stop()
		if n := w.checker.between(ids, asked.Add(100*time.Millisecond), asked.Add(19*time.Second)); n != 0 {
			t.Errorf("%d checks of a host that asked for a pause", n)
		}
		if last := w.checker.lastFirst(ids, asked.Add(19*time.Second)); last.IsZero() || last.Sub(asked) > 30*time.Second {
			t.Errorf("all were checked %v after a pause of 20 s was asked for", last.Sub(asked))
		}
	})
}

// TestAHeldCallSaysThatItsHostIsWell has a host that holds calls for minutes fail for half a minute. The
// accounts do not wait until the first of them has been held to the end.
func TestAHeldCallSaysThatItsHostIsWell(t *testing.T) {
	inFakeTime(t, func(w *world) {
		ids := names("a", 40)
		for _, id := range ids {
			w.registerRecord(id, fmt.Sprintf(`{"id":%q,"kind":"scripted","cadence":"every 0","config":{"host":"down","hold":120}}`, id))
		}
		var broken atomic.Bool
		cut := make(chan struct{})
		w.checker.check = func(ctx context.Context, r poller.Request) (poller.Result, error) {
			if broken.Load() {
				return poller.Result{}, unavailable
			}
			poller.Begun(ctx)
			select {
			case <-cut:
				if broken.Load() {
					return poller.Result{}, unavailable
				}
			case <-ctx.Done():
			}
			select {
			case <-time.After(r.Hold):
			case <-ctx.Done():
			}
			return poller.Result{}, ctx.Err()
		}
		stop := w.startHolding(poller.Config{})
		time.Sleep(10 * time.Second)
		broken.Store(true)
		close(cut)
		time.Sleep(30 * time.Second)
		broken.Store(false)
		healed := time.Now()
		time.Sleep(40 * time.Second)
		if last := w.checker.lastFirst(ids, healed); last.IsZero() || last.Sub(healed) > 30*time.Second {
			t.Errorf("the last account was held again %v after the end", last.Sub(healed))
		}
		stop()
	})
}
