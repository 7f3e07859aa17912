package circulate

import (
	"context"
	_ "embed"
	"fmt"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

//go:embed requeue.lua
var requeueLua string

var requeueScript = wire.NewScript("requeue", requeueLua)

// Held is an entry seen in processing_list. It may be gone by the time that the
// caller looks at it.
type Held struct {
	Entry Entry
	text  string
	err   error
}

// Malformed reports whether the text is no entry.
func (h *Held) Malformed() bool { return h.err != nil }

// Oldest returns up to n entries of a shard's processing_list, the oldest claim
// first, after skipping some, and the time now by the same clock; no entries and
// the zero time where nobody holds anything.
func (r *Ring) Oldest(ctx context.Context, shard, skip, n int) ([]Held, time.Time, error) {
	key := r.keys[shard].processing
	if skip == 0 {
		// Mostly nobody holds anything, and one command shows it.
		length, err := r.wire.PipelineFor(ctx, wire.Vital, key, wire.Command{"LLEN", key})
		switch {
		case err == nil && length[0] == int64(0):
			return nil, time.Time{}, nil
		case err != nil && !wire.HasCode(err, "WRONGTYPE"):
			return nil, time.Time{}, fmt.Errorf("oldest, shard %d: %w", shard, err)
		}
	}
	replies, err := r.wire.PipelineOn(ctx, wire.Vital, shard, key, wire.Command{"LRANGE", key, -skip - n, -skip - 1}, wire.Command{"TIME"})
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("oldest, shard %d: %w", shard, err)
	}
	now, err := wire.Time(replies[1])
	if err != nil {
		return nil, time.Time{}, err
	}
	texts, err := redis.Strings(replies[0], nil)
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("oldest, shard %d: %w", shard, err)
	}
	held := make([]Held, len(texts))
	for i, text := range texts {
		entry, err := ParseEntry(text)
		held[len(texts)-1-i] = Held{Entry: entry, text: text, err: err}
	}
	return held, now, nil
}

// Requeued is what became of a requeue.
type Requeued uint8

const (
	// Moved says that the entry is in message_queue again.
	Moved Requeued = iota + 1
	// Compensated says that someone had returned it in between, and that what the
	// requeue added was taken out again.
	Compensated
	// SetAsideEntry says that it was no entry, and is out of the way.
	SetAsideEntry
)

// Requeue takes a stale entry from its holder, as the pattern has it:
//
//	MULTI; LREM processing_list -1 e; LPUSH message_queue e; HINCRBY strikes id 1; EXEC
//
// and, where that LREM answered 0, at once
//
//	MULTI; LREM message_queue 1 e; LREM processing_list 1 e; HINCRBY strikes id -1; EXEC
//
// An error after which nobody knows whether the first transaction ran is never
// compensated: it may have been the one that moved the entry. What it may have
// left is a second copy, which the next claim drops by its ticket.
//
// A Redis at its memory limit refuses every transaction, before it has done
// anything: there it is a script, which has nothing to compensate.
//
// Of an entry that was moved, strikes is how often its account was requeued since the
// last check of it that was returned.
func (r *Ring) Requeue(ctx context.Context, shard int, h Held) (outcome Requeued, strikes int, err error) {
	k := &r.keys[shard]
	if h.Malformed() {
		outcome, err = r.setAsideEntry(ctx, shard, h)
		return outcome, 0, err
	}
	results, err := r.transact(ctx, k.processing,
		wire.Command{"LREM", k.processing, -1, h.text},
		wire.Command{"LPUSH", k.queue, h.text},
		wire.Command{"HINCRBY", k.strikes, h.Entry.ID, 1})
	if Full(err) {
		return r.requeueFull(ctx, shard, h)
	}
	if err != nil {
		return 0, 0, fmt.Errorf("requeue, shard %d: %w", shard, err)
	}
	if results[0] == int64(1) {
		if _, failed := results[1].(redis.Error); failed {
			outcome, err = r.pushAgain(ctx, shard, h)
			return outcome, 0, err
		}
		if n, ok := results[2].(int64); ok {
			strikes = int(n)
		}
		return Moved, strikes, nil
	}
	outcome, err = r.compensate(ctx, shard, h)
	return outcome, 0, err
}

