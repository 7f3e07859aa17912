package main

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/testing/redistest"
)

// ofCluster are the faults of three masters with a replica each. If replicas may not take
// over by themselves, nothing that was acknowledged may be lost.
func ofCluster() []fault {
	failed := counter(rolePoller, "rounds_redis_errors_total")
	fenced := counter(rolePoller, "rounds_returns_total", `outcome="fenced"`).times(fencedAtOnce)
	orphaned := counter(roleMonitor, "rounds_requeued_total", `reason="orphaned"`)
	redirects := counter("", "rounds_redis_redirects_total")
	return []fault{
		{name: "cluster-slots-move", invariant: "I1 I4 I5", sign: redirects, mend: whole, inject: func(t *turn) (func() error, error) {
			return nil, t.move(6)
		}},
		{name: "cluster-slot-half-moved", invariant: "I1 I4 I5", sign: failed, mend: whole, inject: func(t *turn) (func() error, error) {
			return t.halfMoved(3, nil)
		}},
		{name: "cluster-target-restart", invariant: "I1 I4 I5", sign: failed, mend: whole, inject: func(t *turn) (func() error, error) {
			return t.halfMoved(1, func(to *redistest.Server) error {
				to.Kill()
				return errors.Join(t.last(time.Second), to.Relaunch(t.redisPath))
			})
		}},
		{name: "cluster-poller-kill", invariant: "I1 I2 I4", sign: orphaned, mend: whole, inject: func(t *turn) (func() error, error) {
			heal, err := killPoller(10)(t)
			return heal, errors.Join(err, t.move(2))
		}},
		{name: "cluster-master-restart", invariant: "I1 I4 I5", sign: failed, mend: whole, inject: func(t *turn) (func() error, error) {
			master, _, err := t.pair()
			if err == nil {
				err = t.hitsServedBy(master)
			}
			if err != nil {
				return nil, err
			}
			master.Kill()
			return func() error { return master.Relaunch(t.redisPath) }, t.last(t.between(500*time.Millisecond, 2*time.Second))
		}},
		{name: "cluster-master-freeze", invariant: "I1 I3 I5", sign: failed, mend: whole, inject: func(t *turn) (func() error, error) {
			master, _, err := t.pair()
			if err == nil {
				err = t.hitsServedBy(master)
			}
			if err == nil {
				err = master.Freeze()
			}
			if err != nil {
				return nil, err
			}
			return master.Thaw, t.last(t.between(3*time.Second, 4*time.Second))
		}},
		{name: "cluster-failover", invariant: "I1 I4 I5", sign: redirects, mend: whole, inject: func(t *turn) (func() error, error) {
			shard := t.random.IntN(shards)
			master, err := t.cluster.Serving(slotOf(shard))
			if err == nil {
				err = t.hitsServedBy(master)
			}
			if err == nil {
				_, err = t.cluster.PromoteReplica(slotOf(shard))
			}
			return nil, err
		}},
		{name: "cluster-master-kill", invariant: "I1 I3 I4", sign: failed, straggler: true, mend: whole, inject: func(t *turn) (func() error, error) {
			return t.succeeded(func(master, _ *redistest.Server) error {
				master.Kill()
				return nil
			}, func(master *redistest.Server) error { return master.Relaunch(t.redisPath) })
		}},
		{name: "cluster-zombie", invariant: "I1 I3 I4", sign: failed, straggler: true, mend: whole, inject: func(t *turn) (func() error, error) {
			return t.succeeded(func(master, _ *redistest.Server) error { return master.Freeze() }, (*redistest.Server).Thaw)
		}},
		{name: "cluster-writes-lost", invariant: "I1 I3 I4", sign: fenced, straggler: true, mend: whole, inject: func(t *turn) (func() error, error) {
			return t.succeeded(t.cutOff, func(master *redistest.Server) error { return master.Relaunch(t.redisPath) })
		}},
		{name: "cluster-script-flush", invariant: "I6", sign: counter(rolePoller, "rounds_scripts_sent_total").times(forgotten), mend: whole, inject: everywhere(8, 150*time.Millisecond, "SCRIPT", "FLUSH")},
		{name: "cluster-client-kill-storm", invariant: "I1 I3", sign: failed, mend: whole, inject: everywhere(15, 100*time.Millisecond, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")},
	}
}

// whole waits until the cluster is as it was, and replaces no master by itself.
func whole(t *turn) error { return errors.Join(t.replace(false), t.cluster.AwaitWhole()) }

// pair draws a master that has shards, and returns its replica.
func (t *turn) pair() (master, replica *redistest.Server, err error) {
	if master, err = t.cluster.Serving(slotOf(t.random.IntN(shards))); err != nil {
		return nil, nil, err
	}
	replica, err = t.cluster.Following(master)
	return master, replica, err
}

// elsewhere draws a master that does not serve a slot.
func (t *turn) elsewhere(slot int) (*redistest.Server, error) {
	owner, err := t.cluster.Serving(slot)
	if err != nil {
		return nil, err
	}
	// Shards that are far apart are on different masters, unless one master has all of
	// them.
	masters, err := t.cluster.Leading()
	if err != nil {
		return nil, err
	}
	for _, i := range t.random.Perm(len(masters)) {
		if masters[i] != owner {
			return masters[i], nil
		}
	}
	return nil, fmt.Errorf("all slots are at %s", owner.Addr())
}

// move moves some shards to other masters, key by key, so that steps meet every state in
// between.
func (t *turn) move(n int) error {
	moving := t.random.Perm(shards)[:n]
	t.hitsShards(func(shard int) bool { return slices.Contains(moving, shard) })
	for _, shard := range moving {
		to, err := t.elsewhere(slotOf(shard))
		if err != nil {
			return err
		}
		m, err := t.cluster.BeginMigration(slotOf(shard), to)
		if err != nil {
			return err
		}
		for moved := 1; moved > 0; {
			if moved, err = m.Move(1); err != nil {
				return err
			}
			if err := t.last(t.between(0, 30*time.Millisecond)); err != nil {
				return err
			}
		}
		if err := m.End(); err != nil {
			return err
		}
	}
	return nil
}

// halfMoved moves some shards half way to other masters, where steps cannot be done. Then
// it does a fault to the target of the last one, and moves the rest.
func (t *turn) halfMoved(n int, then func(to *redistest.Server) error) (func() error, error) {
	var under []*redistest.Migration
	end := func() error {
		// A node that has just come back accepts no keys yet.
		errs := []error{t.cluster.AwaitWhole()}
		for _, m := range under {
			errs = append(errs, m.End())
		}
		return errors.Join(errs...)
	}
	var to *redistest.Server
	moving := t.random.Perm(shards)[:n]
	t.hitsShards(func(shard int) bool { return slices.Contains(moving, shard) })
	for _, shard := range moving {
		var err error
		if to, err = t.elsewhere(slotOf(shard)); err != nil {
			return end, err
		}
		keys, err := t.keysOf(shard)
		if err != nil {
			return end, err
		}
		m, err := t.cluster.BeginMigration(slotOf(shard), to)
		if err != nil {
			return end, err
		}
		under = append(under, m)
		if _, err := m.Move(max(1, keys/2)); err != nil {
			return end, err
		}
	}
	err := t.last(t.between(2*time.Second, 3*time.Second))
	if then != nil && err == nil {
		err = errors.Join(t.hitsServedBy(to), then(to))
	}
	return end, err
}

// hitsServedBy says that the fault concerns the shards of a server.
func (t *turn) hitsServedBy(master *redistest.Server) error {
	having, err := t.store.serving()
	if err == nil {
		t.hitsShards(func(shard int) bool { return having[shard] == master })
	}
	return err
}

// keysOf counts a shard's keys.
func (t *turn) keysOf(shard int) (int, error) {
	owner, err := t.cluster.Serving(slotOf(shard))
	if err != nil {
		return 0, err
	}
	return redis.Int(ask(owner, time.Second, "CLUSTER", "COUNTKEYSINSLOT", slotOf(shard)))
}

// succeeded breaks a master while pollers hold claims, and waits until its replica has
// taken its place.
func (t *turn) succeeded(strike func(master, replica *redistest.Server) error, heal func(master *redistest.Server) error) (func() error, error) {
	hurry := t.dawdle(1500 * time.Millisecond)
	defer hurry()
	if _, err := t.holder(10); err != nil {
		return nil, err
	}
	shard := t.random.IntN(shards)
	master, err := t.cluster.Serving(slotOf(shard))
	if err != nil {
		return nil, err
	}
	replica, err := t.cluster.Following(master)
	if err == nil {
		err = t.replace(true)
	}
	if err != nil {
		return nil, err
	}
	if err = t.hitsServedBy(master); err != nil {
		return nil, err
	}
	t.losing()
	t.injected = time.Now()
	if err = strike(master, replica); err != nil {
		return nil, err
	}
	t.silenced()
	_, err = t.cluster.AwaitOther(slotOf(shard), master)
	return func() error { return heal(master) }, errors.Join(err, t.last(t.between(200*time.Millisecond, time.Second)))
}

// everywhere does a command so many times on all servers.
func everywhere(times int, every time.Duration, name string, args ...any) func(t *turn) (func() error, error) {
	return func(t *turn) (func() error, error) {
		for range times {
			for _, s := range t.store.servers() {
				if _, err := ask(s, 5*time.Second, name, args...); err != nil {
					return nil, err
				}
			}
			if err := t.last(every); err != nil {
				return nil, err
			}
		}
		return nil, nil
	}
}
