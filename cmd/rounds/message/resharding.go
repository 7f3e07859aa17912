package message

import (
	"fmt"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/circulate"
)

// atStart returns the position before all messages of the ring's shards.
func (r *Reader) atStart() Position {
	base, abandoned := r.ring.Base()
	return Position{make([]circulate.StreamID, r.ring.Shards()), r.ring.Generation(), r.ring.Sources(), base, abandoned}
}

// in returns the position in a ring with the given start. The number of shards may have changed
// since the position was made. The reader begins new shards at their start. Old shards that are
// gone had nothing left for it, or were dropped with their messages.
func (p Position) in(start Position) (Position, error) {
	if p.sources > 0 && start.base < p.generation && p.generation <= start.abandoned {
		// The position has shards of an aborted change, which never had a message.
		p = Position{at: p.at[:p.sources], generation: start.base}
	}
	shards, lasting := len(p.at), len(p.at)-p.sources
	switch {
	case p.generation > start.generation:
		// Another process already knows of the change. This one will in a moment.
		return Position{}, circulate.ErrResharding
	case p.generation == start.generation:
		if lasting != len(start.at)-start.sources || p.sources > 0 && start.sources > 0 && p.sources != start.sources {
			return Position{}, fmt.Errorf("%w: it is of %d shards, this ring has %d", accounts.ErrUnsealed, shards, len(start.at))
		}
		copy(start.at[start.sources:], p.at[p.sources:])
		if p.sources > 0 && start.sources > 0 {
			copy(start.at, p.at[:p.sources])
		}
	case p.generation == start.base && start.sources > 0:
		if lasting != start.sources {
			return Position{}, fmt.Errorf("%w: it is of %d shards, this ring had %d", accounts.ErrUnsealed, lasting, start.sources)
		}
		copy(start.at, p.at[p.sources:])
	}
	return start, nil
}
