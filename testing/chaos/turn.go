package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/testing/census"
)

const (
	signWithin = 4 * time.Second // after recovery
	signEvery  = 250 * time.Millisecond
	// quietBefore is how long nothing is done before a control, so that the control sees
	// nothing of the last fault. By then monitors have counted the lost processes.
	quietBefore = deadAfter + 1500*time.Millisecond
)

// play injects the fault, heals it, waits for recovery and looks at the ring.
func (t *turn) play() error {
	// If most accounts are put off, the next fault would show nothing.
	t.untilWithin(wholeWithin, func() bool {
		t.ailing.review(t.third)
		return 2*len(t.ailing.since) <= len(t.base)
	})
	if t.fault.control {
		if err := t.last(quietBefore); err != nil {
			return err
		}
	}
	before := t.snap(t)
	watching, endWatch := context.WithCancel(t)
	defer endWatch()
	signs := t.signs
	if !t.fault.control {
		signs = []sign{t.fault.sign}
	}
	watched := make(chan []string, 1)
	seen := make(chan struct{})
	go func() { watched <- t.watch(watching, signs, before, seen) }()

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
	case <-wait.C:
	case <-t.Done():
	}
	endWatch()
	moved := <-watched
	if t.Err() != nil {
		return t.Err()
	}
	switch {
	case t.fault.control:
		t.moved = moved
	case len(moved) > 0:
		t.seen = true
	default:
		t.fail("I7: " + t.fault.sign.name + " did not move")
	}
	t.look()
	if t.fault.mend != nil {
		if err := t.fault.mend(t); err != nil {
			t.fail("not restored: " + err.Error())
		}
	}
	return t.Err()
}

// watch returns the signs that move until ctx is done, and closes seen when all have
// moved.
func (t *turn) watch(ctx context.Context, signs []sign, before snapshot, seen chan<- struct{}) []string {
	tick := time.NewTicker(signEvery)
	defer tick.Stop()
	var moved []string
	for {
		now := t.snap(ctx)
		var still []sign
		for _, s := range signs {
			if s.shown(before, now) {
				moved = append(moved, s.name)
			} else {
				still = append(still, s)
			}
		}
		if signs = still; len(signs) == 0 {
			close(seen)
			<-ctx.Done()
			return moved
		}
		select {
		case <-ctx.Done():
			return moved
		case <-tick.C:
		}
	}
}

// look notes what is wrong with the ring now.
func (t *turn) look() {
	var failed error
	if !t.until(func() bool {
		var c *census.Census
		if c, failed = t.census(); failed == nil {
			t.faults = append(t.faults, lawless(c, true)...)
		}
		return failed == nil
	}) {
		t.fail(fmt.Sprintf("the ring could not be read: %v", failed))
	}
}

func (w *world) census() (*census.Census, error) {
	from, err := w.reader()
	if err != nil {
		return nil, err
	}
	defer from.close()
	return take(from)
}

// recover waits until all is as before: every process is ready, each account was checked
// again, and there are as many checks a second as usual. Accounts that wait out their
// backoff after a failed check are waited for later, during the next faults.
func (t *turn) recover() {
	within := max(t.fault.within, restWithin)
	for {
		t.ailing.note(t)
		why := t.missing()
		if why == "" {
			return
		}
		if time.Since(t.healed) > within {
			t.fail("I6: not recovered after " + within.String() + ": " + why)
			return
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
	well := t.ailing.without(t.base)
	if behind := t.third.unchecked(well, t.healed); len(behind) > 0 {
		return "not checked again: " + strings.Join(behind[:min(5, len(behind))], " ") + more(len(behind)-5)
	}
	if time.Since(t.healed) < rateOver {
		return "its end is not long ago"
	}
	if is, usual := t.rate(well); is < fullShare*usual {
		return fmt.Sprintf("%.0f checks a second, of %.0f usual ones", is, usual)
	}
	return ""
}
