package message

import (
	"errors"
	"slices"
	"testing"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/circulate"
)

// A reader's position stays valid when the number of shards changes, whether the process
// that serves it knows of the change or not.
func TestPositionOverAChangeOfShards(t *testing.T) {
	id := func(n uint64) circulate.StreamID { return circulate.StreamID{Ms: n, Seq: n} }
	a, b, c, d, e := id(1), id(2), id(3), id(4), id(5)
	start := func(generation, sources, shards int) Position {
		base := generation
		if sources > 0 {
			base--
		}
		return Position{make([]circulate.StreamID, shards), generation, sources, base, base}
	}
	// The first change was aborted, and another one begun.
	abandoned := func(generation, sources, shards int) Position {
		return Position{make([]circulate.StreamID, shards), generation, sources, 0, 1}
	}
	before, during, after := Position{at: []circulate.StreamID{a, b}}, Position{at: []circulate.StreamID{a, b, c, d, e}, generation: 1, sources: 2}, Position{at: []circulate.StreamID{c, d, e}, generation: 1}
	for _, test := range []struct {
		name     string
		position Position
		start    Position
		want     []circulate.StreamID
		err      error
	}{
		{"nothing has changed", before, start(0, 0, 2), []circulate.StreamID{a, b}, nil},
		{"the change has begun", before, start(1, 2, 5), []circulate.StreamID{a, b, {}, {}, {}}, nil},
		{"it is under way", during, start(1, 2, 5), []circulate.StreamID{a, b, c, d, e}, nil},
		{"it is over", during, start(1, 0, 3), []circulate.StreamID{c, d, e}, nil},
		{"and was not seen", before, start(1, 0, 3), []circulate.StreamID{{}, {}, {}}, nil},
		{"another process saw its end first", after, start(1, 2, 5), []circulate.StreamID{{}, {}, c, d, e}, nil},
		{"the next has begun", after, start(2, 3, 4), []circulate.StreamID{c, d, e, {}}, nil},
		{"the next has begun, and the end was not seen", during, start(2, 3, 4), []circulate.StreamID{c, d, e, {}}, nil},
		{"two are over", during, start(3, 0, 2), []circulate.StreamID{{}, {}}, nil},
		{"another process saw its beginning first", during, start(0, 0, 2), nil, circulate.ErrResharding},
		{"the change was given up", during, abandoned(0, 0, 2), []circulate.StreamID{a, b}, nil},
		{"the change was given up, and was not seen", before, abandoned(0, 0, 2), []circulate.StreamID{a, b}, nil},
		{"another change has begun instead", during, abandoned(2, 2, 3), []circulate.StreamID{a, b, {}}, nil},
		{"another change has begun instead, and the first was not seen", before, abandoned(2, 2, 3), []circulate.StreamID{a, b, {}}, nil},
		{"a change was given up by a ring of more shards", during, abandoned(0, 0, 3), nil, accounts.ErrCursor},
		{"of another ring", before, start(0, 0, 3), nil, accounts.ErrCursor},
		{"of another ring that changes", during, start(1, 3, 6), nil, accounts.ErrCursor},
		{"of another ring before a change", before, start(1, 4, 5), nil, accounts.ErrCursor},
	} {
		read, err := parsePosition(test.position.String())
		if err != nil || read.String() != test.position.String() {
			t.Fatalf("%s: %v", test.name, err)
		}
		got, err := read.in(test.start)
		if !errors.Is(err, test.err) || err == nil && (!slices.Equal(got.at, test.want) || got.generation != test.start.generation || got.sources != test.start.sources) {
			t.Errorf("%s: %+v, %v, want %v, %v", test.name, got, err, test.want, test.err)
		}
	}
}
