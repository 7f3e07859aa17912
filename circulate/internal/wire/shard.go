package wire

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gomodule/redigo/redis"
)

// Key is the name of a key and its type.
type Key [2]string

// Run runs a script on keys of a shard. If one of the shard's keys has the wrong type,
// Run sets it aside and runs the script once more.
func (w *Wire) Run(ctx context.Context, s *Script, shard int, keys []string, args ...any) (any, error) {
	reply, err := w.Eval(ctx, s, keys, args)
	if HasCode(err, "WRONGTYPE") && w.mended(ctx, shard) {
		reply, err = w.Eval(ctx, s, keys, args)
	}
	if err != nil {
		return nil, fmt.Errorf("%s, shard %d: %w", s.name, shard, err)
	}
	return reply, nil
}

// PipelineOn is PipelineFor on a shard. It sets the shard's keys of a wrong type aside.
func (w *Wire) PipelineOn(ctx context.Context, p Purpose, shard int, key string, commands ...Command) ([]any, error) {
	replies, err := w.PipelineFor(ctx, p, key, commands...)
	if HasCode(err, "WRONGTYPE") && w.mended(ctx, shard) {
		return w.PipelineFor(ctx, p, key, commands...)
	}
	return replies, err
}

func (w *Wire) mended(ctx context.Context, shard int) bool {
	moved, err := w.SetShardAside(ctx, shard)
	return err == nil && moved > 0
}

// SetShardAside is SetAside for all keys of a shard.
func (w *Wire) SetShardAside(ctx context.Context, shard int) (int, error) {
	if w.keys == nil {
		return 0, nil
	}
	return w.setKeysAside(ctx, w.keys(shard), "shard", shard)
}

func (w *Wire) setKeysAside(ctx context.Context, keys []Key, about ...any) (int, error) {
	names, types := make([]string, len(keys)), make([]any, len(keys))
	for i, k := range keys {
		names[i], types[i] = k[0], k[1]
	}
	return w.SetAside(ctx, names, types, about...)
}

// Mending makes a call on keys outside the shards. If one of the keys has the wrong type,
// it sets that key aside and makes the call once more. One node has all of the keys.
func Mending[T any](ctx context.Context, w *Wire, keys []Key, call func() (T, error)) (T, error) {
	reply, err := call()
	if !HasCode(err, "WRONGTYPE") {
		return reply, err
	}
	if moved, moveErr := w.setKeysAside(ctx, keys); moveErr != nil || moved == 0 {
		return reply, err
	}
	return call()
}

// Stream is a shard's keys for messages.
type Stream struct {
	Messages string    // STREAM
	Dead     string    // STREAM  messages that a consumer group could not handle
	Leases   string    // HASH  consumer group -> token|expiry|consumer
	Tickets  [2]string // STRINGs  the sequence of tokens, and its mark
}

// Applied returns the key of the messages that a group's effects remember in a shard: a
// ZSET, account NUL message id -> until when, unix ms.
func (s Stream) Applied(group string) string { return s.Messages + ":applied:" + group }

// Entry is an entry of a STREAM.
type Entry struct {
	Position string
	Fields   []string // names and values by turns
}

// Field returns the value of a field; empty if there is none.
func (e *Entry) Field(name string) string {
	for i := 0; i+1 < len(e.Fields); i += 2 {
		if e.Fields[i] == name {
			return e.Fields[i+1]
		}
	}
	return ""
}

// Entries reads the entries in a reply, such as one to XRANGE.
func Entries(reply any) ([]Entry, error) {
	values, err := redis.Values(reply, nil)
	if err != nil {
		return nil, errors.Join(ErrReply, err)
	}
	entries := make([]Entry, len(values))
	for i, value := range values {
		pair, err := redis.Values(value, nil)
		if err != nil || len(pair) != 2 {
			return nil, errors.Join(ErrReply, err)
		}
		position, badPosition := redis.String(pair[0], nil)
		fields, badFields := redis.Strings(pair[1], nil)
		if err := errors.Join(badPosition, badFields); err != nil {
			return nil, errors.Join(ErrReply, err)
		}
		entries[i] = Entry{position, fields}
	}
	return entries, nil
}

// AppendMessage appends a message in the form that scripts take: id, type, time in RFC
// 3339 (empty = unknown), data.
func AppendMessage(args []any, id, kind string, at time.Time, data []byte) []any {
	when := ""
	if !at.IsZero() {
		when = at.UTC().Format(time.RFC3339Nano)
	}
	return append(args, id, kind, when, data)
}

// Timeline is the keys of a shard's two streams of lines.
type Timeline struct {
	Mattered string // rare events of an account
	Routine  string // routine events
}

// Keys returns both, in the order that scripts take them.
func (t Timeline) Keys() []string { return []string{t.Mattered, t.Routine} }

// MaxTimelineText is the most bytes of a line's text.
const MaxTimelineText = 240

// Kept returns how many lines each stream of a shard may have, in the form that scripts
// take, given the number of a namespace. Three of four lines are for rare events. It
// returns "" if there is to be no timeline.
func Kept(lines, shards int) string {
	if lines <= 0 {
		return ""
	}
	each := func(n int) int { return max(1, (n+shards-1)/shards) }
	return fmt.Sprintf("%d %d", each(lines-lines/4), each(lines/4))
}

// Tell returns the command that writes a line about a rare event of an account, for steps
// that are no scripts. Kept must not be empty.
func (t Timeline) Tell(kept, id, event, text string) Command {
	var most, least int
	if _, err := fmt.Sscanf(kept, "%d %d", &most, &least); err != nil {
		most = 1
	}
	return Command{"XADD", t.Mattered, "MAXLEN", "~", most, "*", "account", id, "event", event, "n", 0, "text", text}
}

// NewTellingScript is NewScript for a step that may write lines of a timeline.
func NewTellingScript(name string, texts ...string) *Script {
	return newScript(name, texts, entryParts, timelineParts)
}

var (
	heartbeatScript = NewVitalScript("heartbeat", luaFile("heartbeat"))
	retireScript    = NewVitalScript("retire", luaFile("retire"))
)

// presenceMemory is how long a silent member is remembered. A forgotten member counts as
// gone as well.
const presenceMemory = 10 * time.Minute

// Presence is the keys of the live replicas, or of a group's live consumers: a ZSET,
// member -> last heartbeat, unix ms, and a HASH, member -> its report then.
type Presence struct{ Beats, Reports string }

// Beat reports that a member is alive, with its report. It returns all members with a
// heartbeat within the window.
func (w *Wire) Beat(ctx context.Context, p Presence, member string, report any, window time.Duration) (there []string, err error) {
	return redis.Strings(w.Eval(ctx, heartbeatScript, []string{p.Beats, p.Reports},
		[]any{member, report, presenceMemory.Milliseconds(), window.Milliseconds()}))
}

// Retire removes a member.
func (w *Wire) Retire(ctx context.Context, p Presence, member string) error {
	_, err := w.Eval(ctx, retireScript, []string{p.Beats, p.Reports}, []any{member})
	return err
}
