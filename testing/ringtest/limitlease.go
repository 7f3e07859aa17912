package ringtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/limit"
)

// leasesHold lets random askers come and go, and counts those that hold a lease.
func leasesHold(f *fixture) {
	random := rand.New(rand.NewPCG(2, 3))
	l := f.limited(limit.Limit{Concurrency: 4, Every: 50 * time.Millisecond, Burst: 4, Lease: time.Hour})
	var running []string
	var starts []time.Time
	refused := 0
	for i := range 150 {
		l.skip(time.Duration(random.IntN(100)) * time.Millisecond)
		if len(running) > 0 && random.IntN(3) == 0 {
			n := 1 + random.IntN(len(running))
			if random.IntN(4) == 0 {
				l.leave(append(running[:n:n], "unknown")...)
				l.leave(running[:n]...) // repeating it does no harm
			} else {
				l.leave(running[:n]...)
			}
			running = running[n:]
		}
		asks := make([]limit.Ask, 1+random.IntN(3))
		for j := range asks {
			asks[j] = limit.Ask{CheckID: fmt.Sprint(i, "-", j), Promised: l.now()}
		}
		names := []string{asks[0].CheckID, asks[len(asks)-1].CheckID}
		a := l.ask(asks...)
		for j, at := range a.At {
			if at.IsZero() {
				running = append(running, asks[j].CheckID)
				starts = append(starts, a.Now)
			} else {
				refused++
			}
		}
		if len(running) > 4 {
			f.Fatalf("%d run at once: %v; %v asked last", len(running), running, names)
		}
	}
	if got := l.number("ZCARD", l.state()+":leases"); got != len(running) {
		f.Errorf("%d leases, %d running", got, len(running))
	}
	if refused == 0 || len(starts) < 20 {
		f.Errorf("%d started, %d refused: nothing was tested", len(starts), refused)
	}
	expectRate(f, starts, 50*time.Millisecond, 4)
}

// leaseCrash has holders that never leave.
func leaseCrash(f *fixture) {
	l := f.limited(limit.Limit{Concurrency: 2, Lease: 3 * time.Minute})
	l.expect("the first two", l.newcomers(3), 2)
	l.skip(2 * time.Minute)
	denied := l.newcomers(1)
	l.expect("while they count as alive", denied, 0)
	l.skip(61 * time.Second)
	l.expect("when they count as crashed", l.newcomers(3), 2)
	if ms := l.number("PTTL", l.state()+":leases"); ms <= 0 || ms > 181_000 {
		f.Errorf("the leases expire in %d ms", ms)
	}
	if ms := l.number("PTTL", l.state()); ms <= 0 {
		f.Errorf("the state expires in %d ms", ms)
	}
}

// leaseHold has slots follow how long leases are held.
func leaseHold(f *fixture) {
	l := f.limited(limit.Limit{Concurrency: 1, Lease: time.Hour})
	for i := range 3 {
		a := l.newcomers(1)
		l.expect("alone", a, 1)
		l.skip(30 * time.Second)
		l.leave(fmt.Sprint("check-", i))
	}
	a := l.newcomers(4)
	l.expect("one at once", a, 1)
	for i := 2; i < 4; i++ {
		if apart := a.At[i].Sub(a.At[i-1]); apart < 29*time.Second || apart > 33*time.Second {
			f.Errorf("slot %d is %v after the one before, want how long a check takes: 30s", i, apart)
		}
	}
	// It takes longer than expected: those that were promised are denied, and keep their
	// order.
	l.skip(a.At[1].Sub(l.now()))
	second := l.ask(limit.Ask{Promised: a.At[1]})
	l.expect("not left yet", second, 0)
	if !second.At[0].After(a.At[1]) || second.At[0].After(a.At[3].Add(30*time.Second)) {
		f.Errorf("denied until %v, which is not soon after %v", second.At[0], a.At[1])
	}
}

func leaseRefund(f *fixture) {
	l := f.limited(limit.Limit{Concurrency: 1, Every: time.Hour, Burst: 5, Lease: time.Hour})
	a := l.ask(limit.Ask{CheckID: "a"})
	l.expect("alone", a, 1)
	l.refund(a.Now, "a", "never there")
	l.refund(a.Now, "a") // with leases, a refund can be checked
	if n := l.number("ZCARD", l.state()+":leases"); n != 0 {
		f.Errorf("%d leases after a refund", n)
	}
	for i := range 5 {
		id := fmt.Sprint("b", i)
		l.expect("with all of the burst", l.ask(limit.Ask{CheckID: id, Promised: l.now()}), 1)
		l.leave(id)
	}
	l.expect("and no more", l.ask(limit.Ask{Promised: l.now()}), 0)
}

