package ringtest

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/rounds-dev/rounds/circulate/limit"
)

// limited is one limit with its own time: Redis' clock and what was skipped. Time is
// skipped by moving everything that the limit remembers into the past.
type limited struct {
	*fixture
	held    limit.Limit
	skipped time.Duration
	asked   int
}

func (f *fixture) limited(l limit.Limit) *limited {
	if l.Name == "" {
		l.Name = "http/api.example.com"
	}
	if l.Concurrency > 0 && l.Lease == 0 {
		l.Lease = time.Minute
	}
	return &limited{fixture: f, held: l}
}

func (l *limited) state() string { return l.ns + ":limits:{" + l.held.Name + "}" }

// now is the limit's own time.
func (l *limited) now() time.Time {
	l.Helper()
	now, err := l.ring.Now(context.Background(), 0)
	if err != nil {
		l.Fatal(err)
	}
	return now.Add(l.skipped)
}

// skip lets time pass for the limit, whole milliseconds.
func (l *limited) skip(d time.Duration) {
	l.Helper()
	d = (d + time.Millisecond - 1).Truncate(time.Millisecond)
	l.skipped += d
	for _, field := range []string{"tat", "line", "front"} {
		if at, err := strconv.ParseFloat(l.text("HGET", l.state(), field), 64); err == nil && at > 0 {
			l.do("HSET", l.state(), field, strconv.FormatFloat(at-float64(d.Microseconds()), 'f', 0, 64))
		}
	}
	leases := l.strings("ZRANGE", l.state()+":leases", 0, -1, "WITHSCORES")
	for i := 0; i+1 < len(leases); i += 2 {
		expiry, err := strconv.ParseFloat(leases[i+1], 64)
		if err != nil {
			l.Fatal(err)
		}
		l.do("ZADD", l.state()+":leases", strconv.FormatFloat(expiry-float64(d.Milliseconds()), 'f', 0, 64), leases[i])
	}
}

// ask asks for checks and returns the answers in the limit's own time.
func (l *limited) ask(asks ...limit.Ask) limit.Answers {
	l.Helper()
	for i := range asks {
		if !asks[i].Promised.IsZero() {
			asks[i].Promised = asks[i].Promised.Add(-l.skipped)
		}
		if asks[i].CheckID == "" {
			asks[i].CheckID = fmt.Sprint("check-", l.asked)
			l.asked++
		}
	}
	answers, err := limit.Of(l.ring).Acquire(context.Background(), []limit.Asks{{Limit: l.held, Asks: asks}})
	if err != nil || answers[0].Err != nil {
		l.Fatal(err, answers)
	}
	a := answers[0]
	a.Now = a.Now.Add(l.skipped)
	for i := range a.At {
		if !a.At[i].IsZero() {
			a.At[i] = a.At[i].Add(l.skipped)
		}
	}
	return a
}

// newcomers asks for n checks that have no promise.
func (l *limited) newcomers(n int) limit.Answers {
	l.Helper()
	return l.ask(make([]limit.Ask, n)...)
}

func (l *limited) leave(ids ...string) {
	l.Helper()
	if err := limit.Of(l.ring).Finish(context.Background(), []limit.Finished{{Limit: l.held, CheckIDs: ids}}); err != nil {
		l.Fatal(err)
	}
}

func (l *limited) refund(granted time.Time, ids ...string) {
	l.Helper()
	refund := limit.Refund{Limit: l.held, Granted: granted.Add(-l.skipped), CheckIDs: ids}
	if err := limit.Of(l.ring).Refund(context.Background(), []limit.Refund{refund}); err != nil {
		l.Fatal(err)
	}
}

// started counts the asks that may start.
func started(a limit.Answers) (n int) {
	for _, at := range a.At {
		if at.IsZero() {
			n++
		}
	}
	return n
}

// expect expects that so many may start.
func (l *limited) expect(what string, a limit.Answers, want int) {
	l.Helper()
	if got := started(a); got != want {
		l.Errorf("%s: %d may start, want %d: %v at %v", what, got, want, a.At, a.Now)
	}
}

// slots expects promises to be in order and so far apart, except for the rounding to
// milliseconds.
func (l *limited) slots(what string, at []time.Time, apart time.Duration) {
	l.Helper()
	for i := 1; i < len(at); i++ {
		if d := at[i].Sub(at[i-1]); d < apart-time.Millisecond || d > apart+time.Millisecond {
			l.Errorf("%s: slot %d is %v after the one before, want %v", what, i, d, apart)
		}
	}
}
