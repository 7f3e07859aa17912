package circulate

import (
	"context"

	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

func (r *Ring) limitCall(l Limit, args []any) wire.Call {
	state, leases := limitKeys(r.namespace, l.Name)
	return wire.Call{Keys: []string{state, leases}, Args: args}
}

// runLimits does a step on several limits at once. What has the wrong type to be a
// limit's is set aside, so that it holds nobody up for ever, and the step done again.
func (r *Ring) runLimits(ctx context.Context, s *wire.Script, calls []wire.Call) []wire.Reply {
	replies := r.wire.EvalEach(ctx, s, calls)
	for i := range replies {
		reply, keys := &replies[i], calls[i].Keys
		if !wire.HasCode(reply.Err, "WRONGTYPE") {
			continue
		}
		if moved, err := r.wire.SetAside(ctx, keys, []any{"hash", "zset"}); err == nil && moved > 0 {
			reply.Value, reply.Err = r.wire.Eval(ctx, s, keys, calls[i].Args)
		}
	}
	return replies
}
