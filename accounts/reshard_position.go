package accounts

import (
	"fmt"

	"github.com/rounds-dev/rounds/circulate"
)

// atStart is the position before all messages of the ring's shards.
func (r *Registry) atStart() Position {
	base, abandoned := r.ring.Base()
	return Position{make([]mark, r.ring.Shards()), r.ring.Generation(), r.ring.Sources(), base, abandoned}
}

// in is the position in a ring whose start is given: the same one, or that of a
// namespace whose number of shards has changed since. What a reader has not seen of
// new shards, it reads from their start; old ones that are gone had nothing left
// for it, or were forgotten with the messages in them.
func (p Position) in(start Position) (Position, error) {
	if p.sources > 0 && start.base < p.generation && p.generation <= start.abandoned {
		// Of shards that were given up, and in which nothing was found.
		p = Position{marks: p.marks[:p.sources], generation: start.base}
	}
	marks, lasting := len(p.marks), len(p.marks)-p.sources
	switch {
	case p.generation > start.generation:
		// Another process knows of the change already; this one will in a moment.
		return Position{}, circulate.ErrResharding
	case p.generation == start.generation:
		if lasting != len(start.marks)-start.sources || p.sources > 0 && start.sources > 0 && p.sources != start.sources {
			return Position{}, fmt.Errorf("%w: it is of %d shards, this ring has %d", ErrCursor, marks, len(start.marks))
		}
		copy(start.marks[start.sources:], p.marks[p.sources:])
		if p.sources > 0 && start.sources > 0 {
			copy(start.marks, p.marks[:p.sources])
		}
	case p.generation == start.base && start.sources > 0:
		if lasting != start.sources {
			return Position{}, fmt.Errorf("%w: it is of %d shards, this ring had %d", ErrCursor, lasting, start.sources)
		}
		copy(start.marks, p.marks[p.sources:])
	}
	return start, nil
}
