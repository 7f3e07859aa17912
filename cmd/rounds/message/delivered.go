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

// ErrNoMessage reports a message that does not exist, or is no longer kept.
var ErrNoMessage = errors.New("message: no such message")

// dead is the stage of a message that a consumer group could not handle, which is a dead
// letter now. The other stages are those of package group.
const dead = "dead"

// Delivery is what has become of a message in a consumer group.
type Delivery struct {
	Group   string
	Webhook string // the endpoint whose group it is; empty: it is no webhook's
	Stage   string // a group.Stage, or Dead

	Consumer   string        // of a pending message: who has it
	Deliveries int           // of a pending or dead message: how often it was delivered
	Idle       time.Duration // of a pending message: since it was last delivered

	DeadID string // of a dead message: the id of the dead letter
	Error  string // of a dead message: what its last delivery failed with
}

// Delivered is a message and what has become of it in each consumer group.
type Delivered struct {
	circulate.Found
	Deliveries []Delivery // by group
	// Complete is false if there are too many dead letters to look at all of them: a
	// message that is done may then be one.
	Complete bool
}

// ref returns what names a message among all: SHARD:MS-SEQ.
func ref(f *circulate.Found) string { return deadID(f.Shard, f.Position) }

// ParseRef reads what Ref returns.
func ParseRef(ref string) (shard int, position circulate.StreamID, err error) {
	return parseEntryID(ref)
}

// Delivered returns the message with a Ref, and what has become of it in each consumer
// group. It returns ErrNoMessage if there is no such message.
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

// findDead completes the deliveries of a message, by group, that are dead letters. It looks
// at a bounded number of letters, and reports whether these were all.
func (r *Reader) findDead(ctx context.Context, shard int, position circulate.StreamID, of map[string]*Delivery) (complete bool, err error) {
	// A message dies after it was written, except if Redis' clock went back in between.
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
				d.Stage, d.DeadID, d.Error, d.Deliveries = dead, deadID(shard, l.Position), l.Error, l.Deliveries
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
