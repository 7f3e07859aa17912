package delivery

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/group"
)

// step does a step under the lease. A step that succeeds has also renewed the lease.
func (s *session) step(do func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(s.work, stepTimeout)
	defer cancel()
	sent := time.Now()
	err := do(ctx)
	if err == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		if sent.After(s.live) {
			s.live = sent
		}
	}
	return err
}

// silence returns how long ago the lease was last known to be held.
func (s *session) silence() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Since(s.live)
}

// renewLeases renews, until ctx is done, the leases that no other step renews, for example while a
// handler works. When a lease is lost, or may be, it cancels the session's handlers: another
// consumer may have their accounts.
func (g *member) renewLeases(ctx context.Context) {
	for sleep(ctx, g.TakeOver/12) {
		g.mu.Lock()
		for _, s := range g.reading {
			if s.needsRenewal() {
				s.renewals.Go(s.renewOnce)
			}
		}
		g.mu.Unlock()
	}
}

// needsRenewal reports whether renewLeases must renew the session's lease, and notes a renewal that
// begins.
func (s *session) needsRenewal() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	silence := s.TakeOver / 3
	if s.asleep {
		silence = s.TakeOver / 2 // the session has tried by itself
	}
	if s.renewing || time.Since(s.live) < silence || s.work.Err() != nil {
		return false
	}
	s.renewing = true
	return true
}

// renewOnce renews the lease. If no renewal has succeeded for too long, it counts the lease as lost.
func (s *session) renewOnce() {
	if _, err := s.renew(); err != nil && s.silence() >= s.TakeOver {
		s.lost(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.renewing = false
}

// sleeps notes whether the session sleeps until a message wakes it.
func (s *session) sleeps(is bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asleep = is
}

// renew renews the lease, and reports whether there may be messages to read.
func (s *session) renew() (renewed group.Renewed, err error) {
	err = s.step(func(ctx context.Context) (err error) {
		renewed, err = group.Of(s.Ring).Renew(ctx, s.lease)
		return err
	})
	if err != nil && s.work.Err() == nil {
		s.failed("renew", err)
	}
	if errors.Is(err, group.ErrLeaseLost) {
		s.lost(err)
	}
	return renewed, err
}

// untilRenewal returns the time until the lease's next renewal. Each shard has its own times,
// which are the same for all groups of a process, so that one step renews all leases of the shard.
func (s *session) untilRenewal() time.Duration {
	period := s.TakeOver / 3
	return untilNext(period, period*time.Duration(s.shard)/time.Duration(s.Ring.Shards()))
}

// untilNext returns the time until the next multiple of the period plus the phase.
func untilNext(period, phase time.Duration) time.Duration {
	return period - (time.Duration(time.Now().UnixNano())-phase)%period
}

// gatherLosses is how long lost leases are gathered for one log line. A consumer that was cut off
// finds out about its shards one after the other.
const gatherLosses = 5 * time.Second

// losses are the shards whose leases were lost and not logged yet.
type losses struct {
	mu     sync.Mutex
	since  time.Time
	shards []int
}

func (l *losses) add(shard int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.shards) == 0 {
		l.since = time.Now()
	}
	l.shards = append(l.shards, shard)
}

// take returns the shards once the first has waited that long.
func (l *losses) take(gather time.Duration) (shards []int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.shards) > 0 && time.Since(l.since) >= gather {
		shards, l.shards = l.shards, nil
	}
	slices.Sort(shards)
	return slices.Compact(shards)
}

// tellLosses logs the lost leases in one line.
func (g *member) tellLosses(gather time.Duration) {
	if shards := g.losses.take(gather); len(shards) > 0 {
		g.Log.Info("leases lost; other consumers may read these shards", "shards", shards)
	}
}

func (s *session) lost(why error) {
	if s.work.Err() == nil {
		s.meters.lost.Inc()
		if errors.Is(why, group.ErrLeaseLost) { // else Redis is away, which the ring logs once
			s.losses.add(s.shard)
		}
		s.Log.Debug("lease of a shard lost", "shard", s.shard, "error", why)
	}
	s.lose(group.ErrLeaseLost)
}

// trouble handles a failed step, and waits a little if Redis is at fault.
func (s *session) trouble(step string, err error) {
	if s.work.Err() != nil {
		return
	}
	s.failed(step, err)
	switch {
	case errors.Is(err, group.ErrLeaseLost):
		s.lost(err)
		return
	case errors.Is(err, circulate.ErrNoGroup):
		s.ensure()
	}
	s.doubt() // a Redis that did not answer, or answered with an error, may have been restarted
	if s.failures < 5 {
		s.failures++
	}
	_ = sleep(s.reading, 50*time.Millisecond<<s.failures)
}

// doubt has the session look for pending messages that are not held here. They may be anywhere in
// the stream: after a read of unknown outcome because the group may have been rewound, and after a
// Redis lost its last writes because it may have forgotten acknowledgements.
func (s *session) doubt() { s.unsure, s.last = true, circulate.StreamStart }

// ensure creates the group in the shard if it is missing.
func (s *session) ensure() bool {
	created := false
	err := s.step(func(ctx context.Context) (err error) {
		created, err = s.Ring.Streams().EnsureGroup(ctx, s.shard, s.Group, s.after(s.shard))
		if err == nil && s.Events {
			err = s.Ring.Streams().TellEvents(ctx, s.shard, s.Group, true)
		}
		return err
	})
	if err != nil {
		s.failed("ensure group", err)
		return false
	}
	if created {
		s.fresh.Add(1) // manage logs it
		s.atEnd = false
	}
	return true
}
