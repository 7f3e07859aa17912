package poller

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/poller/egress"
)

// Config has the settings of a pool. A zero field means the default, which follows the semicolon.
type Config struct {
	Replica         string        // the replica's name; a new one of circulate.NewReplica
	Host            string        // the host's name for people, in the replica's report; none
	Version         string        // the program's, likewise; none
	Concurrency     int           // checks at once; 256
	HeldChecks      int           // held checks at once, in addition to Concurrency; 20,000
	Sends           int           // calls of sends at once, in addition to checks; an eighth as many with files, in addition; 256
	SendsAhead      int           // attempts at once that wait for Redis' disk and replicas before their calls, in addition; 8,192
	SendTimeout     time.Duration // the time for one attempt of a send; 20 s
	CheckTimeout    time.Duration // the time for one page; 30 s
	Heartbeat       time.Duration // the time between two heartbeats; 2 s
	GracePeriod     time.Duration // how long checks may go on after Run's context is done; 20 s
	MemoryMark      int           // per cent of Redis' maxmemory from which no messages are taken; 85
	AccountShare    int64         // bytes of messages an hour that an account may bring, negative: any; 64 MiB
	LongTimeout     time.Duration // the monitors' timeout, after which a claim is no longer ours; 5 min
	PageLimit       int           // messages wanted on one page; 200
	RecordsKept     int           // decoded records kept in memory; 500,000
	RecordBytes     int64         // the most bytes of their texts; 256 MiB, enough for 500,000 records of 500 bytes
	IdleInterval    time.Duration // the longest time between two looks at a shard of the replica's own; 30 s
	Limits          Limits        // limits that replicas share; none
	Ways            egress.Ways   // the ways out by which calls go, as fetch.Options has them; none
	ConfirmUnsynced bool          // calls do not wait until what they confirm is on Redis' disk, see Confirmer, nor sends until their attempts are
	ConfirmReplicas int           // how many replicas of Redis must have the same before these calls and sends begin; none
	CommitInterval  time.Duration // the longest that a result waits for others of its shard; 2 ms
	GatherInterval  time.Duration // the same on a busy replica, and the least time between its claims of a shard; both double when that makes no check later; 150 ms
}

const (
	maxPages         = 20               // of one claim; the account then queues behind the others
	maxDrain         = 30 * time.Second // the same as a time
	maxEmptyPages    = 10               // empty pages in a row that say there is more
	maxCursor        = 64 << 10         // bytes
	maxData          = 256 << 10        // bytes of one message
	abandonAfter     = time.Second      // how long a checker may go on after its context is done
	unsubscribedPoll = time.Second      // the longest IdleInterval while wake-ups may be missed
	hangingPause     = time.Second      // between two counts while too many checkers hang
	peerWindow       = 5                // heartbeats that a replica may miss without losing its part of the shards
	leastAbandoned   = 16               // hanging checks that even the smallest pool tolerates
	flushTimeout     = 10 * time.Second // for the last writes at shutdown
	hurriedFlush     = time.Second      // the same if the shutdown must hurry
	recordTTL        = 10 * time.Minute // see circulate.Records
)

// idle returns the longest time between two looks for what is due. Wake-ups reach the
// replica if it is subscribed.
func (c Config) idle(subscribed bool) time.Duration {
	if subscribed {
		return c.IdleInterval
	}
	return min(unsubscribedPoll, c.IdleInterval)
}

func (c Config) withDefaults() Config {
	c.Replica = cmp.Or(c.Replica, circulate.NewReplica())
	c.Concurrency = cmp.Or(c.Concurrency, 256)
	c.HeldChecks = cmp.Or(c.HeldChecks, 20_000)
	c.Sends = cmp.Or(c.Sends, 256)
	c.SendsAhead = cmp.Or(c.SendsAhead, 8192)
	c.SendTimeout = cmp.Or(c.SendTimeout, 20*time.Second)
	c.CheckTimeout = cmp.Or(c.CheckTimeout, 30*time.Second)
	c.Heartbeat = cmp.Or(c.Heartbeat, 2*time.Second)
	c.GracePeriod = cmp.Or(c.GracePeriod, 20*time.Second)
	c.MemoryMark = cmp.Or(c.MemoryMark, 85)
	c.AccountShare = cmp.Or(c.AccountShare, 64<<20)
	c.LongTimeout = cmp.Or(c.LongTimeout, 5*time.Minute)
	c.PageLimit = cmp.Or(c.PageLimit, 200)
	c.RecordsKept = cmp.Or(c.RecordsKept, 500_000)
	c.RecordBytes = cmp.Or(c.RecordBytes, 256<<20)
	c.IdleInterval = cmp.Or(c.IdleInterval, 30*time.Second)
	c.CommitInterval = cmp.Or(c.CommitInterval, 2*time.Millisecond)
	c.GatherInterval = cmp.Or(c.GatherInterval, 150*time.Millisecond)
	return c
}

func (c Config) validate() error {
	errs := []error{circulate.ValidateReplica(c.Replica)}
	positive := func(name string, ok bool, value any) {
		if !ok {
			errs = append(errs, fmt.Errorf("%s: must be more than 0, is %v", name, value))
		}
	}
	positive("concurrency", c.Concurrency > 0, c.Concurrency)
	positive("held checks", c.HeldChecks > 0, c.HeldChecks)
	positive("sends", c.Sends > 0, c.Sends)
	positive("sends ahead", c.SendsAhead > 0, c.SendsAhead)
	positive("send timeout", c.SendTimeout > 0, c.SendTimeout)
	positive("check timeout", c.CheckTimeout > 0, c.CheckTimeout)
	positive("heartbeat", c.Heartbeat > 0, c.Heartbeat)
	positive("grace period", c.GracePeriod > 0, c.GracePeriod)
	positive("page limit", c.PageLimit > 0, c.PageLimit)
	positive("idle interval", c.IdleInterval > 0, c.IdleInterval)
	positive("commit interval", c.CommitInterval > 0, c.CommitInterval)
	positive("gather interval", c.GatherInterval > 0, c.GatherInterval)
	if c.MemoryMark < 10 || c.MemoryMark > 100 {
		errs = append(errs, fmt.Errorf("memory mark: must be 10 to 100 per cent, is %d", c.MemoryMark))
	}
	if c.LongTimeout < 2*c.CheckTimeout {
		errs = append(errs, fmt.Errorf("long timeout: must be at least twice the check timeout of %v, is %v", c.CheckTimeout, c.LongTimeout))
	}
	return errors.Join(errs...)
}

// validateHolds checks that the settings leave time for calls that third parties hold.
func (c Config) validateHolds(checkers Checkers) error {
	for _, kind := range checkers.Kinds() {
		if _, holds := checkers[kind].(Holder); holds && c.LongTimeout < LeastLongTimeout {
			return fmt.Errorf("long timeout: must be at least %v, is %v: a shorter one leaves no time in which third parties may hold calls of the kind %q", LeastLongTimeout, c.LongTimeout, kind)
		}
	}
	return nil
}