// limitChanges has a limit's line begin anew when the limit is another one.
func limitChanges(f *fixture) {
	l := f.limited(limit.Limit{Every: time.Hour, Burst: 1})
	l.expect("slow", l.newcomers(100), 1)
	l.held.Every, l.held.Burst = time.Millisecond, 10
	a := l.newcomers(1)
	if wait := time.Until(a.At[0]); started(a) == 0 && wait > time.Second {
		f.Errorf("behind the old limit's line: %v", wait)
	}
}

// limitsTogether asks several limits at once, one of which cannot answer.
func limitsTogether(f *fixture) {
	ctx := context.Background()
	key := func(name string) string { return f.ns + ":limits:{" + name + "}" }
	f.do("SET", key("mistyped"), "x")
	f.do("SET", key("leases")+":leases", "x")
	names := []string{"plain", "mistyped", "leases", "odd {name} ü", strings.Repeat("long", 1000)}
	var asks []limit.Asks
	var finished []limit.Finished
	for _, name := range names {
		one := limit.Limit{Name: name, Concurrency: 1, Lease: time.Hour}
		asks = append(asks, limit.Asks{Limit: one, Asks: []limit.Ask{{CheckID: "a"}, {CheckID: "b"}}})
		finished = append(finished, limit.Finished{Limit: one, CheckIDs: []string{"a"}})
	}
	for range 2 {
		answers, err := limit.Of(f.ring).Acquire(ctx, asks)
		if err != nil {
			f.Fatal(err)
		}
		for i, a := range answers {
			if a.Err != nil || !a.At[0].IsZero() || a.At[1].IsZero() {
				f.Errorf("%.20q: %v, %v", names[i], a.At, a.Err)
			}
		}
		if err := limit.Of(f.ring).Finish(ctx, finished); err != nil {
			f.Error(err)
		}
		for _, name := range names {
			f.do("DEL", key(name))
		}
		for _, k := range f.strings("KEYS", f.ns+":limits:{#*") {
			f.do("DEL", k)
		}
	}
	if n := f.ring.SetAside(); n != 2 {
		f.Errorf("%d keys were set aside, want 2", n)
	}
}

func limitBadInput(f *fixture) {
	ctx := context.Background()
	good := limit.Limit{Name: "x", Every: time.Second, Burst: 1}
	for field, one := range map[string]limit.Limit{
		"name":        {Every: time.Second, Burst: 1},
		"a rate":      {Name: "x"},
		"every":       {Name: "x", Every: 1, Burst: 1},
		"burst":       {Name: "x", Every: time.Second},
		"whole burst": {Name: "x", Every: time.Hour, Burst: 100_000},
		"concurrency": {Name: "x", Concurrency: -1, Every: time.Second, Burst: 1},
		"lease":       {Name: "x", Concurrency: 1},
	} {
		_, err := limit.Of(f.ring).Acquire(ctx, []limit.Asks{{Limit: one, Asks: []limit.Ask{{CheckID: "a"}}}})
		finishErr := limit.Of(f.ring).Finish(ctx, []limit.Finished{{Limit: one, CheckIDs: []string{"a"}}})
		for _, err := range []error{err, finishErr} {
			if err == nil || !strings.Contains(err.Error(), field) || circulate.Unknown(err) || circulate.Unavailable(err) {
				f.Errorf("%s: %v", field, err)
			}
		}
	}
	both := limit.Limit{Every: -1, Concurrency: -1}.Validate()
	for _, field := range []string{"name", "every", "concurrency"} {
		if !strings.Contains(both.Error(), field) {
			f.Errorf("not all faults at once: %v", both)
		}
	}
	if err := limit.Of(f.ring).Refund(ctx, []limit.Refund{{Limit: good, CheckIDs: []string{"a"}}}); err == nil {
		f.Error("a refund of no time was accepted")
	}
	for _, n := range []int{0, circulate.MaxBatch + 1} {
		if _, err := limit.Of(f.ring).Acquire(ctx, []limit.Asks{{Limit: good, Asks: make([]limit.Ask, n)}}); err == nil {
			f.Errorf("a batch of %d was accepted", n)
		}
	}
	gone, cancel := context.WithCancel(ctx)
	cancel()
	answers, err := limit.Of(f.ring).Acquire(gone, []limit.Asks{{Limit: good, Asks: []limit.Ask{{CheckID: "a"}}}})
	if err != nil || !errors.Is(answers[0].Err, context.Canceled) || circulate.Unknown(answers[0].Err) {
		f.Errorf("%v, %v", answers, err)
	}
	if keys := f.strings("KEYS", f.ns+":limits:*"); len(keys) > 0 {
		f.Errorf("something was written: %q", keys)
	}
}

