package message

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/group"
)

const (
	// maxGroupWait is the longest that a read of a group may wait for messages. It is
	// shorter than the time for which a consumer may be silent.
	maxGroupWait = 10 * time.Second
	// groupBeat is how often a waiting consumer sends a sign of life, and checks that its
	// shards are still its own.
	groupBeat = time.Second
)

// GroupRead is one round of a remote consumer of a group. The consumer acknowledges the
// messages that it has handled, and asks for more. It has one round at a time. A message
// that it does not acknowledge with its next round is delivered again, to it or to another
// consumer.
type GroupRead struct {
	Consumer    string        // ten letters or digits; empty: the first round names it
	From        string        // FromStart or FromNow, where a new group begins; empty: the group must exist
	Events      bool          // with From: the group asks for events beside messages; without From nothing changes
	Acknowledge []string      // ids of messages
	Limit       int           // 0: Limit
	Wait        time.Duration // the longest wait for a first message
	Leave       bool          // stop reading; others get unacknowledged messages at once
}

// GroupMessage is a message that was delivered to a consumer.
type GroupMessage struct {
	ID       string // its shard and its position there; the consumer acknowledges it by this id
	Delivery int    // 1 for the first delivery, and one more for each later one
	circulate.Found
}

// GroupBatch is the result of a round.
type GroupBatch struct {
	Consumer     string
	Acknowledged int // acknowledged messages that were pending
	Messages     []GroupMessage
}

// validate returns the messages to acknowledge. Its error has all faults of the round.
func (q GroupRead) validate(name string) ([]entryName, error) {
	var faults strict.Faults
	if err := circulate.ValidateGroup(name); err != nil {
		faults.Add("group", err.Error())
	}
	if q.Consumer != "" {
		if err := circulate.ValidateReplica(q.Consumer); err != nil {
			faults.Add("consumer", "must be ten letters or digits")
		}
	}
	if q.From != "" && q.From != FromStart && q.From != FromNow {
		faults.Add("from", "must be start or now")
	}
	if q.Events && q.From == "" {
		faults.Add("events", "must be given together with from")
	}
	if q.Limit < 0 || q.Limit > MaxLimit {
		faults.Add("limit", fmt.Sprintf("must be 1 to %d", MaxLimit))
	}
	if q.Wait < 0 || q.Wait > maxGroupWait {
		faults.Add("wait", fmt.Sprintf("must be 0s to %v", maxGroupWait))
	}
	if len(q.Acknowledge) > MaxLimit {
		return nil, append(faults, strict.Fault{Field: "acknowledge", Reason: fmt.Sprintf("must be at most %d", MaxLimit)})
	}
	names, more := parseEntryIDs("acknowledge", q.Acknowledge)
	if faults = append(faults, more...); len(faults) > 0 {
		return nil, faults
	}
	return names, nil
}

// DecodeGroupRead reads a round strictly:
//
//	{"consumer": "…", "acknowledge": ["12:1767225600000-0"], "limit": 100, "wait": "10s"}
//
// It returns the faults of the text as strict.Faults. ReadGroup judges the values.
func DecodeGroupRead(text []byte) (GroupRead, error) {
	body, faults := groupReadDecoder.Decode(text)
	q := GroupRead{Consumer: body.Consumer, From: body.From, Events: body.Events, Acknowledge: body.Acknowledge, Limit: body.Limit, Leave: body.Leave}
	if body.Wait != "" {
		var err error
		if q.Wait, err = time.ParseDuration(body.Wait); err != nil {
			faults.Add("wait", fmt.Sprintf("must be a duration such as 5s, at most %v", maxGroupWait))
		}
	}
	return q, faults.Err()
}

var groupReadDecoder = strict.NewDecoder[struct {
	Consumer    string   `strict:"consumer"`
	From        string   `strict:"from"`
	Events      bool     `strict:"events"`
	Acknowledge []string `strict:"acknowledge"`
	Limit       int      `strict:"limit,given"`
	Wait        string   `strict:"wait"`
	Leave       bool     `strict:"leave"`
}]("a read", strict.Fault{Field: "limit", Reason: fmt.Sprintf("must be 1 to %d", MaxLimit)})

// ReadGroup does one round of a consumer. The consumer's shards stay leased to it for some time
// after its last round, so that the messages of an account come in one order, whichever consumer of
// the group gets them. ReadGroup returns strict.Faults for an invalid round, and ErrNoGroup for a
// group that does not exist, unless From says where it begins.
//
// A round of unknown outcome may be repeated.
func (r *Reader) ReadGroup(ctx context.Context, name string, q GroupRead) (GroupBatch, error) {
	names, err := q.validate(name)
	if err != nil {
		return GroupBatch{}, err
	}
	acknowledged, err := r.placed(ctx, names)
	if err != nil {
		return GroupBatch{}, err
	}
	if q.Limit == 0 {
		q.Limit = Limit
	}
	if q.Consumer == "" {
		q.Consumer = circulate.NewReplica()
	}
	batch := GroupBatch{Consumer: q.Consumer}
	if q.From != "" && !q.Leave {
		after := circulate.StreamStart
		if q.From == FromNow {
			after = circulate.StreamEnd
		}
		if _, err := group.Of(r.ring).Ensure(ctx, name, func(int) string { return after }); err != nil {
			return batch, err
		}
		if err := group.Of(r.ring).TellEvents(ctx, name, q.Events); err != nil {
			return batch, err
		}
	}
	positions := make(map[int][]string)
	for _, e := range acknowledged {
		positions[e.shard] = append(positions[e.shard], e.position.String())
	}
	for shard, list := range positions {
		n, err := group.Of(r.ring).Acknowledge(ctx, shard, name, list)
		if err != nil {
			return batch, err
		}
		batch.Acknowledged += n
	}
	t := &readRound{reader: r, group: name, GroupRead: q, shards: make(map[int]*groupShard), watches: make(map[int]*group.Watch)}
	if q.Leave {
		return batch, t.leave(ctx)
	}
	batch.Messages, err = t.read(ctx)
	if errors.Is(err, circulate.ErrNoGroup) {
		// The consumer will not come back, and must not keep shards from others until its leases end.
		if leaveErr := t.leave(ctx); leaveErr != nil {
			return batch, leaveErr
		}
		err = fmt.Errorf("%w: %q", ErrNoGroup, strings.ToValidUTF8(name, ""))
	}
	return batch, err
}
