package message

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/group"
)

// ErrNoMessage reports a message that does not exist, or is no longer stored.
var ErrNoMessage = errors.New("message: no such message")

// dead is the stage of a message that a consumer group could not handle, and that is a dead letter
// now. The other stages are in package group.
const dead = "dead"

// Delivery is the state of a message in a consumer group.
type Delivery struct {
	Group   string
	Webhook string // the endpoint that has this group; empty: the group is no webhook's
	Stage   string // a group.Stage, or dead

	Consumer   string        // of a pending message: the consumer that has it
	Deliveries int           // of a pending or dead message: how often it was delivered
	Idle       time.Duration // of a pending message: the time since its last delivery

	DeadID string // of a dead message: the id of the dead letter
	Error  string // of a dead message: the error of its last delivery
}

// Delivered is a message and its state in each consumer group.
type Delivered struct {
	circulate.Found
	Deliveries []Delivery // by group
	// Complete is false if there are too many dead letters to look at all: a message that
	// counts as done may then be one of them.
	Complete bool
}

// ParseRef reads SHARD:POSITION, which names a message by the number that its shard has now.
func ParseRef(ref string) (shard int, position circulate.StreamID, err error) {
	number, at, _ := strings.Cut(ref, ":")
	if shard, err = parseNumber(number); err == nil {
		position, err = parseStreamID(at)
	}
	return shard, position, err
}

// Delivered returns the message with a ref, and its state in each consumer group. It
// returns ErrNoMessage if there is no such message.
func (r *Reader) Delivered(ctx context.Context, shard int, position circulate.StreamID) (Delivered, error) {
	if shard < 0 || shard >= r.ring.Shards() {
		return Delivered{}, fmt.Errorf("%w: there is no shard %d", ErrNoMessage, shard)
	}
	found, stages, err := group.Of(r.ring).Deliveries(ctx, shard, position)
	if err != nil {
		return Delivered{}, err
	}
	if found == nil {
		return Delivered{}, fmt.Errorf("%w: %d:%s", ErrNoMessage, shard, position)
	}
	d := Delivered{Found: *found, Deliveries: make([]Delivery, len(stages)), Complete: true}
	passed := make(map[string]*Delivery)
	for i, s := range stages {
		d.Deliveries[i] = Delivery{Group: s.Group, Stage: string(s.Stage), Consumer: s.Consumer, Deliveries: s.Deliveries, Idle: s.Idle}
		if name, ok := strings.CutPrefix(s.Group, WebhookGroup); ok {
			d.Deliveries[i].Webhook = name
		}
		if s.Stage == group.Passed {
			passed[s.Group] = &d.Deliveries[i]
		}
	}
	if len(passed) > 0 {
		d.Complete, err = r.findDead(ctx, shard, position, passed)
	}
	return d, err
}

// At returns the message with a ref, or ErrNoMessage.
func (r *Reader) At(ctx context.Context, shard int, position circulate.StreamID) (*circulate.Found, error) {
	if shard >= 0 && shard < r.ring.Shards() {
		found, err := r.ring.Streams().Messages(ctx, shard, position.Previous().String(), 1)
		if err != nil {
			return nil, err
		}
		if len(found) == 1 && found[0].Position == position.String() && !found[0].Event {
			return &found[0], nil
		}
	}
	return nil, fmt.Errorf("%w: %d:%s", ErrNoMessage, shard, position)
}

// findDead completes the deliveries, by group, whose message is a dead letter. It looks at a
// bounded number of letters, and reports whether these were all.
func (r *Reader) findDead(ctx context.Context, shard int, position circulate.StreamID, of map[string]*Delivery) (complete bool, err error) {
	// A message dies after it was written, unless Redis' clock went back in between.
	at := circulate.StreamIDAt(position.Time()).Previous()
	for looked, size := 0, 0; looked < lookBudget && size < pageBytes; {
		letters, err := group.Of(r.ring).DeadLetters(ctx, shard, at.String(), deadAhead)
		if err != nil {
			return false, err
		}
		for i := range letters {
			l := &letters[i]
			size += len(l.Message.Data)
			if d := of[l.Group]; d != nil && l.Origin == position.String() {
				d.Stage, d.DeadID, d.Error, d.Deliveries = dead, r.ring.ShardName(shard).Handle(l.Position), l.Error, l.Deliveries
			}
		}
		if len(letters) < deadAhead {
			return true, nil
		}
		looked += len(letters)
		if at, err = circulate.ParseStreamID(letters[len(letters)-1].Position); err != nil {
			return false, err
		}
	}
	return false, nil
}
