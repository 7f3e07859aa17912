package circulate

import (
	"context"
	"errors"
	"fmt"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

// Repeated returns the send that was queued with an idempotency key of an account, and false
// if there is none. Request is the Request of that send. If the send has ended so long ago
// that it is not stored any more, Repeated returns only its id. The error is ErrSendConflict
// if the key was used for something else.
//
// Queue finds a repetition too. Repeated finds it before the caller prepares the send, which
// may no longer be possible.
func (s Sends) Repeated(ctx context.Context, account, key, request string) (send Send, known bool, err error) {
	named := "k" + digestOf(account, key)
	err = s.search(ctx, s.ring.ShardOf(account), s.ring.target(account), func(shard int) error {
		box := &s.ring.keys[shard].outbox
		replies, err := s.ring.wire.PipelineOn(ctx, wire.Ordinary, shard, box.names, wire.Command{"HGET", box.names, named})
		if err != nil {
			return fmt.Errorf("look for a key, shard %d: %w", shard, err)
		}
		text, err := redis.String(replies[0], nil)
		switch {
		case errors.Is(err, redis.ErrNil):
			return ErrNoSend
		case err != nil || len(text) < SendIDLength:
			return fmt.Errorf("look for a key, shard %d: %w", shard, errors.Join(wire.ErrReply, err))
		case text[SendIDLength:] != digestOf(request):
			return fmt.Errorf("%w: %s", ErrSendConflict, text[:SendIDLength])
		}
		send, known = Send{ID: text[:SendIDLength]}, true
		return nil
	})
	if errors.Is(err, ErrNoSend) {
		return Send{}, false, nil
	}
	if err != nil || !known {
		return Send{}, false, err
	}
	whole, err := s.Look(ctx, send.ID)
	switch {
	case errors.Is(err, ErrNoSend):
		return send, true, nil
	case err != nil:
		return Send{}, false, err
	}
	return whole, true, nil
}