// requeueFull is Requeue on a Redis that is full.
func (r *Ring) requeueFull(ctx context.Context, shard int, h Held) (Requeued, int, error) {
	k := &r.keys[shard]
	strikes, err := redis.Int(r.wire.Run(ctx, requeueScript, shard, []string{k.processing, k.queue, k.strikes}, h.text))
	switch {
	case err != nil:
		return 0, 0, err
	case strikes == 0:
		return Compensated, 0, nil
	}
	return Moved, strikes, nil
}

// compensate takes out what a requeue added whose entry had been returned.
func (r *Ring) compensate(ctx context.Context, shard int, h Held) (Requeued, error) {
	k := &r.keys[shard]
	results, err := r.transact(ctx, k.processing,
		wire.Command{"LREM", k.queue, 1, h.text},
		wire.Command{"LREM", k.processing, 1, h.text},
		wire.Command{"HINCRBY", k.strikes, h.Entry.ID, -1})
	if err != nil {
		return 0, fmt.Errorf("compensate, shard %d: %w", shard, err)
	}
	if strikes, ok := results[2].(int64); ok && strikes <= 0 {
		// Nothing is left to count, perhaps not even the account. A strike that
		// comes in between is forgotten, which harms nobody.
		if _, err := r.wire.Pipeline(ctx, k.strikes, wire.Command{"HDEL", k.strikes, h.Entry.ID}); err != nil {
			r.log.Debug("a count of no strikes was left behind", "account", h.Entry.ID, "error", err)
		}
	}
	return Compensated, nil
}

func (r *Ring) setAsideEntry(ctx context.Context, shard int, h Held) (Requeued, error) {
	k := &r.keys[shard]
	if _, err := r.transact(ctx, k.processing,
		wire.Command{"LREM", k.processing, -1, h.text},
		wire.Command{"LPUSH", k.setAside, h.text},
		wire.Command{"LTRIM", k.setAside, 0, 999}); err != nil {
		return 0, fmt.Errorf("set aside, shard %d: %w", shard, err)
	}
	r.wire.CountSetAside(1)
	r.log.Error("a text in processing_list was no entry and was set aside", "shard", shard, "key", k.setAside)
	return SetAsideEntry, nil
}

// pushAgain puts an entry in message_queue that a transaction has taken out of
// processing_list without: MULTI has no rollback.
func (r *Ring) pushAgain(ctx context.Context, shard int, h Held) (Requeued, error) {
	k := &r.keys[shard]
	_, err := r.wire.SetShardAside(ctx, shard)
	if err == nil {
		_, err = r.wire.Pipeline(ctx, k.queue, wire.Command{"LPUSH", k.queue, h.text})
	}
	if err != nil {
		return 0, fmt.Errorf("requeue, shard %d: taken out and not put back: %w", shard, err)
	}
	return Moved, nil
}

// transact runs commands in MULTI and returns their results, among which may be
// errors: Redis has run the others all the same.
func (r *Ring) transact(ctx context.Context, key string, commands ...wire.Command) ([]any, error) {
	all := append(append([]wire.Command{{"MULTI"}}, commands...), wire.Command{"EXEC"})
	replies, err := r.wire.PipelineFor(ctx, wire.Vital, key, all...)
	if err != nil {
		return nil, err
	}
	results, ok := replies[len(replies)-1].([]any)
	if !ok || len(results) != len(commands) {
		return nil, wire.ErrReply
	}
	if e, ok := results[0].(redis.Error); ok {
		return nil, e
	}
	return results, nil
}

//go:embed quarantine.lua
var quarantineLua string

var quarantineScript = wire.NewScript("quarantine", quarantineLua)

// Quarantine parks an account with a reason right after its entry was requeued,
// if it has that many strikes at least. Unlike Park it leaves alone whom
// somebody else has claimed, changed or parked in between: a record that was just
// put right, or a pause, must not end in quarantine for what was before. It
// reports whether the account is parked now.
func (r *Ring) Quarantine(ctx context.Context, shard int, h Held, strikes int, reason string) (bool, error) {
	if h.Malformed() {
		return false, nil
	}
	k := &r.keys[shard]
	return redis.Bool(r.wire.Run(ctx, quarantineScript, shard,
		[]string{k.tickets, k.ticketSeq, k.parked, k.reasons, k.strikes, k.ticketMark}, h.text, strikes, reason))
}
