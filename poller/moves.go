package poller

import (
	"context"
	"errors"
	"time"

	"github.com/rounds-dev/rounds/accounts"
)

const (
	movesWaiting = 256            // moves that are not followed yet
	movesKnown   = 4096           // the most accounts to remember as moved lately
	movesApart   = 24 * time.Hour // the least time between two moves of an account in a process: two addresses may redirect to each other
	moveTimeout  = 10 * time.Second
)

// Move is an account whose third party says that it has moved for good.
type Move struct {
	Account, Kind string
	Config        []byte // the config that it was checked with
	To            string // the new address, in place of the config's url
}

// mover follows moves in one goroutine. Moves are rare, and not urgent: the next check
// reports them again.
type mover struct {
	*replica
	follow  func(context.Context, Move) error // nil: moves are not followed
	waiting chan Move
	lately  map[string]time.Time // by account
}

func newMover(r *replica, follow func(context.Context, Move) error) *mover {
	return &mover{replica: r, follow: follow, waiting: make(chan Move, movesWaiting), lately: make(map[string]time.Time)}
}

// moving returns what to call once a check is written: written and then, if the account has moved
// and moves are followed, the move.
func (f *flight) moving(to string, written func()) func() {
	m := f.flights.mover
	if to == "" || m.follow == nil {
		return written
	}
	move := Move{Account: f.claim.ID, Kind: f.record.account.Kind, Config: f.record.account.Config, To: to}
	return func() {
		if written != nil {
			written()
		}
		m.submit(move)
	}
}

// submit never blocks, because its callers write returns.
func (m *mover) submit(move Move) {
	select {
	case m.waiting <- move:
	default:
		m.metrics.moved.WithLabelValues(move.Kind, "dropped").Inc()
	}
}

// run follows moves until ctx is done.
func (m *mover) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case move := <-m.waiting:
			m.follows(ctx, move, time.Now())
		}
	}
}

func (m *mover) follows(ctx context.Context, move Move, now time.Time) {
	if last, ok := m.lately[move.Account]; ok && now.Sub(last) < movesApart {
		m.metrics.moved.WithLabelValues(move.Kind, "dropped").Inc()
		return
	}
	ctx, cancel := context.WithTimeout(ctx, moveTimeout)
	defer cancel()
	err := m.follow(ctx, move)
	outcome := "followed"
	switch {
	case errors.Is(err, accounts.ErrChanged), errors.Is(err, accounts.ErrNotFound):
		outcome = "changed"
	case err != nil:
		outcome = "failed"
		m.log.Warn("could not follow a move", "account", move.Account, "kind", move.Kind, "error", err)
	default:
		m.log.Info("an account has moved, and its record was changed", "account", move.Account, "kind", move.Kind)
		m.remember(move.Account, now)
	}
	m.metrics.moved.WithLabelValues(move.Kind, outcome).Inc()
}

func (m *mover) remember(account string, now time.Time) {
	if len(m.lately) >= movesKnown {
		for id, at := range m.lately {
			if now.Sub(at) >= movesApart || len(m.lately) >= movesKnown {
				delete(m.lately, id)
			}
		}
	}
	m.lately[account] = now
}
