package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/rounds-dev/rounds/testing/redistest"
)

// ofSentinel are the faults of a master, its replica and three sentinels. When a replica
// takes the master's place, Redis forgets what the replica had not received yet,
// acknowledged or not.
func ofSentinel() []fault {
	failed := counter(rolePoller, "rounds_redis_errors_total")
	fenced := counter(rolePoller, "rounds_returns_total", `outcome="fenced"`).times(fencedAtOnce)
	orphaned := counter(roleMonitor, "rounds_requeued_total", `reason="orphaned"`)
	unheard := counter(rolePoller, "rounds_wakeups_lost_total")
	silent := counter("", "rounds_redis_sentinels_silent_total")
	return []fault{
		{name: "sentinel-failover", invariant: "I1 I3 I4", sign: unheard, straggler: true, mend: regroup, inject: func(t *turn) (func() error, error) {
			var err error
			t.losing()
			t.torn = true
			if t.former, err = t.sentinels.Named(); err == nil {
				_, err = t.sentinels.Promote()
			}
			t.lostUntil = time.Now().Add(switched)
			return nil, err // the old master lives on and believes to be the master until it is told
		}},
		{name: "sentinel-master-kill", invariant: "I1 I3 I4", sign: failed, straggler: true, mend: regroup, inject: masterKilled},
		{name: "sentinel-master-freeze", invariant: "I1 I3 I4", sign: failed, straggler: true, mend: regroup, inject: masterFrozen},
		{name: "sentinel-writes-lost", invariant: "I1 I3 I4", sign: fenced, straggler: true, mend: regroup, inject: masterWritesLost},
		{name: "sentinel-poller-kill", invariant: "I1 I2 I3", sign: orphaned, straggler: true, mend: regroup, inject: func(t *turn) (func() error, error) {
			poller, err := t.holder(5)
			if err != nil {
				return nil, err
			}
			t.member(poller).process.Kill()
			heal, err := masterKilled(t)
			restart := t.startAgain([]string{poller})
			return func() error { return errors.Join(healed(heal), restart()) }, errors.Join(err, t.last(deadAfter))
		}},
		{name: "sentinel-replica-down", invariant: "I1 I5 I6", sign: withoutReplica(), mend: regroup, inject: func(t *turn) (func() error, error) {
			master, err := t.sentinels.Named()
			if err != nil {
				return nil, err
			}
			replica := t.sentinels.Other(master)
			replica.Kill()
			return func() error { return t.follow(replica, master) }, errors.Join(t.last(3*time.Second), t.working())
		}},
		{name: "sentinel-one-down", invariant: "I6", sign: silent, mend: regroup, inject: sentinelsKilled(1, nil)},
		{name: "sentinel-all-down", invariant: "I6", sign: silent, mend: regroup, inject: sentinelsKilled(3, nil)},
		// The last sentinel sees the master fail and may not replace it alone.
		{name: "sentinel-no-quorum", invariant: "I1 I5 I6", sign: failed, mend: regroup, inject: sentinelsKilled(2, func(t *turn, master *redistest.Server) (func() error, error) {
			master.Kill()
			return func() error { return master.Relaunch(t.redisPath, "--replicaof", "no", "one") }, t.last(2500 * time.Millisecond)
		})},
	}
}

// healed calls what ends a fault, if anything does.
func healed(heal func() error) error {
	if heal == nil {
		return nil
	}
	return heal()
}

// masterKilled kills the master amid checks, so that the sentinels replace it.
func masterKilled(t *turn) (func() error, error) {
	return t.replaced(func(master *redistest.Server) error {
		master.Kill()
		return nil
	}, func(master, next *redistest.Server) error { return t.follow(master, next) })
}

// masterFrozen has them replace a master that later goes on as if nothing had happened.
func masterFrozen(t *turn) (func() error, error) {
	return t.replaced((*redistest.Server).Freeze, func(master, _ *redistest.Server) error {
		t.former = master
		return master.Thaw()
	})
}

// masterWritesLost has them replace a master that its replica had lost for a while, in
// which it acknowledged what is then forgotten.
func masterWritesLost(t *turn) (func() error, error) {
	return t.replaced(func(master *redistest.Server) error {
		return t.cutOff(master, t.sentinels.Other(master))
	}, func(master, next *redistest.Server) error { return t.follow(master, next) })
}

// replaced breaks the master while pollers hold claims, and waits until another server
// has taken its place.
func (t *turn) replaced(strike func(master *redistest.Server) error, heal func(master, next *redistest.Server) error) (func() error, error) {
	hurry := t.dawdle(1500 * time.Millisecond)
	defer hurry()
	if _, err := t.holder(10); err != nil {
		return nil, err
	}
	master, err := t.sentinels.Named()
	if err == nil {
		err = t.sentinels.TakeForDeadAfter(quickSilence)
	}
	if err != nil {
		return nil, err
	}
	t.losing()
	t.injected = time.Now()
	if err = strike(master); err != nil {
		return nil, err
	}
	t.silenced()
	next, err := t.sentinels.AwaitNamed(master)
	return func() error {
		return errors.Join(t.sentinels.TakeForDeadAfter(patience), heal(master, next))
	}, errors.Join(err, t.last(t.between(200*time.Millisecond, time.Second)))
}

// follow starts a killed server as a replica of the current master.
func (t *turn) follow(s, master *redistest.Server) error {
	return s.Relaunch(t.redisPath, "--replicaof", "127.0.0.1", fmt.Sprint(master.Port))
}

// sentinelsKilled kills so many sentinels, then does a fault, and starts them again.
func sentinelsKilled(n int, then func(t *turn, master *redistest.Server) (func() error, error)) func(t *turn) (func() error, error) {
	return func(t *turn) (func() error, error) {
		master, err := t.sentinels.Named()
		if err != nil {
			return nil, err
		}
		var gone []*redistest.Server
		for _, i := range t.random.Perm(len(t.sentinels.Sentinels))[:n] {
			gone = append(gone, t.sentinels.Sentinels[i])
			t.sentinels.Sentinels[i].Kill()
		}
		var heal func() error
		if then != nil {
			if err = t.sentinels.TakeForDeadAfter(quickSilence); err == nil {
				heal, err = then(t, master)
			}
		} else {
			err = errors.Join(t.last(3*time.Second), t.working())
		}
		return func() error {
			errs := []error{healed(heal)}
			for _, one := range gone {
				errs = append(errs, one.Relaunch(t.redisPath))
			}
			return errors.Join(append(errs, t.sentinels.TakeForDeadAfter(patience))...)
		}, err
	}
}

// working notes a violation if checks stop during a fault that should not matter.
func (t *turn) working() error {
	if is, usually := t.rate(t.ailing.without(t.base)); is < fullShare*usually {
		t.fail(fmt.Sprintf("I6: %.0f checks a second during the fault, of %.0f usual ones", is, usually))
	}
	return t.Err()
}

// regroup makes the former master follow the new one, if it lives and still believes to
// be the master, and waits until all is as it was. Nothing may have been written to the
// former master before.
func regroup(t *turn) error {
	master, err := t.sentinels.Named()
	if err != nil {
		return err
	}
	other := t.sentinels.Other(master)
	if t.former == other {
		if err := t.deserted(other); err != nil {
			return err
		}
		if _, err := ask(other, time.Second, "REPLICAOF", "127.0.0.1", master.Port); err != nil {
			return err
		}
	}
	return t.sentinels.AwaitWhole()
}
