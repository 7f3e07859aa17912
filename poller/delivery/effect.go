package delivery

import (
	"context"
	"errors"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/group"
)

// Effect is a Handler that applies messages inside of Redis, in the same step as
// they are acknowledged: a batch of a shard is one call.
//
// What it guarantees: a message is applied once for each delivery of its group,
// however often consumers die and replies are lost, because it is applied only
// while it is pending, and stops being pending in the same step. Nothing is kept
// for that. Two things are not covered: a group that is rewound or made anew
// delivers again, and a Redis that lost the end of a stream has it filled again,
// with messages under other positions. With Remember both are covered for that
// long, by the account and the message's id. So an account that is deregistered and
// registered again under its id has messages skipped for that long whose ids it had
// before: give another thing another id.
//
// In both cases what Redis loses it loses of the effect and of the
// acknowledgement alike. An effect that raises an error is not acknowledged, but
// what it wrote before stays: see [group.NewEffect].
type Effect struct {
	Ring   *circulate.Ring
	Effect *group.Effect
	// Keys returns the keys that the effect uses for messages of a shard: in a
	// cluster they begin with Ring.Tag(shard). Nil: none.
	Keys func(shard int) []string
	Args []any
	// Remember is for how long a message is known once it was applied; 0: not.
	Remember time.Duration
}

// Handle applies a batch. Where Redis does not answer, the batch is for later:
// what was applied after all will not be pending then.
func (e *Effect) Handle(ctx context.Context, batch []Delivery) []error {
	found := make([]circulate.Found, len(batch))
	for i := range batch {
		found[i] = batch[i].Found
	}
	applying := group.Applying{Group: batch[0].Group, Args: e.Args, Remember: e.Remember}
	if e.Keys != nil {
		applying.Keys = e.Keys(batch[0].Shard)
	}
	applied, failed, err := group.Of(e.Ring).Apply(ctx, batch[0].Shard, e.Effect, applying, found)
	if err != nil {
		// The fault is with all of it, and no message's: a script that does not
		// compile too must not bury messages.
		return repeat(&Later{After: effectPause, Err: err}, len(batch))
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

// effectPause is how long to wait where Redis did not do the step.
const effectPause = time.Second