// limitsSeen: what processes report of limits, and how these stand.
func limitsSeen(f *fixture) {
	ctx := context.Background()
	board := limit.BoardOf(f.ring)
	states := func(most, want, wantMore int) []limit.State {
		f.Helper()
		states, more, now, err := board.States(ctx, most)
		if err != nil || len(states) != want || more != wantMore || now.IsZero() {
			f.Fatalf("%+v, %d more, %v; want %d and %d more", states, more, err, want, wantMore)
		}
		return states
	}
	states(10, 0, 0)

	rate := f.limited(limit.Limit{Name: "feed/slow.example", Every: time.Minute, Burst: 2})
	wide := f.limited(limit.Limit{Name: "http/" + strings.Repeat("ü", 200), Concurrency: 2})
	one, two := limit.NewLedger(), limit.NewLedger()
	denied := rate.newcomers(5) // 2 start, 3 wait
	one.Note(rate.held, denied)
	two.Note(rate.held, rate.newcomers(1))
	one.Note(wide.held, wide.newcomers(1))
	for process, ledger := range map[string]*limit.Ledger{"replica001": one, "replica002": two} {
		if err := board.Report(ctx, process, ledger.Seen(denied.Now)); err != nil {
			f.Fatal(err)
		}
	}
	all := states(10, 2, 0)
	slow := all[0]
	if slow.Name != "feed/slow.example" || slow.Every != time.Minute || slow.Burst != 2 || slow.Asked != 6 || slow.Denied != 4 || slow.Taken != 2 || slow.Running != 0 {
		f.Errorf("slow: %+v", slow)
	}
	if d := slow.Last.Sub(denied.Now); slow.Waiting != 4 || d < 3*time.Minute || d > 5*time.Minute {
		f.Errorf("%d wait for %v", slow.Waiting, d)
	}
	if w := all[1]; w.Key == "" || !strings.HasPrefix(w.Name, "http/ü") || len(w.Name) > 200 || w.Running != 1 || w.Concurrency != 2 || w.Waiting != 0 || !w.Last.IsZero() || w.Denied != 0 {
		f.Errorf("wide: %+v", w)
	}
	states(1, 1, 1)

	// What the reports of later versions or of strangers have is left out.
	reports := "{" + f.ns + ":limits}:reports"
	for _, text := range []string{"no JSON", `[{"name":"a}:b"}]`, `[{"name":"x","key":"y"}]`, `[{"name":"x","denied":-1}]`, `[{"name":"x","every":9223372036854775807}]`} {
		f.do("HSET", reports, "replica001", text)
		if left := states(10, 1, 0); left[0].Denied != 1 {
			f.Errorf("%s: %+v", text, left)
		}
	}
	if err := board.Withdraw(ctx, "replica002"); err != nil {
		f.Fatal(err)
	}
	states(10, 0, 0)
	if _, _, _, err := board.States(ctx, limit.MostStates+1); err == nil || circulate.Unknown(err) {
		f.Errorf("too many: %v", err)
	}
}

// limitClockBack has a limit remember everything by a clock that was a day ahead, and then asks by
// the right one. A newcomer gets a slot behind those who wait, and leases end within their life.
func limitClockBack(f *fixture) {
	l := f.limited(limit.Limit{Every: time.Second, Burst: 1, Concurrency: 1})
	l.expect("the first", l.newcomers(1), 1)
	if a := l.newcomers(3); started(a) != 0 {
		f.Fatal(a)
	}
	ahead := func(at string, unit time.Duration) string {
		f.Helper()
		n, err := strconv.ParseFloat(at, 64)
		if err != nil {
			f.Fatal(err)
		}
		return strconv.FormatFloat(n+float64(aDay/unit), 'f', 0, 64)
	}
	for _, field := range []string{"tat", "line", "seen"} {
		l.do("HSET", l.state(), field, ahead(l.text("HGET", l.state(), field), time.Microsecond))
	}
	leases := l.strings("ZRANGE", l.state()+":leases", 0, -1, "WITHSCORES")
	if len(leases) != 2 {
		f.Fatalf("the leases are %q", leases)
	}
	l.do("ZADD", l.state()+":leases", ahead(leases[1], time.Millisecond), leases[0])

	a := l.newcomers(1)
	if wait := a.At[0].Sub(a.Now); a.At[0].IsZero() || wait > 10*time.Second {
		f.Errorf("a newcomer has to wait %v", wait)
	}
	if wait := a.At[0].Sub(a.Now); wait < 2*time.Second {
		f.Errorf("a newcomer has to wait %v, and comes before those who wait", wait)
	}
	leases = l.strings("ZRANGE", l.state()+":leases", 0, -1, "WITHSCORES")
	if until, err := strconv.ParseInt(leases[1], 10, 64); err != nil || time.UnixMilli(until).After(l.now().Add(l.held.Lease+time.Millisecond)) { // it is a whole ms
		f.Errorf("a lease ends in %v, %v", time.UnixMilli(until).Sub(l.now()), err)
	}
}
