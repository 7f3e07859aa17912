package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// ofRedis are the faults of Redis itself.
func ofRedis() []fault {
	failed := counter(rolePoller, "rounds_redis_errors_total")
	late := above(rolePoller, "rounds_redis_call_seconds", "1.024")
	return []fault{
		{name: "redis-kill-always", invariant: "I1 I4 I5", sign: failed, inject: killRedis},
		{name: "redis-kill-everysec", invariant: "I1 I4", sign: failed, inject: func(t *turn) (func() error, error) {
			t.rollback = time.Now()
			if err := t.set("appendfsync", "everysec"); err != nil {
				return nil, err
			}
			heal, err := killRedis(t)
			return func() error { return errors.Join(heal(), t.set("appendfsync", "always")) }, err
		}},
		{name: "redis-power-loss-everysec", invariant: "I1 I4", straggler: true, sign: failed, inject: powerLoss},
		{name: "redis-loading", invariant: "I1 I6", sign: failed, inject: loading},
		{name: "redis-freeze", invariant: "I1 I6", sign: late, inject: func(t *turn) (func() error, error) {
			if err := t.redis.Freeze(); err != nil {
				return nil, err
			}
			return t.redis.Thaw, t.last(4 * time.Second)
		}},
		{name: "redis-script-flush", invariant: "I6", sign: counter(rolePoller, "rounds_scripts_sent_total").times(forgotten), inject: repeated(10, 150*time.Millisecond, "SCRIPT", "FLUSH")},
		{name: "redis-client-kill-storm", invariant: "I1 I3", sign: failed, inject: repeated(20, 100*time.Millisecond, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")},
		{name: "redis-pubsub-kill", invariant: "I6", sign: counter(rolePoller, "rounds_wakeups_lost_total"), inject: repeated(4, 400*time.Millisecond, "CLIENT", "KILL", "TYPE", "pubsub")},
		{name: "redis-client-pause", invariant: "I6", sign: late, inject: func(t *turn) (func() error, error) {
			_, err := t.admin("CLIENT", "PAUSE", 3000, "ALL")
			return nil, errors.Join(err, t.last(3*time.Second))
		}},
		{name: "redis-debug-sleep", invariant: "I6", sign: late, inject: func(t *turn) (func() error, error) {
			_, err := t.admin("DEBUG", "SLEEP", 3)
			return nil, err
		}},
		{name: "redis-busy-script", invariant: "I1 I6", sign: failed, inject: busy},
		{name: "redis-maxclients", invariant: "I6", sign: failed, inject: tooManyClients},
		{name: "redis-oom", invariant: "I1 I5", sign: failed, inject: configured("maxmemory", "100kb", "0")},
		{name: "redis-noreplicas", invariant: "I1 I5", sign: failed, inject: configured("min-replicas-to-write", "1", "0")},
		{name: "redis-misconf", invariant: "I1 I5", sign: failed, inject: misconf},
		{name: "redis-readonly", invariant: "I1 I5", sign: failed, inject: replicaOfNobody("yes")},
		{name: "redis-masterdown", invariant: "I1 I5", sign: failed, inject: replicaOfNobody("no")},
		{name: "redis-noperm", invariant: "I1 I5", sign: failed, inject: func(t *turn) (func() error, error) {
			if _, err := t.admin("ACL", "SETUSER", "default", "-eval", "-evalsha", "-multi", "-exec"); err != nil {
				return nil, err
			}
			return func() error {
				_, err := t.admin("ACL", "SETUSER", "default", "+@all")
				return err
			}, t.last(3 * time.Second)
		}},
	}
}

// forgotten is how many scripts pollers must send again at least. A single one is no
// sign, because each is sent at its first use.
const forgotten = 8

// killRedis does kill -9, and a restart from the append-only file.
func killRedis(t *turn) (func() error, error) {
	t.redis.Kill()
	return func() error { return t.redis.Relaunch(t.redisPath) }, t.last(t.between(500*time.Millisecond, 2*time.Second))
}

// powerLoss simulates a power loss of Redis' machine, which a kill of the process alone
// does not: what was not synced to the disk is cut off the file.
func powerLoss(t *turn) (func() error, error) {
	if err := t.set("appendfsync", "everysec"); err != nil {
		return nil, err
	}
	files, err := filepath.Glob(filepath.Join(t.redis.Dir, "appendonlydir", "*.incr.aof"))
	if err != nil || len(files) != 1 {
		return nil, fmt.Errorf("append-only files: %v %w", files, err)
	}
	synced, err := os.Stat(files[0])
	if err != nil {
		return nil, err
	}
	t.rollback = time.Now().Add(-2500 * time.Millisecond) // Redis delays a write while a sync is under way
	err = t.last(t.between(500*time.Millisecond, time.Second))
	t.redis.Kill()
	// Some bytes more: the last command is cut off in its middle.
	err = errors.Join(err, os.Truncate(files[0], synced.Size()+int64(t.random.IntN(20))))
	return func() error {
		return errors.Join(t.redis.Relaunch(t.redisPath), t.set("appendfsync", "always"))
	}, errors.Join(err, t.last(500*time.Millisecond))
}

// repeated does a command of Redis so many times.
func repeated(times int, every time.Duration, name string, args ...any) func(t *turn) (func() error, error) {
	return func(t *turn) (func() error, error) {
		for range times {
			if _, err := t.admin(name, args...); err != nil {
				return nil, err
			}
			if err := t.last(every); err != nil {
				return nil, err
			}
		}
		return nil, nil
	}
}

// configured changes a setting of Redis for a while.
func configured(name, bad, good string) func(t *turn) (func() error, error) {
	return func(t *turn) (func() error, error) {
		if err := t.set(name, bad); err != nil {
			return nil, err
		}
		return func() error { return t.set(name, good) }, t.last(t.between(2*time.Second, 3*time.Second))
	}
}

// busy runs a script that never ends, until it is killed.
func busy(t *turn) (func() error, error) {
	conn, err := t.redis.Dial()
	if err != nil {
		return nil, err
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer conn.Close()
		_, _ = conn.Do("EVAL", "while true do end", 0) // killed by heal
	}()
	return func() error {
		_, err := t.admin("SCRIPT", "KILL")
		<-ended
		return err
	}, t.last(3 * time.Second)
}

// tooManyClients closes connections and accepts no new ones.
func tooManyClients(t *turn) (func() error, error) {
	conn, err := t.redis.Dial()
	if err != nil {
		return nil, err
	}
	if _, err := conn.Do("CONFIG", "SET", "maxclients", 1); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	if _, err := conn.Do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return func() error {
		_, err := conn.Do("CONFIG", "SET", "maxclients", 10000)
		return errors.Join(err, conn.Close())
	}, t.last(2 * time.Second)
}

// misconf makes a snapshot fail, after which Redis accepts no writes: a directory is
// where its file should be.
func misconf(t *turn) (func() error, error) {
	path := filepath.Join(t.redis.Dir, "dump.rdb")
	if err := os.Mkdir(path, 0o755); err != nil {
		return nil, err
	}
	heal := func() error { return errors.Join(os.Remove(path), t.set("save", "")) }
	if err := t.set("save", "3600 1"); err != nil {
		return heal, err
	}
	if _, err := t.admin("BGSAVE"); err != nil {
		return heal, err
	}
	return heal, t.last(3 * time.Second)
}

// replicaOfNobody makes Redis the replica of a server that does not exist. It accepts no
// writes, and without stale data no reads either.
func replicaOfNobody(stale string) func(t *turn) (func() error, error) {
	return func(t *turn) (func() error, error) {
		if err := t.set("replica-serve-stale-data", stale); err != nil {
			return nil, err
		}
		if _, err := t.admin("REPLICAOF", "127.0.0.1", 1); err != nil {
			return nil, err
		}
		return func() error {
			_, err := t.admin("REPLICAOF", "NO", "ONE")
			return errors.Join(err, t.set("replica-serve-stale-data", "yes"))
		}, t.last(t.between(2*time.Second, 3*time.Second))
	}
}
