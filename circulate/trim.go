package circulate

import (
	"context"
	_ "embed"
	"fmt"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

//go:embed trim.lua
var trimLua string

var trimScript = wire.NewScript("trim", trimLua)

// trimStep is how many messages one step drops, about a millisecond's work.
const trimStep = 512

// TrimTo drops the oldest messages of a shard until it has no more than
// most, but none that a consumer group has not read or not acknowledged. It
// reports how many were dropped, and whether a group held some back. An error may
// come after some were dropped.
func (s Streams) TrimTo(ctx context.Context, shard, most int) (dropped int, heldBack bool, err error) {
	if most < 0 {
		return 0, false, fmt.Errorf("%w: trim: most: must not be negative, is %d", wire.ErrInput, most)
	}
	for {
		reply, err := redis.Ints(s.ring.wire.Run(ctx, trimScript, shard, []string{s.ring.keys[shard].messages}, most, trimStep))
		if err != nil {
			return dropped, false, err
		}
		if len(reply) != 3 {
			return dropped, false, fmt.Errorf("trim, shard %d: %w", shard, wire.ErrReply)
		}
		dropped += reply[0]
		if again, held := reply[1] == 1, reply[2] == 1; held || !again {
			return dropped, held, nil
		}
	}
}
