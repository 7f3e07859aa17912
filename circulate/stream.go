package circulate

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

// StreamEnd is the position of a stream's newest message at the moment of the call.
const StreamEnd = "$"

// StreamStart is the position before a stream's first message.
const StreamStart = "0-0"

// Found is a message as it stands in a shard's stream, or an event.
type Found struct {
	Shard    int
	Position string // the stream's own id
	Account  string
	Kind     string
	Message  Message

	// A replayed dead letter is for one group only, and has the position that the message
	// had first. Otherwise both are empty.
	Only  string
	First string

	// Event marks an event: what became of a send of the account. It is for one group only.
	// Message.Type is its name, such as send.accepted, and Message.Time is when it happened,
	// by Redis' clock. SendEvent returns the rest.
	Event bool

	// Trace is the traceparent of what wrote the message (https://www.w3.org/TR/trace-context/).
	// Empty: it is not traced.
	Trace string
}

// Messages returns up to n messages of a shard's stream after a position, oldest first.
// It is for observers: nothing is acknowledged.
func (s Streams) Messages(ctx context.Context, shard int, after string, n int) ([]Found, error) {
	key := s.ring.keys[shard].messages
	replies, err := s.ring.wire.Pipeline(ctx, key, wire.Command{"XRANGE", key, "(" + after, "+", "COUNT", n})
	if err != nil {
		return nil, fmt.Errorf("messages, shard %d: %w", shard, err)
	}
	return readStream(shard, replies[0])
}

// Stretch is a part of a shard's stream: up to N messages after a position, oldest first.
// If it goes back, it is up to N messages before the position, newest first.
type Stretch struct {
	Shard int
	From  string
	Back  bool
	N     int
}

// stretchesAtOnce is how many stretches one round trip reads: each message may be large.
const stretchesAtOnce = 16

// Stretches reads many stretches, in few round trips.
func (s Streams) Stretches(ctx context.Context, all []Stretch) ([][]Found, error) {
	found := make([][]Found, len(all))
	err := EachShard(ctx, (len(all)+stretchesAtOnce-1)/stretchesAtOnce, func(ctx context.Context, chunk int) error {
		first := chunk * stretchesAtOnce
		some := all[first:min(first+stretchesAtOnce, len(all))]
		batches := make([]wire.Batch, len(some))
		for i, one := range some {
			key := s.ring.keys[one.Shard].messages
			batches[i] = wire.Batch{Key: key, Commands: []wire.Command{{"XRANGE", key, "(" + one.From, "+", "COUNT", one.N}}}
			if one.Back {
				batches[i].Commands[0] = wire.Command{"XREVRANGE", key, "(" + one.From, "-", "COUNT", one.N}
			}
		}
		for i, replies := range s.ring.wire.PipelineEach(ctx, wire.Ordinary, batches) {
			err := replies.Err
			if err == nil {
				found[first+i], err = readStream(some[i].Shard, replies.Values[0])
			}
			if err != nil {
				return fmt.Errorf("messages, shard %d: %w", some[i].Shard, err)
			}
		}
		return nil
	})
	return found, err
}

// Last returns the position of a shard's newest message, or StreamStart if there is none.
func (s Streams) Last(ctx context.Context, shard int) (string, error) {
	key := s.ring.keys[shard].messages
	replies, err := s.ring.wire.Pipeline(ctx, key, wire.Command{"XREVRANGE", key, "+", "-", "COUNT", 1})
	if err != nil {
		return "", fmt.Errorf("last message, shard %d: %w", shard, err)
	}
	found, err := readStream(shard, replies[0])
	if err != nil || len(found) == 0 {
		return StreamStart, err
	}
	return found[0].Position, nil
}

