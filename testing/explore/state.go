package main

import (
	"cmp"
	"encoding/binary"
	"slices"
)

// state is where everything is. All tokens are numbered together: first those of the
// place, in its order, then the others in the order in which actors know them.
type state struct {
	place   int
	actors  []actorState
	crashes int   // left
	cuts    int   // left
	changes int   // left to the surroundings
	written []int // tickets under which a message was written, as long as any actor knows them
}

// actorState is where an actor is, and which token each token of its node is.
type actorState struct {
	of    int // which actor: it names actors in a trace, and does not distinguish states
	kind  int // which program
	node  int
	links []int
}

// settle numbers the tokens again and sorts actors that are alike, so that states that
// differ in nothing else become one. The place's tokens are given, the others may have
// any numbers. It must never take two different states for one; if it takes two equal
// ones for two, there is only a state more.
func (s *state) settle(placeTokens []int, matters func(t int) bool) {
	l := newLabels()
	for _, t := range placeTokens {
		l.label(t)
	}
	rank := func(t int) int {
		if at, known := l.of[t]; known {
			return at
		}
		return 1 << 30
	}
	slices.SortStableFunc(s.actors, func(a, b actorState) int {
		return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.node, b.node),
			slices.CompareFunc(a.links, b.links, func(x, y int) int { return cmp.Compare(rank(x), rank(y)) }))
	})
	for i := range s.actors {
		links := make([]int, len(s.actors[i].links))
		for j, t := range s.actors[i].links {
			if t == firstTicket {
				continue
			}
			links[j] = l.label(t)
		}
		s.actors[i].links = links
	}
	var written []int
	for _, t := range s.written {
		if at, known := l.of[t]; known && matters(at) {
			written = append(written, at)
		}
	}
	slices.Sort(written)
	s.written = written
}

// key is the state without what is left of the bounds. States that count as one have the
// same key.
func (s *state) key(buf []byte) []byte {
	buf = binary.AppendUvarint(buf[:0], uint64(s.place))
	for _, a := range s.actors {
		buf = binary.AppendUvarint(buf, uint64(a.node))
		for _, t := range a.links {
			buf = append(buf, byte(t))
		}
	}
	buf = append(buf, 0xff)
	for _, t := range s.written {
		buf = append(buf, byte(t))
	}
	return buf
}

// pack keeps which actor is which as well, before the key.
func (s *state) pack(key []byte) string {
	b := make([]byte, 0, len(s.actors)+3+len(key))
	for _, a := range s.actors {
		b = append(b, byte(a.of))
	}
	b = append(b, byte(s.crashes), byte(s.cuts), byte(s.changes))
	return string(append(b, key...))
}

// left is what is left of the bounds.
type left struct{ crashes, cuts, changes uint8 }

func (s *state) left() left { return left{uint8(s.crashes), uint8(s.cuts), uint8(s.changes)} }

// atLeast reports whether as much is left of every bound as in another state.
func (l left) atLeast(m left) bool {
	return l.crashes >= m.crashes && l.cuts >= m.cuts && l.changes >= m.changes
}

// unpack reads what pack wrote.
func (e *explorer) unpack(text string) state {
	n := len(e.actors)
	of, b := text[:n], []byte(text[n:])
	uvarint := func() int {
		v, size := binary.Uvarint(b)
		b = b[size:]
		return int(v)
	}
	s := state{crashes: int(b[0]), cuts: int(b[1]), changes: int(b[2])}
	b = b[3:]
	s.place = uvarint()
	s.actors = make([]actorState, n)
	for i := range s.actors {
		id := uvarint()
		node := e.nodes.all[id]
		links := make([]int, node.tokens)
		for j := range links {
			links[j] = int(b[j])
		}
		b = b[node.tokens:]
		s.actors[i] = actorState{of: int(of[i]), kind: e.kinds[of[i]], node: id, links: links}
	}
	for _, t := range b[1:] {
		s.written = append(s.written, int(t))
	}
	return s
}
