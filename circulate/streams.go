package circulate

import (
	"context"
	"time"

	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

// Streams are the shards' streams of found messages, and the names of the consumer
// groups that read them. What a group does with them is in package group.
type Streams struct{ ring *Ring }

// Streams are the ring's.
func (r *Ring) Streams() Streams { return Streams{r} }

// Keys are those of a shard that concern its messages.
func (s Streams) Keys(shard int) wire.Stream { return s.ring.keys[shard].stream() }

// Read reads what Redis replies of a shard's stream.
func (s Streams) Read(shard int, reply any) ([]Found, error) { return readStream(shard, reply) }

// Ahead returns after how long to ask again where a new shard may have messages of
// accounts of which the group has earlier ones to deal with; 0: it has none.
func (s Streams) Ahead(ctx context.Context, shard int, group string) (time.Duration, error) {
	if ahead, err := s.ring.ahead(ctx, shard, group); err != nil || ahead {
		return aheadPause, err
	}
	return 0, nil
}
