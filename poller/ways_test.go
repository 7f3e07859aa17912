package poller_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/limit"
	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/egress"
)

// unpassable is the failure of a check whose way is at fault.
var unpassable = &poller.CheckError{Kind: poller.Transient, Scope: poller.ScopeWay, Code: "proxy", Message: "the way berlin: no connection to the proxy"}

// travellers registers accounts of their own hosts that go by a way.
func (w *world) travellers(way, prefix, cadence string, n int) []string {
	w.Helper()
	ids := names(prefix, n)
	for _, id := range ids {
		w.registerRecord(id, fmt.Sprintf(`{"id":%q,"kind":"scripted","cadence":%q,"labels":{"egress":%q},"config":{"host":"host of %s"}}`, id, cadence, way, id))
	}
	return ids
}

func waysOf(t *testing.T, text string) egress.Ways {
	t.Helper()
	ways, err := egress.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return ways
}

// TestAWayThatIsDownIsOneThing has the way of many accounts, each with a host of its own, refuse all
// calls for a while. Few probes go out, nothing counts against an account, the accounts of another way
// go on, and after the first success all are soon checked, within the limit of the way.
func TestAWayThatIsDownIsOneThing(t *testing.T) {
	inFakeTime(t, func(w *world) {
		limits, err := poller.ParseLimits("egress/* rate=10/s", []string{"scripted"})
		if err != nil {
			t.Fatal(err)
		}
		config := poller.Config{Limits: limits, Ways: waysOf(t, "berlin socks5://127.0.0.1:1; paris direct")}
		ids, others := w.travellers("berlin", "a", "every 4s", 30), w.travellers("paris", "b", "every 4s", 5)
		var broken atomic.Bool
		w.checker.check = func(_ context.Context, r poller.Request) (poller.Result, error) {
			if broken.Load() && r.Account[0] == 'a' {
				return poller.Result{}, unpassable
			}
			return poller.Result{}, nil
		}
		stop, stopOther := w.start(config), w.another().start(config)
		time.Sleep(10 * time.Second)
		broken.Store(true)
		began := time.Now()
		time.Sleep(40 * time.Second)
		waiting := 0
		for _, id := range ids {
			v := w.look(id)
			if v.Failures != 0 {
				t.Errorf("%s has %d failures", id, v.Failures)
			}
			if accounts.RuleWord(v.Rule) == accounts.RuleDown {
				waiting++
			}
		}
		if waiting < 28 {
			t.Errorf("%d of 30 accounts wait for their way", waiting)
		}
		if all, _, err := limit.TroublesOf(w.ring).All(w.Context()); err != nil || len(all) != 1 || all["egress/berlin"] == nil || all["egress/berlin"].Cause != "proxy" {
			t.Errorf("in trouble: %v, %v", all, err)
		}
		ended := time.Now()
		broken.Store(false)
		time.Sleep(25 * time.Second)
		stop()
		stopOther()

		if n := w.checker.between(ids, began, ended); n < 5 || n > 30 { // each replica notices by itself
			t.Errorf("%d checks by a way that is down", n)
		}
		if n := w.checker.between(ids, began.Add(10*time.Second), ended); n > 6 {
			t.Errorf("%d checks by a way that has been down for a while", n)
		}
		if n := w.checker.between(others, began, ended); n < 45 {
			t.Errorf("%d checks by another way", n)
		}
		if last := w.checker.lastFirst(ids, ended); last.IsZero() || last.Sub(ended) > 25*time.Second {
			t.Errorf("all were checked %v after the end", last.Sub(ended))
		}
		for at := ended; at.Before(ended.Add(20 * time.Second)); at = at.Add(time.Second) {
			if n := w.checker.between(ids, at, at.Add(time.Second)); n > 10+10 { // the burst, and a second of the rate
				t.Errorf("%d checks in a second by a way with 10/s", n)
			}
		}
	})
}

