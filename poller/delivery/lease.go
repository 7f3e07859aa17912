package delivery

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/group"
)

// step does a step with the lease. One that succeeds has renewed it.
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

// silence is how long ago the lease was last known to be held.
func (s *session) silence() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Since(s.live)
}

// keep renews leases while other steps do not, as while a handler works, until ctx
// is done. When one is lost, or may be, the session's handlers are told to stop:
// another consumer may have their accounts.
func (g *member) keep(ctx context.Context) {
	for sleep(ctx, g.TakeOver/12) {
		g.mu.Lock()
		for _, s := range g.reading {
			if s.wantsKeeping() {
				s.kept.Go(s.keep)
			}
		}
		g.mu.Unlock()
	}
}

// wantsKeeping reports whether the lease must be renewed for the session, and notes
// that this is done.
func (s *session) wantsKeeping() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	silence := s.TakeOver / 3
	if s.parked {
		silence = s.TakeOver / 2 // it has tried by itself
	}
	if s.keeps || time.Since(s.live) < silence || s.work.Err() != nil {
		return false
	}
	s.keeps = true
	return true
}

func (s *session) keep() {
	if _, err := s.renew(); err != nil && s.silence() >= s.TakeOver {
		s.lost(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keeps = false
}

// parks notes whether the session waits.
func (s *session) parks(is bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.parked = is
}

// renew renews the lease, and tells whether there may be something to read.
func (s *session) renew() (behind bool, err error) {
	err = s.step(func(ctx context.Context) (err error) {
		behind, err = group.Of(s.Ring).Renew(ctx, s.lease)
		return err
	})
	if err != nil && s.work.Err() == nil {
		s.failed("renew", err)
	}
	if errors.Is(err, group.ErrLeaseLost) {
		s.lost(err)
	}
	return behind, err
}

// untilRenewal is when to renew the lease next: at times that are the same for all
// groups of a process, each shard at its own, so that one step renews the shard's
// leases of all of them.
func (s *session) untilRenewal() time.Duration {
	period := s.TakeOver / 3
	return untilNext(period, period*time.Duration(s.shard)/time.Duration(s.Ring.Shards()))
}

// untilNext is how long it takes to the next time that lies a phase behind a
// multiple of the period.
func untilNext(period, phase time.Duration) time.Duration {
	return period - (time.Duration(time.Now().UnixNano())-phase)%period
}

func (s *session) lost(why error) {
	if s.work.Err() == nil {
		s.meters.lost.Inc()
		level := slog.LevelDebug // Redis is away, which the ring tells once
		if errors.Is(why, group.ErrLeaseLost) {
			level = slog.LevelInfo
		}
		s.Log.Log(s.work, level, "lease of a shard lost; another consumer may read it", "shard", s.shard)
	}
	s.lose(group.ErrLeaseLost)
}

// trouble takes a step that failed, and waits a little where the fault is with
// Redis.
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
	case circulate.Unknown(err):
		s.unsure, s.last = true, circulate.StreamStart
	}
	if s.failures < 5 {
		s.failures++
	}
	_ = sleep(s.reading, 50*time.Millisecond<<s.failures)
}

// ensure makes the group in the shard where it has not got it.
func (s *session) ensure() bool {
	created := false
	err := s.step(func(ctx context.Context) (err error) {
		created, err = s.Ring.Streams().EnsureGroup(ctx, s.shard, s.Group, s.after(s.shard))
		return err
	})
	if err != nil {
		s.failed("ensure group", err)
		return false
	}
	if created {
		s.fresh.Add(1) // manage tells of it
		s.atEnd = false
	}
	return true
}
