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
	quickSilence = 500 * time.Millisecond // after which sentinels act, if they should
	ackedBefore  = time.Second            // the most that a replica may be behind at a failover
	// A client may receive what a server acknowledged up to this long after the server
	// was killed or frozen. The replica takes its place later than that.
	heardLate = 400 * time.Millisecond
	// All clients have left a replaced master this long after sentinels announced it:
	// they ask each second.
	switched = 1500 * time.Millisecond
)

// losing notes that from now on Redis may lose what it acknowledges.
func (t *turn) losing() { t.rollback = time.Now().Add(-ackedBefore) }

// silenced notes that the master that is to be replaced no longer answers.
func (t *turn) silenced() { t.lostUntil = time.Now().Add(heardLate) }

// cutOff has a master write on without its replica, kills it, and makes sure that the
// replica has not received what was written.
func (t *turn) cutOff(master, replica *redistest.Server) error {
	if err := replica.Freeze(); err != nil {
		return err
	}
	defer func() { _ = replica.Thaw() }() // it thaws; a frozen replica cannot take over
	// The replica still receives what is already on its way, and nothing more.
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

// offset is a position in the stream that a master sends to its replicas.
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

// tickets returns how many tickets a server has issued, in all shards.
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

// deserted expects that nobody gets a ticket from a replaced master while it still
// believes to be the master.
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
		return nil // it was demoted meanwhile, and receives what the other writes
	}
	after, err := tickets(former)
	if err == nil && after != before {
		t.fail(fmt.Sprintf("I3: %d tickets were issued by a master that another had replaced", after-before))
	}
	return err
}