// Trim drops the messages of a shard that were written before a time of Redis' clock,
// except messages that a consumer group has not read or not acknowledged. It returns how
// many it dropped, and whether a group held some back.
func (s Streams) Trim(ctx context.Context, shard int, before time.Time) (dropped int, heldBack bool, err error) {
	key := s.ring.keys[shard].messages
	limit := StreamIDAt(before)
	oldest, err := s.ring.oldestUnread(ctx, key)
	if err != nil {
		return 0, false, fmt.Errorf("trim, shard %d: %w", shard, err)
	}
	keepFrom := limit
	if oldest != nil && oldest.Before(limit) {
		keepFrom = *oldest
	}
	// Dropping all of them with one command would block the server for too long. When no
	// whole node of the stream can be dropped, the rest is part of one node.
	for n := trimAtOnce; n > 0; dropped += n {
		if n, err = s.ring.trimBefore(ctx, key, "~", keepFrom.String(), "LIMIT", trimAtOnce); err != nil {
			return dropped, false, fmt.Errorf("trim, shard %d: %w", shard, err)
		}
	}
	n, err := s.ring.trimBefore(ctx, key, keepFrom.String())
	if err != nil {
		return dropped, false, fmt.Errorf("trim, shard %d: %w", shard, err)
	}
	dropped += n
	replies, err := s.ring.wire.Pipeline(ctx, key, wire.Command{"XRANGE", key, "-", "(" + limit.String(), "COUNT", 1})
	if err != nil {
		return dropped, false, fmt.Errorf("trim, shard %d: %w", shard, err)
	}
	left, err := redis.Values(replies[0], nil)
	return dropped, len(left) > 0, err
}

// trimAtOnce is the most messages that one command drops, which takes about a
// millisecond.
const trimAtOnce = 10_000

func (r *Ring) trimBefore(ctx context.Context, key string, args ...any) (int, error) {
	replies, err := r.wire.Pipeline(ctx, key, append(wire.Command{"XTRIM", key, "MINID"}, args...))
	if err != nil {
		return 0, err
	}
	return redis.Int(replies[0], nil)
}

// oldestUnread is the first position that some group may still need, or nil if there is
// no group.
func (r *Ring) oldestUnread(ctx context.Context, key string) (*StreamID, error) {
	groups, err := r.groupInfos(ctx, key)
	if err != nil {
		return nil, err
	}
	var oldest *StreamID
	for _, g := range groups {
		read, err := ParseStreamID(g.lastRead)
		if err != nil {
			return nil, err
		}
		need := read.Next()
		pending, err := r.wire.Pipeline(ctx, key, wire.Command{"XPENDING", key, g.name})
		if err != nil {
			return nil, err
		}
		if summary, _ := redis.Values(pending[0], nil); len(summary) == 4 && summary[1] != nil {
			lowest, _ := redis.String(summary[1], nil)
			if p, err := ParseStreamID(lowest); err == nil && p.Before(need) {
				need = p
			}
		}
		if oldest == nil || need.Before(*oldest) {
			oldest = &need
		}
	}
	return oldest, nil
}

// LowWater is what the streams of all shards no longer have.
type LowWater struct {
	Before time.Time // no message was written before this time; zero: there are no messages
	Now    time.Time // the earliest clock of a shard, before the streams were read
}

// LowWater returns the time before which no shard has a message any more. Messages may come
// while it looks, but none that was written before Now.
func (s Streams) LowWater(ctx context.Context) (LowWater, error) {
	batches := make([]wire.Batch, len(s.ring.keys))
	for shard := range batches {
		key := s.ring.keys[shard].messages
		batches[shard] = wire.Batch{Key: key, Commands: []wire.Command{{"TIME"}, {"XRANGE", key, "-", "+", "COUNT", 1}}}
	}
	var low LowWater
	for shard, replies := range s.ring.wire.PipelineEach(ctx, wire.Ordinary, batches) {
		fail := func(err error) (LowWater, error) {
			return LowWater{}, fmt.Errorf("low water, shard %d: %w", shard, err)
		}
		if replies.Err != nil {
			return fail(replies.Err)
		}
		now, err := wire.Time(replies.Values[0])
		if err != nil {
			return fail(err)
		}
		if low.Now.IsZero() || now.Before(low.Now) {
			low.Now = now
		}
		first, err := readStream(shard, replies.Values[1])
		if err != nil {
			return fail(err)
		}
		if len(first) == 0 {
			continue
		}
		id, err := ParseStreamID(first[0].Position)
		if err != nil {
			return fail(err)
		}
		if low.Before.IsZero() || id.Time().Before(low.Before) {
			low.Before = id.Time()
		}
	}
	return low, nil
}

