package delivery

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/group"
)

// Effect is a Handler that applies messages inside Redis, in the step that acknowledges them. It
// applies the messages of a batch, which are from one shard, in one call.
//
// A message is applied once for each delivery of its group, however often consumers die and replies
// are lost: it is applied only while it is pending, and stops being pending in the same step. That
// needs no memory. Two cases are not covered. A group that is rewound or made anew delivers again.
// A Redis that lost the end of a stream gets the messages again under other positions. With
// Remember both are covered for that long, by the account and the message's id. If an account is
// then deregistered and registered again under its id, messages with earlier ids are skipped for
// that long, so another account needs a new id.
//
// If Redis loses data, it loses the effect and the acknowledgement together. A message whose effect
// raises an error is not acknowledged, but earlier writes of the effect stay: see [NewEffect].
type Effect struct {
	Ring   *circulate.Ring
	Effect *group.Effect // made by NewEffect
	// Keys returns the keys that the effect uses for messages of a shard, by the shard's tag. In a
	// cluster they must begin with it. When the number of shards changes, so do the tags. Nil:
	// none.
	Keys func(tag string) []string
	Args []any
	// Remember is how long an applied message is remembered; 0: not at all.
	Remember time.Duration
}

// NewEffect makes an effect of the body of a Lua function
//
//	function effect(message, KEYS, ARGV)
//
// where message has position, account, kind, id, type, time (RFC 3339, or empty) and data (JSON) as
// texts, and KEYS and ARGV are those of the Effect. What it returns is ignored. An error that it
// raises, by error or by redis.call, means that the message could not be handled. The name says in
// errors which effect it is.
//
// Lua cannot roll back: what an effect wrote before it failed stays, and is written again when the
// message is delivered again. So check first, then write.
func NewEffect(name, body string) *group.Effect { return group.NewEffect(name, body) }

// Handle applies a batch. If Redis does not answer, all messages are for later. Messages that were
// applied after all will then no longer be pending.
func (e *Effect) Handle(ctx context.Context, batch []Delivery) []error {
	found := make([]circulate.Found, len(batch))
	for i := range batch {
		found[i] = batch[i].Found
	}
	applying := group.Applying{Group: batch[0].Group, Args: e.Args, Remember: e.Remember}
	if e.Keys != nil {
		applying.Keys = e.Keys(e.Ring.Tag(batch[0].Shard))
	}
	applied, failed, err := group.Of(e.Ring).Apply(ctx, batch[0].Shard, e.Effect, applying, found)
	if err != nil {
		// No message is to blame. Even a script that does not compile must not turn messages
		// into dead letters.
		return repeat(&Later{After: effectPause, Err: err, Target: fmt.Sprint("redis, shard ", batch[0].Shard)}, len(batch))
	}
	errs := make([]error, len(batch))
	for i, a := range applied {
		switch a {
		case group.EffectFailed:
			errs[i] = errors.New("effect: " + failed[0])
			failed = failed[1:]
		case group.HeldByEarlier:
			errs[i] = ErrHeld
		default:
			errs[i] = ErrAcknowledged
		}
	}
	return errs
}

// effectPause is the wait after a step that Redis did not execute.
const effectPause = time.Second
