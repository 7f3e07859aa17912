package circulate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

var eventsScript = wire.NewGroupScript("events", lua("events"))

// TellEvents begins or ends that a group gets the events of a shard, beside its messages:
// see *Events* in the package comment. It is safe to repeat.
func (s Streams) TellEvents(ctx context.Context, shard int, group string, tell bool) error {
	if err := wire.CheckGroup("events", group); err != nil {
		return err
	}
	_, err := s.ring.wire.Run(ctx, eventsScript, shard, []string{s.ring.keys[shard].outbox.names}, group, wire.Flag(tell))
	return err
}

// Told returns the groups that get the events of a shard.
func (s Streams) Told(ctx context.Context, shard int) ([]string, error) {
	key := s.ring.keys[shard].outbox.names
	replies, err := s.ring.wire.PipelineOn(ctx, wire.ForGroups, shard, key, wire.Command{"HGET", key, "e"})
	if err != nil {
		return nil, fmt.Errorf("events, shard %d: %w", shard, err)
	}
	groups, err := redis.String(replies[0], nil)
	if err != nil && !errors.Is(err, redis.ErrNil) {
		return nil, fmt.Errorf("events, shard %d: %w: %w", shard, wire.ErrReply, err)
	}
	return strings.Fields(groups), nil
}

// SendEvent is what became of a send: the data of an event. What was sent is not in it.
type SendEvent struct {
	ID       string    `json:"id"` // of the send
	Account  string    `json:"account"`
	Kind     string    `json:"kind"`
	To       string    `json:"to"`                 // the peer
	Type     string    `json:"type"`               // of the send
	ReplyTo  string    `json:"reply_to,omitempty"` // the message that it answers
	State    string    `json:"state"`              // the name of a SendState, when the event was written
	Queued   time.Time `json:"queued"`             // by Redis' clock
	Attempts int       `json:"attempts"`
	Code     string    `json:"code,omitempty"`      // of the outcome
	Reason   string    `json:"reason,omitempty"`    // the same for people
	VendorID string    `json:"vendor_id,omitempty"` // the vendor's own
}

// SendEvent returns what an event says. It is an error if f is a message.
func (f *Found) SendEvent() (e SendEvent, err error) {
	if !f.Event {
		return e, fmt.Errorf("%w: %s of account %s is a message and no event", wire.ErrInput, f.Message.ID, f.Account)
	}
	if err := json.Unmarshal(f.Message.Data, &e); err != nil {
		return e, fmt.Errorf("event %s of account %s: %w", f.Message.ID, f.Account, err)
	}
	return e, nil
}