func readStream(shard int, reply any) ([]Found, error) {
	entries, err := wire.Entries(reply)
	if err != nil {
		return nil, err
	}
	found := make([]Found, len(entries))
	for i := range entries {
		e := &entries[i]
		m := Message{ID: e.Field("id"), Type: e.Field("type")}
		m.Time, _ = time.Parse(time.RFC3339Nano, e.Field("time"))
		if data := e.Field("data"); data != "" {
			m.Data = json.RawMessage(data)
		}
		found[i] = Found{
			Shard: shard, Position: e.Position, Account: e.Field("account"), Kind: e.Field("kind"), Message: m,
			Only: e.Field("group"), First: e.Field("origin"), Event: e.Field("event") != "",
			Trace: e.Field("trace"),
		}
	}
	return found, nil
}

// Tag returns the hash tag of a shard's keys, with braces. On a cluster, an effect's
// further keys must begin with it.
func (r *Ring) Tag(shard int) string {
	key := r.keys[shard].messages
	return key[:len(key)-len(":messages")]
}

// Streams are the shards' streams of found messages, and the names of their consumer
// groups. Package group reads them for a group.
type Streams struct{ ring *Ring }

// Streams returns the streams of the ring.
func (r *Ring) Streams() Streams { return Streams{r} }

// Keys returns the keys of a shard that concern its messages.
func (s Streams) Keys(shard int) wire.Stream { return s.ring.keys[shard].stream() }

// Read parses Redis' reply of entries of a shard's stream.
func (s Streams) Read(shard int, reply any) ([]Found, error) { return readStream(shard, reply) }

// Ahead returns after how long to ask again if a new shard may have messages of accounts
// whose earlier messages the group has not handled yet. Otherwise it returns 0.
func (s Streams) Ahead(ctx context.Context, shard int, group string) (time.Duration, error) {
	if ahead, err := s.ring.ahead(ctx, shard, group); err != nil || ahead {
		return aheadPause, err
	}
	return 0, nil
}

// Message is one message that a check found, as it is written to its shard's stream.
type Message struct {
	ID   string          `json:"id"`             // the third party's own, unique within its account
	Type string          `json:"type,omitempty"` // the third party's own
	Time time.Time       `json:"time"`           // when it was created, by the third party's clock; zero = unknown
	Data json.RawMessage `json:"data,omitempty"` // any JSON value

	// Answerable says that the message lets its peer be answered. It is written with the
	// message and does not enter the stream. Nil: it says nothing about answers.
	Answerable *Answerable `json:"-"`

	// What follows is for [Remember] only, and is not written to the stream.

	// Content is what identifies the message besides its id: all that stays the same if
	// the third party gives it again. Empty: its id alone identifies it.
	Content string `json:"-"`
	// NoID says that the third party gave no id, and that ID was made up.
	NoID bool `json:"-"`
}

// appendFields appends the message as scripts take it.
func (m *Message) appendFields(args []any) []any {
	return wire.AppendMessage(args, m.ID, m.Type, m.Time, []byte(m.Data))
}

var trimScript = wire.NewScript("trim", lua("trim"))

// trimStep is how many messages one step drops, which takes about a millisecond.
const trimStep = 512

// TrimTo drops the oldest messages of a shard until it has at most that many, except
// messages that a consumer group has not read or not acknowledged. It returns how many it
// dropped, and whether a group held some back. An error may come after some were dropped.
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

