package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/rounds-dev/rounds/testing/upstream"
)

var errNoClaims = errors.New("the poller never held what it was to be killed with")

// fencedAtOnce is from how many fenced returns a poller has lost its claims. A few
// returns are always fenced, of accounts that clients pause meanwhile.
const fencedAtOnce = 6

// ofProcesses are kills, freezes and ends of our own processes.
func ofProcesses() []fault {
	orphaned := counter(roleMonitor, "rounds_requeued_total", `reason="orphaned"`)
	fenced := counter(rolePoller, "rounds_returns_total", `outcome="fenced"`).times(fencedAtOnce)
	return []fault{
		{name: "poller-kill-idle", invariant: "I1 I6", sign: lost(rolePoller), inject: killPoller(0)},
		{name: "poller-kill-mid-check", invariant: "I1 I2", sign: orphaned, inject: killPoller(1)},
		{name: "poller-kill-holding-many", invariant: "I1 I2", sign: orphaned, inject: killPoller(15)},
		{name: "pollers-kill-all", invariant: "I1 I2", sign: lost(rolePoller), inject: kill(rolePoller)},
		{name: "monitor-kill", invariant: "I2", sign: lost(roleMonitor), inject: func(t *turn) (func() error, error) {
			name := t.one(roleMonitor)
			t.member(name).process.Kill()
			return func() error { return t.start(name) }, t.last(t.between(time.Second, 2*time.Second))
		}},
		{name: "monitor-kill-mid-requeue", invariant: "I1 I2", sign: orphaned, inject: killWhileRequeueing},
		{name: "monitors-kill-all", invariant: "I2", sign: lost(roleMonitor), inject: kill(roleMonitor)},
		{name: "api-kill", invariant: "I5", sign: lost(roleAPI), inject: kill(roleAPI)},
		{name: "poller-freeze-past-dead", invariant: "I3", straggler: true, sign: orphaned, inject: freeze(rolePoller, deadAfter+1500*time.Millisecond)},
		{name: "poller-freeze-past-long", invariant: "I3", straggler: true, sign: fenced, inject: freeze(rolePoller, longTimeout+2*time.Second)},
		{name: "monitor-freeze", invariant: "I1 I2", sign: lost(roleMonitor), inject: freeze(roleMonitor, 4*time.Second)},
		{name: "api-freeze", invariant: "I5", sign: lost(roleAPI), inject: freeze(roleAPI, 3500*time.Millisecond)},
		{name: "poller-sigterm-mid-check", invariant: "I1 I6", sign: left(rolePoller), inject: terminate(500 * time.Millisecond)},
		{name: "poller-sigterm-past-grace", invariant: "I1 I6", sign: left(rolePoller), inject: terminate(2500 * time.Millisecond)},
		{name: "pollers-rolling-restart", invariant: "I1 I6", sign: left(rolePoller), inject: func(t *turn) (func() error, error) {
			t.hitsPollers(t.names(rolePoller)...)
			for _, name := range t.names(rolePoller) {
				if err := t.member(name).process.Terminate(20 * time.Second); err != nil {
					t.fail("I6: " + err.Error())
				}
				if err := t.start(name); err != nil {
					return nil, err
				}
			}
			return nil, nil
		}},
		{name: "monitors-three-at-once", invariant: "I1 I2", sign: orphaned, inject: func(t *turn) (func() error, error) {
			if err := t.start("monitor-2"); err != nil {
				return nil, err
			}
			restart, err := killPoller(15)(t)
			if restart == nil {
				restart = func() error { return nil }
			}
			return func() error { return errors.Join(restart(), t.dismiss("monitor-2")) }, errors.Join(err, t.last(deadAfter+time.Second))
		}},
	}
}

// kill kills all processes of a role and starts them again later.
func kill(role string) func(t *turn) (func() error, error) {
	return func(t *turn) (func() error, error) {
		names := t.names(role)
		if role == rolePoller {
			t.hitsPollers(names...)
		}
		for _, name := range names {
			t.member(name).process.Kill()
		}
		return t.startAgain(names), t.last(t.between(time.Second, 3*time.Second))
	}
}

func (t *turn) startAgain(names []string) func() error {
	return func() error {
		for _, name := range names {
			if err := t.start(name); err != nil {
				return err
			}
		}
		return nil
	}
}

// strikes says that the fault itself comes now, after its preparation, and which pollers
// it hits.
func (t *turn) strikes(names ...string) {
	t.hitsPollers(names...)
	t.injected = time.Now()
}

