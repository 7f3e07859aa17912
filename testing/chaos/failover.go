package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/testing/redistest"
)

const (
	quickSilence = 500 * time.Millisecond // after which sentinels act, where they are to
	ackedBefore  = time.Second            // by which a replica may be behind at a failover
	// A client may hear after such a time what a server acknowledged before it was
	// killed or frozen. Its replica has not got its place before that.
	heardLate = 400 * time.Millisecond
	// All clients have left a replaced master such a time after sentinels said so:
	// they ask each second.
	switched = 1500 * time.Millisecond
)

// losing notes that from now on Redis may lose what it acknowledges.
func (t *turn) losing() { t.rollback = time.Now().Add(-ackedBefore) }

// silenced notes that the master that is to be replaced says no more.
func (t *turn) silenced() { t.lostUntil = time.Now().Add(heardLate) }

// cutOff has a master write on without its replica, kills it, and makes sure that
// the replica has not got what was written.
func (t *turn) cutOff(master, replica *redistest.Server) error {
	if err := replica.Freeze(); err != nil {
		return err
	}
	defer func() { _ = replica.Thaw() }() // it lives; who is not there cannot take over
	// What is on its way already is all that it still gets.
	if _, err := ask(master, time.Second, "CLIENT", "KILL", "TYPE", "replica"); err != nil {
		return err
	}
	if err := t.last(t.between(1500*time.Millisecond, 2500*time.Millisecond)); err != nil {
		return err
	}
	written, err := offset(master, "master_repl_offset")
	master.Kill()
	if err != nil {
		return err
	}
	if err := replica.Thaw(); err != nil {
		return err
	}
	got, err := offset(replica, "slave_repl_offset")
	if err == nil && written-got < leastLost {
		err = fmt.Errorf("only %d bytes are lost", written-got)
	}
	return err
}

const leastLost = 4 << 10 // bytes of the replication stream, far beyond its own pings

// offset is a place in the stream that a master sends to its replicas.
func offset(s *redistest.Server, which string) (int, error) {
	text, err := redis.String(ask(s, 5*time.Second, "INFO", "replication"))
	if err != nil {
		return 0, err
	}
	_, after, found := strings.Cut(text, "\n"+which+":")
	if !found {
		return 0, fmt.Errorf("INFO replication has no %s", which)
	}
	return strconv.Atoi(strings.TrimSpace(strings.SplitN(after, "\n", 2)[0]))
}

// tickets is how many a server has handed out, in all shards.
func tickets(s *redistest.Server) (int, error) {
	total := 0
	for shard := range shards {
		n, err := redis.Int(ask(s, 2*time.Second, "GET", key(shard, "ticket_seq")))
		if err != nil && !errors.Is(err, redis.ErrNil) {
			return 0, err
		}
		total += n
	}
	return total, nil
}

// deserted expects that nobody gets a ticket from a master that another has
// replaced, while it takes itself for one.
func (t *turn) deserted(former *redistest.Server) error {
	before, err := tickets(former)
	if err != nil {
		return err
	}
	if err := t.last(time.Second); err != nil {
		return err
	}
	role, err := redis.Values(ask(former, time.Second, "ROLE"))
	if err != nil {
		return err
	}
	if name, _ := redis.String(role[0], nil); name != "master" {
		return nil // it has been told meanwhile, and gets what the other writes
	}
	after, err := tickets(former)
	if err == nil && after != before {
		t.fail(fmt.Sprintf("I3: %d tickets were given out by a master that another had replaced", after-before))
	}
	return err
}