// StreamID is the id of an entry in a stream, which is also its position: the time by
// Redis' clock when the entry was written, in unix ms, and a number within that
// millisecond. The zero StreamID is the position before the first entry.
type StreamID struct{ Ms, Seq uint64 }

// StreamIDAt returns the first id that an entry written at a time may have.
func StreamIDAt(t time.Time) StreamID { return StreamID{Ms: uint64(max(0, t.UnixMilli()))} }

// ParseStreamID reads an id in the form that Redis writes, MS-SEQ. It also reads 0, which
// to Redis is the start of a stream.
func ParseStreamID(text string) (StreamID, error) {
	if text == "0" {
		return StreamID{}, nil
	}
	ms, seq, _ := strings.Cut(text, "-")
	var id StreamID
	var err error
	if id.Ms, err = strconv.ParseUint(ms, 10, 64); err == nil {
		id.Seq, err = strconv.ParseUint(seq, 10, 64)
	}
	if err != nil || id.Ms > math.MaxInt64 || id.Seq > math.MaxInt64 || id.String() != text {
		return StreamID{}, fmt.Errorf("position %q: must be MS-SEQ", text)
	}
	return id, nil
}

// String returns MS-SEQ.
func (id StreamID) String() string {
	return strconv.FormatUint(id.Ms, 10) + "-" + strconv.FormatUint(id.Seq, 10)
}

// Compare is negative if the id comes before the other one, and positive if it comes
// after it.
func (id StreamID) Compare(other StreamID) int {
	return cmp.Or(cmp.Compare(id.Ms, other.Ms), cmp.Compare(id.Seq, other.Seq))
}

// Before reports whether the id comes before the other one.
func (id StreamID) Before(other StreamID) bool { return id.Compare(other) < 0 }

// Time returns when the entry was written, by Redis' clock.
func (id StreamID) Time() time.Time { return time.UnixMilli(int64(id.Ms)) }

// Next returns the id after this one.
func (id StreamID) Next() StreamID { return StreamID{id.Ms, id.Seq + 1} }

// Previous returns the last id before this one; for the start it returns the start.
func (id StreamID) Previous() StreamID {
	switch {
	case id.Seq > 0:
		return StreamID{id.Ms, id.Seq - 1}
	case id.Ms > 0:
		return StreamID{id.Ms - 1, math.MaxInt64}
	}
	return id
}

// ComparePositions compares two ids in the form that Redis writes. A text that is no id
// comes before all ids.
func ComparePositions(a, b string) int {
	x, _ := ParseStreamID(a)
	y, _ := ParseStreamID(b)
	return x.Compare(y)
}

// PositionAge returns how long before now a message was written, by its position, or 0 if
// the position is invalid.
func PositionAge(now time.Time, position string) time.Duration {
	id, err := ParseStreamID(position)
	if err != nil {
		return 0
	}
	return time.Duration(max(0, now.UnixMilli()-int64(id.Ms))) * time.Millisecond
}

// ValidatePosition returns what is wrong with a stream position.
func ValidatePosition(text string) error {
	_, err := ParseStreamID(text)
	return err
}

// Stored returns how many entries the streams of some shards hold: messages, and events that
// are not trimmed yet.
func (s Streams) Stored(ctx context.Context, shards []int) (total int, err error) {
	batches := make([]wire.Batch, len(shards))
	for i, shard := range shards {
		key := s.ring.keys[shard].messages
		batches[i] = wire.Batch{Key: key, Commands: []wire.Command{{"XLEN", key}}}
	}
	for i, replies := range s.ring.wire.PipelineEach(ctx, wire.Ordinary, batches) {
		n, err := 0, replies.Err
		if err == nil {
			n, err = redis.Int(replies.Values[0], nil)
		}
		if err != nil {
			return 0, fmt.Errorf("stored messages, shard %d: %w", shards[i], err)
		}
		total += n
	}
	return total, nil
}
