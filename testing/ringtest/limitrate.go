package ringtest

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/rounds-dev/rounds/circulate/limit"
)

// rateHolds lets random askers come at random times. It compares what starts with the
// bound itself and with a token bucket of another form.
func rateHolds(f *fixture) {
	random := rand.New(rand.NewPCG(1, 3))
	for round := range 6 {
		every := time.Duration(1+random.IntN(2000)) * time.Millisecond
		burst := 1 + random.IntN(6)
		l := f.limited(limit.Limit{Name: fmt.Sprint("round-", round), Every: every, Burst: burst})
		var starts []time.Time
		var refilled time.Time
		tokens := burst * int(every.Microseconds()) // in µs
		for range 60 {
			l.skip(time.Duration(random.Int64N(int64(2 * every))).Truncate(time.Millisecond))
			asks := make([]limit.Ask, 1+random.IntN(4))
			for i := range asks {
				// Promised a moment ago, because the line is not tested here.
				asks[i].Promised = l.now().Add(-time.Millisecond)
			}
			a := l.ask(asks...)
			if !refilled.IsZero() {
				tokens = min(burst*int(every.Microseconds()), tokens+int(a.Now.Sub(refilled).Microseconds()))
			}
			refilled = a.Now
			for i, at := range a.At {
				want := tokens >= int(every.Microseconds())
				if at.IsZero() != want {
					f.Fatalf("every %v, burst %d: ask %d at %v may start: %v, want %v", every, burst, i, a.Now, at.IsZero(), want)
				}
				if want {
					tokens -= int(every.Microseconds())
					starts = append(starts, a.Now)
				}
			}
		}
		expectRate(f, starts, every, burst)
	}
}

// expectRate expects that no window of any length has more starts than a burst and what
// the rate adds meanwhile.
func expectRate(f *fixture, starts []time.Time, every time.Duration, burst int) {
	f.Helper()
	for i := range starts {
		for j := i; j < len(starts); j++ {
			if allowed := burst + int(starts[j].Sub(starts[i])/every); j-i+1 > allowed {
				f.Fatalf("every %v, burst %d: %d starts in %v", every, burst, j-i+1, starts[j].Sub(starts[i]))
			}
		}
	}
}

// rateLine has denied askers come back one by one, in order. Nobody may overtake them.
func rateLine(f *fixture) {
	l := f.limited(limit.Limit{Every: 10 * time.Second, Burst: 2})
	first := l.newcomers(6)
	l.expect("a burst", first, 2)
	l.slots("the first denied", first.At[2:], 10*time.Second)
	if wait := first.At[2].Sub(first.Now); wait < 10*time.Second || wait > 10*time.Second+time.Millisecond {
		f.Errorf("the first slot is in %v", wait)
	}
	second := l.newcomers(3)
	l.expect("while others wait", second, 0)
	l.slots("those behind them", append(first.At[5:], second.At...), 10*time.Second)
	for i, at := range append(first.At[2:], second.At...) {
		l.skip(at.Add(20 * time.Millisecond).Sub(l.now()))
		l.expect("a newcomer", l.newcomers(1), 0)
		l.expect(fmt.Sprint("promised ", i), l.ask(limit.Ask{Promised: at}), 1)
	}
}

// rateJitter has one asker come back late. The next one is denied because of it.
func rateJitter(f *fixture) {
	l := f.limited(limit.Limit{Every: 10 * time.Second, Burst: 1})
	a := l.newcomers(5)
	l.slots("with room for jitter", a.At[1:], 10*time.Second+125*time.Millisecond)
	l.skip(a.At[1].Add(4 * time.Second).Sub(l.now()))
	l.expect("four seconds late", l.ask(limit.Ask{Promised: a.At[1]}), 1)
	l.skip(a.At[2].Sub(l.now()))
	again := l.ask(limit.Ask{Promised: a.At[2]})
	l.expect("in time, but too soon after it", again, 0)
	if late := again.At[0].Sub(a.At[2]); late < 3*time.Second || late > 4*time.Second+100*time.Millisecond {
		f.Errorf("denied again for %v, want just under 4s and not the end of the line", late)
	}
	l.skip(again.At[0].Sub(l.now()))
	l.expect("at the front", l.ask(limit.Ask{Promised: again.At[0]}), 1)

	l.expect("early, with a promise kept", l.ask(limit.Ask{Promised: a.At[4]}), 0)
	if kept := l.ask(limit.Ask{Promised: a.At[4]}); kept.At[0].UnixMilli() != a.At[4].UnixMilli() {
		f.Errorf("who came early was promised %v and then %v", a.At[4], kept.At[0])
	}
}

// rateOutage has everybody in line come back at once, long after.
func rateOutage(f *fixture) {
	l := f.limited(limit.Limit{Every: 5 * time.Second, Burst: 3})
	a := l.newcomers(13)
	l.expect("a burst", a, 3)
	l.skip(10 * time.Minute)
	asks := make([]limit.Ask, 10)
	for i := range asks {
		asks[i].Promised = a.At[3+i]
	}
	back := l.ask(asks...)
	l.expect("after the outage", back, 3)
	l.slots("in line again", back.At[3:], 5*time.Second)
	if wait := back.At[3].Sub(back.Now); wait > 5*time.Second+time.Millisecond {
		f.Errorf("the line begins in %v", wait)
	}
}

func rateRefund(f *fixture) {
	l := f.limited(limit.Limit{Every: time.Hour, Burst: 2})
	a := l.ask(limit.Ask{CheckID: "a"}, limit.Ask{CheckID: "b"})
	l.expect("a burst", a, 2)
	l.refund(a.Now, "b")
	l.expect("after a refund", l.newcomers(2), 1)
	// Time has refunded this already, so it is not refunded again.
	l = f.limited(limit.Limit{Name: "late", Every: time.Hour, Burst: 2})
	a = l.newcomers(1)
	l.skip(time.Hour)
	l.expect("a burst", l.newcomers(2), 2)
	l.refund(a.Now, "check-0")
	l.expect("after a refund that is too late", l.newcomers(1), 0)
}
