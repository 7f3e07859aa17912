package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/testing/redistest"
)

// fault is one way to break the service.
type fault struct {
	name      string
	on        topology
	invariant string // what it is most likely to break
	sign      sign   // what operators see of it
	straggler bool   // a live poller may be cut from its claims: its checks may overlap others
	within    time.Duration

	// inject does it, lasts as long as it lasts, and gives what ends it.
	inject func(t *turn) (heal func() error, err error)

	// mend, if there is one, comes after the recovery, and puts together again what
	// the service can do without, so that the next fault finds it whole.
	mend func(t *turn) error
}

// turn is one injection of a fault.
type turn struct {
	context.Context
	*world
	fault  *fault
	number int
	random *rand.Rand
	rate   float64           // checks a second, usually
	former *redistest.Server // the master that another has replaced

	injected, healed time.Time
	recovery         time.Duration
	done             bool // it was injected
	seen             bool // the sign moved
	faults           []string
	rollback         time.Time // Redis may have lost what it acknowledged from then on; zero: nothing
	lostUntil        time.Time // and until then; zero: until it was healed
	torn             bool      // meanwhile two servers took themselves for the master
}

// fail notes a violation that the turn itself found.
func (t *turn) fail(text string) { t.faults = append(t.faults, text) }

// last waits, as long as the fault is to last.
func (t *turn) last(d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-t.Done():
		return t.Err()
	}
}

// between draws a duration.
func (t *turn) between(least, most time.Duration) time.Duration {
	return least + time.Duration(t.random.Int64N(int64(most-least)+1))
}

// one draws a member of a role.
func (t *turn) one(role string) string {
	names := t.names(role)
	return names[t.random.IntN(len(names))]
}

// some draws accounts that stay.
func (t *turn) some(n int) []string {
	ids := make([]string, 0, n)
	for _, i := range t.random.Perm(len(t.base))[:min(n, len(t.base))] {
		ids = append(ids, t.base[i])
	}
	return ids
}

// connectors are those of some accounts that have a connector.
func (t *turn) connectors(n int) []string {
	var ids []string
	for _, id := range t.some(len(t.base)) {
		if len(ids) < n && strings.HasPrefix(id, "http-") {
			ids = append(ids, id)
		}
	}
	return ids
}

// until waits for something, for ten seconds at most, and reports whether it came.
func (t *turn) until(so func() bool) bool {
	for began := time.Now(); time.Since(began) < 10*time.Second; {
		if so() {
			return true
		}
		if t.last(20*time.Millisecond) != nil {
			return false
		}
	}
	return false
}

const (
	recoverWithin = 20 * time.Second // the usual
	backoffWithin = 45 * time.Second // where checks failed that wait out their backoff
	signWithin    = 5 * time.Second  // after recovery
	nudgeAfter    = 5 * time.Second
)

// play injects the fault, heals it, waits for recovery and looks at the ring.
func (t *turn) play() error {
	before := t.fault.sign.read(t, t.world)
	watching, endWatch := context.WithCancel(t)
	defer endWatch()
	seen := make(chan struct{})
	go t.watch(watching, before, seen)

	t.injected = time.Now()
	heal, err := t.fault.inject(t)
	if heal != nil {
		if healErr := heal(); err == nil {
			err = healErr
		}
	}
	t.healed = time.Now()
	if t.Err() != nil {
		return t.Err()
	}
	if t.done = err == nil; err != nil {
		t.fail("not injected: " + err.Error())
	}
	t.recover()
	wait := time.NewTimer(signWithin)
	defer wait.Stop()
	select {
	case <-seen:
		t.seen = true
	case <-wait.C:
		t.fail("I7: " + t.fault.sign.name + " did not move")
	case <-t.Done():
		return t.Err()
	}
	t.look()
	if t.fault.mend != nil {
		if err := t.fault.mend(t); err != nil {
			t.fail("not put together again: " + err.Error())
		}
	}
	return t.Err()
}

// look notes what is wrong with the ring now.
func (t *turn) look() {
	var failed error
	if !t.until(func() bool {
		var c census
		if c, failed = t.census(); failed == nil {
			t.faults = append(t.faults, c.faults(true)...)
		}
		return failed == nil
	}) {
		t.fail(fmt.Sprintf("the ring could not be read: %v", failed))
	}
}

func (w *world) census() (census, error) {
	from, err := w.reader()
	if err != nil {
		return census{}, err
	}
	defer from.close()
	return take(from)
}

// watch closes seen once the sign has moved.
func (t *turn) watch(ctx context.Context, before reading, seen chan<- struct{}) {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		if t.fault.sign.read(ctx, t.world).moved(before) && ctx.Err() == nil {
			close(seen)
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// recover waits until all is as before: every process ready, checks a second as
// many as usual, and each account checked again. Accounts whose check timed out
// meanwhile, as happens on a machine with much else to do, are put off for half a
// minute by design; they are nudged after a while.
func (t *turn) recover() {
	within := t.fault.within
	if within == 0 {
		within = recoverWithin
	}
	why, nudged := "", false
	for {
		if why = t.missing(); why == "" {
			t.recovery = time.Since(t.healed)
			return
		}
		if time.Since(t.healed) > within {
			t.recovery = time.Since(t.healed)
			t.fail("I6: not recovered after " + within.String() + ": " + why)
			return
		}
		if !nudged && time.Since(t.healed) > nudgeAfter {
			nudged = true
			t.look() // before: a nudge might hide a loss
			t.clients.nudge(t, t.third.givenUp(t.third.unchecked(t.base, t.healed), t.injected))
		}
		if t.last(50*time.Millisecond) != nil {
			return
		}
	}
}

func (t *turn) missing() string {
	if why := t.ready(t); why != "" {
		return why
	}
	if behind := t.third.unchecked(t.base, t.healed); len(behind) > 0 {
		return "not checked again: " + strings.Join(behind[:min(5, len(behind))], " ") + more(len(behind)-5)
	}
	if now := time.Now(); now.Sub(t.healed) < time.Second || float64(t.third.begun(now.Add(-time.Second))) < 0.6*t.rate {
		return "fewer checks than before"
	}
	return ""
}
