package message

import (
	"context"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/circulate"
)

// Filter selects messages. An empty field selects any; the zero Filter selects all messages,
// and no filter selects events.
type Filter struct {
	Account string // the account's id
	Kind    string // the account's kind
	Type    string // the message's type
}

// Selects reports whether a message matches the filter.
func (f Filter) Selects(m *circulate.Found) bool {
	return !m.Event && (f.Account == "" || f.Account == m.Account) && (f.Kind == "" || f.Kind == m.Kind) && (f.Type == "" || f.Type == m.Message.Type)
}

// Some reports whether the filter leaves any message out.
func (f Filter) Some() bool { return f != Filter{} }

// shardsOf returns the shards in which messages that the filter selects may be.
func (r *Reader) shardsOf(f Filter) []int {
	if f.Account == "" || r.ring.Sources() > 0 {
		// While the number of shards changes, an account's messages are in several shards.
		return r.allShards()
	}
	return []int{r.ring.ShardOf(f.Account)}
}

// Walk is a way through the messages of a ring, in either direction.
type Walk struct {
	reader   *Reader
	filter   Filter
	position Position
	back     bool
	shards   []int
}

// Forward returns a walk from a position to newer messages, the oldest first. It returns
// accounts.ErrCursor for a position of another number of shards.
func (r *Reader) Forward(from Position, f Filter) (*Walk, error) { return r.walk(from, f, false) }

// Backward returns a walk from a position to older messages, the newest first. It begins with the
// last message that is not after the position. It has the same error as Forward.
func (r *Reader) Backward(from Position, f Filter) (*Walk, error) { return r.walk(from, f, true) }

func (r *Reader) walk(from Position, f Filter, back bool) (*Walk, error) {
	if len(from.at) != r.ring.Shards() {
		return nil, accounts.ErrCursor
	}
	return &Walk{r, f, from.Clone(), back, r.shardsOf(f)}, nil
}

// Position returns where the walk is.
func (w *Walk) Position() Position { return w.position.Clone() }

// Next returns up to limit messages, whether or not the filter selects them, and none at the end.
// It reads large messages a few at a time. The walk itself stays in place until Pass.
func (w *Walk) Next(ctx context.Context, limit int) ([]circulate.Found, error) {
	if w.back {
		return w.reader.backward(ctx, w.position, w.shards, limit)
	}
	return w.reader.forward(ctx, w.position, w.shards, limit)
}

// Pass moves the walk past a message that Next returned, in its direction, and reports whether the
// filter selects that message.
func (w *Walk) Pass(f *circulate.Found) (bool, error) {
	if w.back {
		return w.filter.Selects(f), w.position.retreat(f)
	}
	return w.filter.Selects(f), w.position.Pass(f)
}

// backward returns up to limit messages that are not after a position, the newest first.
func (r *Reader) backward(ctx context.Context, from Position, shards []int, limit int) ([]circulate.Found, error) {
	limits := limitsOf(limit, len(shards))
	var sources []source
	for _, shard := range shards {
		if at := from.at[shard]; at != (circulate.StreamID{}) {
			sources = append(sources, source{shard: shard, back: true, at: at.Next(), ahead: limits.ahead})
		}
	}
	newer := func(a, b circulate.StreamID) bool { return b.Before(a) }
	found, _, err := merged(ctx, r.ring.Streams().Stretches, sources, limits, newer)
	return found, err
}
