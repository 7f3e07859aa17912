package monitor

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/circulate"
)

const (
	reshardSettles = 5 * time.Second       // that a change is known before the first account moves
	reshardStalls  = 2 * time.Second       // without progress, before another shard has its turn
	reshardWaits   = 50 * time.Millisecond // for accounts that are claimed
	reshardWarns   = 30 * time.Second      // between two notes of what holds it up
	reshardFrees   = time.Second           // between two looks at what can be freed
	reshardCopies  = 64 << 20              // bytes of copies of accounts that have moved, at most
	reshardDrains  = 30 * time.Second      // between two looks at what is left once all have moved
)

// reshard is a change of the number of shards, as the monitor on duty does it.
type reshard struct {
	*Monitor
	since  time.Time // when this monitor began
	warned time.Time
	ready  bool      // the new shards take accounts
	looked time.Time // at what is left, when all had moved
	freed  time.Time // when copies were last looked at
	most   int       // bytes of copies that there is room for
}

func newReshard(m *Monitor) *reshard { return &reshard{Monitor: m, since: time.Now()} }

// turn goes on with the change as far as it can now.
func (s *reshard) turn(ctx context.Context) error {
	now, err := s.ring.Mover().State(ctx)
	if err != nil || now.Phase == circulate.Steady {
		return err
	}
	if now.Phase == circulate.Draining {
		if time.Since(s.looked) < reshardDrains {
			return nil
		}
		s.looked = time.Now()
	}
	if !s.ready && now.Phase == circulate.Moving {
		if time.Since(s.since) < reshardSettles {
			return nil // a Redis that ends now still has the change when it is back
		}
		known, err := s.known(ctx)
		if err != nil || !known {
			return err
		}
		if err := s.ring.Mover().Receive(ctx); err != nil {
			return err
		}
		for source := range s.ring.Sources() { // what whoever moved them before has left
			if err := s.ring.Mover().Confirm(ctx, source); err != nil {
				return err
			}
		}
		s.ready = true
		s.log.Info("accounts move to other shards", "from", now.From, "to", now.To)
	}
	for _, source := range s.ring.Mover().Sequence() {
		if err := s.leave(ctx, source); err != nil {
			if errors.Is(err, errOffDuty) {
				return nil
			}
			if errors.Is(err, circulate.ErrAborted) {
				return s.abort(ctx)
			}
			return err
		}
	}
	if now.Phase == circulate.Moving {
		if done, err := s.ring.Mover().FinishMove(ctx); err != nil || !done {
			return err
		}
		s.log.Info("all accounts have moved to their new shards", "from", now.From, "to", now.To)
		return nil
	}
	done, err := s.ring.Mover().Drained(ctx, false)
	if done && err == nil {
		s.log.Info("the old shards are empty and forgotten", "from", now.From, "to", now.To)
	}
	return err
}

// abort goes on with what somebody has begun who wanted to give the change up.
func (s *reshard) abort(ctx context.Context) error {
	now, err := s.ring.Mover().Abort(ctx)
	switch {
	case errors.Is(err, circulate.ErrNoReturn):
		s.log.Warn("the change of the number of shards goes on: accounts have begun to move", "from", now.From, "to", now.To)
		return nil
	case err == nil && now.Phase == circulate.Steady:
		s.log.Info("the change of the number of shards was given up", "shards", now.To)
	}
	return err
}

// known reports whether every replica that lives works with the new shards: from
// then on whoever comes there is checked.
func (s *reshard) known(ctx context.Context) (bool, error) {
	replicas, now, err := s.ring.Replicas(ctx)
	if err != nil {
		return false, err
	}
	for _, r := range replicas {
		if now.Sub(r.Beat) > s.config.DeadAfter {
			continue
		}
		var report accounts.Report
		if json.Unmarshal(r.Report, &report) == nil && report.Layout == s.ring.Layout() {
			continue
		}
		s.held("a replica does not know the new shards yet", "holder", r.Name, "layout", report.Layout)
		return false, nil
	}
	return true, nil
}

// held tells now and then what the change waits for.
func (s *reshard) held(why string, args ...any) {
	if now := time.Now(); now.Sub(s.warned) >= reshardWarns {
		s.warned = now
		s.log.Info("the change of the number of shards waits: "+why, args...)
	}
}

// leave moves a shard's accounts until none is left, or none that can be moved now:
// those that are claimed may take their time, and others have their turn meanwhile.
// Half of the time Redis is left to those who check.
func (s *reshard) leave(ctx context.Context, source int) error {
	for progress := time.Now(); ; {
		if !s.duty.held() {
			return errOffDuty
		}
		left, err := s.ring.Mover().Remaining(ctx, source)
		if err != nil {
			return err
		}
		if left.Marked && left.Accounts+left.Transit == 0 {
			return s.left(ctx, source, left)
		}
		if waited, err := s.free(ctx, source); err != nil {
			return err
		} else if waited {
			progress = time.Now()
		}
		began := time.Now()
		moved, remain, err := s.ring.Mover().Move(ctx, source)
		s.metrics.moved.Add(float64(moved))
		switch {
		case err != nil:
			return err
		case moved > 0:
			progress = time.Now()
			rest(ctx, progress.Sub(began))
		case ctx.Err() != nil:
			return nil
		case time.Since(progress) >= reshardStalls:
			s.held("accounts are claimed", "shard", source, "accounts", remain)
			return nil
		case remain > 0:
			rest(ctx, reshardWaits)
		}
	}
}

// free lets go, now and then, of copies of accounts that have moved. Once these take
// much of the memory that there is, it waits until most of them are gone, which are
// too young at first, and reports that it has waited: so accounts move in bursts, and
// are claimed in between.
func (s *reshard) free(ctx context.Context, source int) (waited bool, err error) {
	much := s.ring.Mover().Copies() >= s.most
	if !much && time.Since(s.freed) < reshardFrees {
		return false, nil
	}
	for {
		room, _, err := s.ring.Mover().FreeMemory(ctx, source)
		if err != nil {
			return waited, err
		}
		s.most = int(max(circulate.CopiesLeast, min(room/4, reshardCopies)))
		if room <= 0 {
			s.held("Redis is at its memory limit; accounts move slowly", "shard", source)
		}
		if err := s.ring.Mover().ConfirmCopies(ctx); err != nil {
			return waited, err
		}
		s.freed = time.Now()
		if copies := s.ring.Mover().Copies(); 4*copies <= s.most || !much && copies < s.most {
			return waited, nil
		}
		waited = true
		rest(ctx, reshardFrees)
		if !s.duty.held() || ctx.Err() != nil {
			return waited, errOffDuty
		}
	}
}

// left looks after a shard that all accounts have left.
func (s *reshard) left(ctx context.Context, source int, left circulate.Leftover) error {
	if left.Records > 0 {
		// Accounts whose tickets were lost get others, and move with the next turn.
		if _, err := s.ring.AuditShard(ctx, source, circulate.AuditOptions{
			Records: true, Repair: true, Registration: s.registration,
		}); err != nil {
			return err
		}
	}
	if left.Kept == 0 {
		return nil
	}
	return s.ring.Mover().Confirm(ctx, source)
}

// completeMoves brings accounts to their new shards that a monitor began to move before it
// stopped.
func (m *Monitor) completeMoves(ctx context.Context) error {
	for source := range m.ring.Sources() {
		n, err := m.ring.Mover().Complete(ctx, source)
		if err != nil {
			return err
		}
		if n > 0 {
			m.log.Info("accounts on their way to other shards were brought there", "shard", source, "accounts", n)
		}
	}
	return nil
}