// dawdle makes answers slow, so that pollers hold claims, until the returned function is
// called.
func (t *turn) dawdle(by time.Duration) func() {
	ids := t.some(len(t.base) / 2)
	t.third.misbehave(ids, upstream.Fault{Delay: by})
	return func() { t.third.behave(ids) }
}

// answerSwiftly makes those accounts answer at once that are always slow.
func (t *turn) answerSwiftly() { t.third.misbehave(t.base, upstream.Fault{}) }

// holder returns a poller that holds at least so many claims.
func (t *turn) holder(least int) (name string, err error) {
	return t.whichever(func(name string) bool { return t.held(name) >= least })
}

// whichever returns a poller for which a condition holds: the one drawn, or the first for
// which it comes true, since pollers do not have equally many shards.
func (t *turn) whichever(so func(name string) bool) (name string, err error) {
	drawn := t.one(rolePoller)
	names := append([]string{drawn}, t.names(rolePoller)...)
	if !t.until(func() bool {
		for _, name = range names {
			if so(name) {
				return true
			}
		}
		return false
	}) {
		return drawn, errNoClaims
	}
	return name, nil
}

// running returns how many checks a poller last reported as under way.
func (t *turn) running(name string) int {
	text, err := get(t, "http://"+t.member(name).addr+"/metrics")
	if err != nil {
		return 0
	}
	return int(sum(text, "rounds_checks_running", nil))
}

// killPoller kills a poller that holds at least so many claims; 0 means any poller.
func killPoller(holding int) func(t *turn) (func() error, error) {
	return func(t *turn) (func() error, error) {
		name := t.one(rolePoller)
		if holding > 0 {
			hurry := t.dawdle(1500 * time.Millisecond)
			defer hurry()
			var err error
			if name, err = t.holder(holding); err != nil {
				return nil, err
			}
		} else {
			t.answerSwiftly()
			defer t.third.behave(t.base)
			t.until(func() bool { return t.held(name) == 0 })
		}
		t.strikes(name)
		t.member(name).process.Kill()
		// The poller stays away until the monitors have noticed.
		return t.startAgain([]string{name}), t.last(deadAfter + time.Second)
	}
}

// killWhileRequeueing kills a monitor at about the time when it requeues what a dead
// poller held, and leaves the rest to the other monitor.
func killWhileRequeueing(t *turn) (func() error, error) {
	monitor := t.one(roleMonitor)
	hurry := t.dawdle(1500 * time.Millisecond)
	poller, err := t.holder(10)
	if err != nil {
		hurry()
		return nil, err
	}
	t.strikes(poller)
	t.member(poller).process.Kill()
	hurry()
	restart := t.startAgain([]string{poller, monitor})
	replica := t.member(poller).process.Replica()
	held := t.heldBy(replica)
	err = t.last(deadAfter - 500*time.Millisecond)
	t.until(func() bool { return t.heldBy(replica) < held })
	t.member(monitor).process.Kill()
	return restart, errors.Join(err, t.last(time.Second))
}

// freeze stops a process of a role and resumes it later. A poller is stopped amid checks
// that outlast the time after which it counts as dead.
func freeze(role string, length time.Duration) func(t *turn) (func() error, error) {
	return func(t *turn) (func() error, error) {
		name, hurry := t.one(role), func() {}
		if role == rolePoller {
			hurry = t.dawdle(length)
			var err error
			if name, err = t.holder(10); err != nil {
				hurry()
				return nil, err
			}
		}
		if role == rolePoller {
			t.strikes(name)
		}
		p := t.member(name).process
		err := p.Freeze()
		hurry() // new checks only; those under way stay slow
		if err != nil {
			return nil, err
		}
		return p.Thaw, t.last(length)
	}
}

// terminate sends SIGTERM to a poller amid checks that take so long.
func terminate(by time.Duration) func(t *turn) (func() error, error) {
	return func(t *turn) (func() error, error) {
		hurry := t.dawdle(by)
		defer hurry()
		if err := t.last(time.Second); err != nil { // until they hold those claims and no others
			return nil, err
		}
		// Redis may hold claims under the poller's name that the poller never heard of.
		name, err := t.whichever(func(name string) bool { return t.held(name) >= 10 && t.running(name) >= 5 })
		if err != nil {
			return nil, err
		}
		p := t.member(name).process
		replica := p.Replica()
		t.strikes(name)
		if err := p.Terminate(20 * time.Second); err != nil {
			t.fail("I6: " + err.Error())
		}
		if n := t.heldBy(replica); n > 0 {
			t.fail(fmt.Sprintf("I6: %s was told to end and left %d claims behind: %s", name, n, lastLines(p.Log(), 6)))
		}
		return t.startAgain([]string{name}), nil
	}
}
