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
	reshardSettles = 5 * time.Second       // until every process knows of a change, before the first account moves
	reshardStalls  = 2 * time.Second       // without progress, before the next shard is tried
	reshardWaits   = 50 * time.Millisecond // for accounts that are claimed
	reshardWarns   = 30 * time.Second      // between two logs of the cause of a delay
	reshardFrees   = time.Second           // between two looks for copies to free
	reshardCopies  = 64 << 20              // the most bytes of copies of accounts that have moved
	reshardDrains  = 30 * time.Second      // between two looks at the rest once all accounts have moved
)

// reshard is a change of the number of shards, as the monitor on duty does it.
type reshard struct {
	*Monitor
	since  time.Time // when this monitor began
	warned time.Time
	ready  bool      // the new shards accept accounts
	looked time.Time // when it last looked at the rest, once all accounts had moved
	freed  time.Time // when it last looked at copies
	most   int       // the bytes of copies for which there is room
}

func newReshard(m *Monitor) *reshard { return &reshard{Monitor: m, since: time.Now()} }

// turn continues the change as far as is possible now.
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
			return nil // if Redis stops now, the change is still known when it is back
		}
		known, err := s.known(ctx)
		if err != nil || !known {
			return err
		}
		if err := s.ring.Mover().Receive(ctx); err != nil {
			return err
		}
		for source := range s.ring.Sources() { // the copies that the monitor before has left
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
		s.log.Info("the old shards are empty and were dropped", "from", now.From, "to", now.To)
	}
	return err
}

// abort continues an abort of the change that somebody has begun.
func (s *reshard) abort(ctx context.Context) error {
	now, err := s.ring.Mover().Abort(ctx)
	switch {
	case errors.Is(err, circulate.ErrNoReturn):
		s.log.Warn("the change of the number of shards goes on: accounts have begun to move", "from", now.From, "to", now.To)
		return nil
	case err == nil && now.Phase == circulate.Steady:
		s.log.Info("the change of the number of shards was aborted", "shards", now.To)
	}
	return err
}

// known reports whether every live replica works with the new shards. From then on,
// accounts that arrive there are checked.
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

// held logs from time to time why the change waits.
func (s *reshard) held(why string, args ...any) {
	if now := time.Now(); now.Sub(s.warned) >= reshardWarns {
		s.warned = now
		s.log.Info("the change of the number of shards waits: "+why, args...)
	}
}

// leave moves a shard's accounts until none is left, or none that can be moved now.
// Claimed accounts may take their time; other shards are handled meanwhile. Half of the
// time is left to the pollers.
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

// free deletes copies of accounts that have moved, from time to time. When copies take
// much of the available memory, it waits until most of them are old enough to be deleted,
// and reports that it has waited. So accounts move in bursts, and can be claimed in
// between.
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
		// Accounts whose tickets were lost get new ones, and move in the next turn.
		if _, err := s.ring.AuditShard(ctx, source, circulate.AuditOptions{
			Records: true, Repair: true, Registration: s.options.Registration,
		}); err != nil {
			return err
		}
	}
	if left.Kept == 0 {
		return nil
	}
	return s.ring.Mover().Confirm(ctx, source)
}

// completeMoves finishes the moves of accounts that a monitor began before it stopped.
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
