package message

import (
	"context"
	"fmt"

	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/circulate"
)

// Answered returns the message of an account that an id names. The id may have the form of
// ParseRef, or that of GroupMessage.ID, which stays valid when the number of shards changes. It returns strict.Faults of the field for a text that is no id, and
// ErrNoMessage if the account has no such message.
func (r *Reader) Answered(ctx context.Context, field, account, id string) (*circulate.Found, error) {
	name, err := parseEntryID(id)
	if err != nil {
		return nil, strict.Faults{{Field: field, Reason: err.Error()}}
	}
	at, err := r.placed(ctx, []entryName{name})
	if err != nil {
		return nil, err
	}
	// Without a generation it may also be the number that the shard has now.
	if number := name.shard.Number; name.shard.Generation == 0 && number < r.ring.Shards() {
		at = append(at, entry{number, name.position})
	}
	for _, e := range at {
		found, err := r.ring.Streams().Stretches(ctx, []circulate.Stretch{{Shard: e.shard, From: e.position.Previous().String(), N: 1}})
		if err != nil {
			return nil, err
		}
		if one := found[0]; len(one) > 0 && one[0].Position == e.position.String() && one[0].Account == account && !one[0].Event {
			return &one[0], nil
		}
	}
	return nil, fmt.Errorf("%w: %s", ErrNoMessage, id)
}