// TestAHostBehindAWayThatIsDown has a host fail, then the only way to it, then has the way come back
// before the host. Both are tried by one probe, so neither keeps the other from being tried.
func TestAHostBehindAWayThatIsDown(t *testing.T) {
	inFakeTime(t, func(w *world) {
		ids := names("a", 6)
		for _, id := range ids {
			w.registerRecord(id, fmt.Sprintf(`{"id":%q,"kind":"scripted","cadence":"every 4s","labels":{"egress":"berlin"},"config":{"host":"down"}}`, id))
		}
		var host, way atomic.Bool
		w.checker.check = func(context.Context, poller.Request) (poller.Result, error) {
			switch {
			case way.Load():
				return poller.Result{}, unpassable
			case host.Load():
				return poller.Result{}, unavailable
			}
			return poller.Result{}, nil
		}
		troubles := func() (named []string) {
			all, _, err := limit.TroublesOf(w.ring).All(w.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{"egress/berlin", "scripted/down"} {
				if all[name] != nil {
					named = append(named, name)
				}
			}
			return named
		}
		stop := w.start(poller.Config{Ways: waysOf(t, "berlin socks5://127.0.0.1:1")})
		defer stop()
		for _, step := range []struct {
			host, way bool
			want      string
		}{
			{false, false, "[]"}, {true, false, "[scripted/down]"}, {true, true, "[egress/berlin scripted/down]"},
			{true, false, "[scripted/down]"}, {false, false, "[]"},
		} {
			host.Store(step.host)
			way.Store(step.way)
			time.Sleep(40 * time.Second)
			if got := fmt.Sprint(troubles()); got != step.want {
				t.Errorf("host down %v, way down %v: in trouble are %s", step.host, step.way, got)
			}
		}
		for _, id := range ids {
			if v := w.look(id); v.Failures != 0 {
				t.Errorf("%s has %d failures", id, v.Failures)
			}
		}
	})
}

// TestAWayWhoseProxyReachesNothing has the proxy of a way say of each host that it has no connection to
// it. That is an outage of the network behind the way: no failure counts, and others are none the wiser.
func TestAWayWhoseProxyReachesNothing(t *testing.T) {
	inFakeTime(t, func(w *world) {
		ids, others := w.travellers("berlin", "a", "every 4s", 5), w.travellers("paris", "b", "every 4s", 2)
		var broken atomic.Bool
		w.checker.check = func(_ context.Context, r poller.Request) (poller.Result, error) {
			if broken.Load() && (r.Account[0] == 'a' || r.Account == others[0]) {
				return poller.Result{}, &poller.CheckError{Kind: poller.Transient, Scope: poller.ScopeRateKey, Code: "connect", Message: "the proxy has no connection to the host", Network: true}
			}
			return poller.Result{}, nil
		}
		stop := w.start(poller.Config{Ways: waysOf(t, "berlin socks5://127.0.0.1:1; paris direct")})
		defer stop()
		time.Sleep(30 * time.Second)
		broken.Store(true)
		time.Sleep(30 * time.Second)
		rule := func(id string) string { return accounts.RuleWord(w.look(id).Rule) }
		for _, id := range ids {
			if v := w.look(id); v.Failures != 0 || rule(id) != accounts.RuleOutage {
				t.Errorf("%s has %d failures, and is due by %s", id, v.Failures, rule(id))
			}
		}
		if got := rule(others[0]); got != accounts.RuleDown {
			t.Errorf("an account by another way, whose host is down, is due by %s", got)
		}
	})
}

// TestAHostThatOneWayDoesNotReach has a host that one way or none does not reach, and that then answers
// with errors by any. Only accounts of that way wait for it, and in the end all.
func TestAHostThatOneWayDoesNotReach(t *testing.T) {
	inFakeTime(t, func(w *world) {
		unreached := &poller.CheckError{Kind: poller.Transient, Scope: poller.ScopeRateKey, Code: "connect", Message: "the proxy has no connection to the host", Network: true}
		fleets := make(map[byte][]string)
		for prefix, way := range map[byte]string{'a': "berlin", 'b': "paris", 'c': ""} {
			for _, id := range names(string(prefix), 3) {
				fleets[prefix] = append(fleets[prefix], id)
				w.registerRecord(id, fmt.Sprintf(`{"id":%q,"kind":"scripted","cadence":"every 4s","labels":{"egress":%q},"config":{"host":"h"}}`, id, way))
			}
			w.travellers(way, "other"+string(prefix), "every 4s", 2) // whose hosts are reached, so that no network is down
		}
		var fails atomic.Value // by which prefix, and how
		type failing struct {
			by  string
			err *poller.CheckError
		}
		fails.Store(failing{})
		w.checker.check = func(_ context.Context, r poller.Request) (poller.Result, error) {
			if now := fails.Load().(failing); strings.Contains(now.by, r.Account[:1]) {
				return poller.Result{}, now.err
			}
			return poller.Result{}, nil
		}
		stop := w.start(poller.Config{Ways: waysOf(t, "berlin socks5://127.0.0.1:1; paris direct")})
		defer stop()
		for _, step := range []struct {
			failing
			want string
		}{
			{failing{}, "[]"},
			{failing{"a", unreached}, "[scripted/h (via berlin)]"},
			{failing{"abc", unavailable}, "[scripted/h]"},
			{failing{}, "[]"},
			{failing{"bc", unreached}, "[scripted/h (direct) scripted/h (via paris)]"},
			{failing{}, "[]"},
		} {
			fails.Store(step.failing)
			began := time.Now()
			time.Sleep(35 * time.Second)
			all, _, err := limit.TroublesOf(w.ring).All(w.Context())
			if err != nil {
				t.Fatal(err)
			}
			var named []string
			for _, one := range all {
				named = append(named, one.Name)
			}
			slices.Sort(named)
			if got := fmt.Sprint(named); got != step.want {
				t.Errorf("%v: in trouble are %s, want %s", step.failing, got, step.want)
			}
			for prefix, ids := range fleets {
				n := w.checker.between(ids, began.Add(15*time.Second), time.Now())
				if waits := strings.Contains(step.by, string(prefix)); waits && n > 6 || !waits && n < 12 {
					t.Errorf("%v: %d checks of %c in 20 s", step.failing, n, prefix)
				}
			}
		}
		for _, ids := range fleets {
			for _, id := range ids {
				if v := w.look(id); v.Failures != 0 {
					t.Errorf("%s has %d failures", id, v.Failures)
				}
			}
		}
	})
}

// TestSendsWaitAtAWayThatIsDown has nobody check by a way whose proxy refuses all sends for a while. Few
// sends go out, each of the others waits without an attempt, those by another way go on, and after the
// first success all go soon.
func TestSendsWaitAtAWayThatIsDown(t *testing.T) {
	inFakeTime(t, func(w *world) {
		k := newTalker()
		var broken atomic.Bool
		var tried atomic.Int64
		k.send = func(_ context.Context, r poller.SendRequest) (poller.Sent, error) {
			if broken.Load() && r.Account[0] == 'a' {
				tried.Add(1)
				return poller.Sent{}, poller.Unsent(unpassable)
			}
			return k.take(r), nil
		}
		w.chats(`,"labels":{"egress":"berlin"}`, "a", "a2")
		w.chats(`,"labels":{"egress":"paris"}`, "b")
		stop := w.startChecking(poller.Config{Ways: waysOf(t, "berlin socks5://127.0.0.1:1; paris direct")}, k, testLog(t))
		time.Sleep(10 * time.Second)
		broken.Store(true)
		ids := append(w.crowd("a", 20), w.crowd("a2", 20)...)
		time.Sleep(15 * time.Second)
		early := tried.Load()
		time.Sleep(45 * time.Second)
		if late := tried.Load() - early; early > 40+10 || late < 2 || late > 5 {
			t.Errorf("%d sends by a way that is down, and %d once it had been down for a while", early, late)
		}
		attempts, waiting := 0, 0
		for _, id := range ids {
			s := w.sent(id)
			attempts += s.Attempts
			if s.Code == accounts.RuleDown && s.Text == "the way berlin is down (proxy); it waits for a probe" {
				waiting++
			}
			if s.State != circulate.SendQueued {
				t.Errorf("a send is %s: %s", s.State, s.Text)
			}
		}
		if attempts != int(tried.Load()) || waiting < 38 {
			t.Errorf("%d of 40 wait, and %d attempts count of %d", waiting, attempts, tried.Load())
		}
		other := w.queue("b", "ben", nil)
		time.Sleep(time.Second)
		w.is(other, circulate.SendAccepted, "")
		broken.Store(false)
		time.Sleep(25 * time.Second)
		for _, id := range ids {
			w.is(id, circulate.SendAccepted, "")
		}
		stop()
	})
}

// A way may ask for a pause. A send that would wait for longer than a day is given up.
func TestSendsWaitAtAWayThatPauses(t *testing.T) {
	inFakeTime(t, func(w *world) {
		k := newTalker()
		k.send = func(_ context.Context, r poller.SendRequest) (poller.Sent, error) {
			wait, err := time.ParseDuration(r.Peer)
			if err == nil && r.Attempt == 1 {
				return poller.Sent{}, poller.Unsent(&poller.CheckError{Kind: poller.RateLimited, Scope: poller.ScopeWay, Code: "busy", RetryAfter: wait})
			}
			return k.take(r), nil
		}
		w.chats(`,"labels":{"egress":"berlin"}`, "a")
		stop := w.startChecking(poller.Config{Ways: waysOf(t, "berlin direct")}, k, testLog(t))
		time.Sleep(5 * time.Second)
		w.queue("a", "1m", nil)
		time.Sleep(time.Second)
		waits := w.queue("a", "anna", nil)
		time.Sleep(50 * time.Second)
		w.is(waits, circulate.SendQueued, accounts.RuleDown)
		if s := w.sent(waits); s.Text != "the way berlin has asked for a pause (busy); it waits for a probe" || s.Attempts != 0 {
			t.Errorf("%d attempts, %q", s.Attempts, s.Text)
		}
		time.Sleep(20 * time.Second)
		w.is(waits, circulate.SendAccepted, "")
		w.queue("a", "24h", nil)
		time.Sleep(time.Second)
		given := w.queue("a", "anna", nil)
		time.Sleep(time.Second)
		w.is(given, circulate.SendRejected, accounts.RuleDown)
		if s := w.sent(given); s.Text != "given up after a day: the way berlin has asked for a pause (busy)" {
			t.Errorf("given up: %q", s.Text)
		}
		stop()
	})
}
