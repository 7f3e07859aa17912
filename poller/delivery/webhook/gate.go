package webhook

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sony/gobreaker/v2"
)

const (
	breakAfter = 5                // failed attempts in a row
	openFirst  = 30 * time.Second // from failing to the first probe
	openMost   = 10 * time.Minute // from one probe to the next
	probeWait  = time.Second      // for the outcome of a probe under way

	throttleFirst = time.Second // after a 429 without Retry-After; each further one doubles it
	throttleMost  = 5 * time.Minute
)

// gate decides whether an attempt may begin: a limited number at once, none during a pause that
// the endpoint asked for, and few while it fails.
type gate struct {
	slots   chan struct{}
	breaker atomic.Pointer[gobreaker.CircuitBreaker[struct{}]]
	log     *slog.Logger
	why     func(other string) error // what went wrong in the last attempt
	state   prometheus.Gauge

	mu        sync.Mutex
	until     time.Time // no attempt before this time
	probes    int       // failed probes since the breaker opened
	throttles int       // in a row, without Retry-After
}

func newGate(concurrency int, log *slog.Logger, why func(other string) error, state prometheus.Gauge) *gate {
	g := &gate{slots: make(chan struct{}, concurrency), log: log, why: why, state: state}
	g.reopen()
	return g
}

// reopen resets the breaker and ends a pause, so that attempts may begin at once.
func (g *gate) reopen() {
	var breaker *gobreaker.CircuitBreaker[struct{}]
	breaker = gobreaker.NewCircuitBreaker[struct{}](gobreaker.Settings{
		MaxRequests: 1,
		Timeout:     openFirst,
		ReadyToTrip: func(counts gobreaker.Counts) bool { return counts.ConsecutiveFailures >= breakAfter },
		OnStateChange: func(_ string, from, to gobreaker.State) {
			if g.breaker.Load() == breaker { // otherwise it is about an attempt that began before
				g.changed(from, to)
			}
		},
		IsSuccessful: func(err error) bool { // the endpoint works, even if it refuses the message
			return err == nil || is(err, Rejected) || is(err, Disabled)
		},
		IsExcluded: func(err error) bool { // such errors mean nothing, or are handled elsewhere
			return is(err, Canceled) || is(err, Throttled)
		},
	})
	g.breaker.Store(breaker)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.until, g.probes, g.throttles = time.Time{}, 0, 0
	g.state.Set(float64(gobreaker.StateClosed))
}

// look returns the breaker's state, and until when nothing is sent. The zero time means that
// attempts may begin now.
func (g *gate) look() (state string, until time.Time) {
	state = g.breaker.Load().State().String()
	g.mu.Lock()
	defer g.mu.Unlock()
	if !time.Now().Before(g.until) {
		return state, time.Time{}
	}
	if state == gobreaker.StateHalfOpen.String() {
		state = gobreaker.StateOpen.String() // our wait is longer than the breaker's own
	}
	return state, g.until
}

func is(err error, outcome Outcome) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Outcome == outcome
}

// enter waits for a slot, which leave frees.
func (g *gate) enter(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case g.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (g *gate) leave() { <-g.slots }

// wait returns the time until an attempt may begin; 0 or less means that one may begin now.
func (g *gate) wait() time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	return time.Until(g.until)
}

// throttle pauses attempts for as long as the endpoint asked, and up to a tenth longer. Without a
// time from the endpoint the pause grows each time. It returns the pause.
func (g *gate) throttle(asked time.Duration) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	if asked == 0 {
		asked = min(throttleMost, throttleFirst<<min(g.throttles, 16))
		if !time.Now().Before(g.until) { // otherwise the attempt began before the pause
			g.throttles++
		}
	}
	return g.pause(asked + rand.N(asked/10+1))
}

// calm forgets earlier throttling.
func (g *gate) calm() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.throttles = 0
}

// changed is called by the breaker, under the breaker's lock, so it must not call back.
func (g *gate) changed(from, to gobreaker.State) {
	g.state.Set(float64(to))
	g.mu.Lock()
	defer g.mu.Unlock()
	switch to {
	case gobreaker.StateOpen:
		if from == gobreaker.StateClosed {
			g.probes = 0
		} else {
			g.probes++
		}
		// The breaker's own wait is always the first one. This makes it longer.
		wait := min(openMost, openFirst<<min(g.probes, 16))
		wait = g.pause(wait + 1 + rand.N(wait/4))
		g.log.Warn("webhook endpoint fails; nothing is sent for a while", "error", g.why("unknown"), "wait", wait.Round(time.Millisecond), "probes", g.probes)
	case gobreaker.StateClosed:
		g.log.Info("webhook endpoint works again")
	case gobreaker.StateHalfOpen: // a probe is about to be sent
	}
}

// pause begins or extends a pause. It returns how long the pause will last.
func (g *gate) pause(wait time.Duration) time.Duration {
	if until := time.Now().Add(wait); until.After(g.until) {
		g.until = until
	}
	return time.Until(g.until)
}
