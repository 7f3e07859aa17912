package circulate

import (
	"context"
	"fmt"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

var requeueScript = wire.NewTellingScript("requeue", lua("requeue"))

// ClaimedEntry is an entry seen in processing_list. It may have left the list since.
type ClaimedEntry struct {
	Entry Entry
	text  string
	err   error
}

// Malformed reports whether the text is not an entry.
func (e *ClaimedEntry) Malformed() bool { return e.err != nil }

// Oldest skips some entries of a shard's processing_list, oldest claim first, and returns
// up to n of the next ones and the time by the same clock. If there are none, it returns
// no entries and the zero time.
func (r *Ring) Oldest(ctx context.Context, shard, skip, n int) ([]ClaimedEntry, time.Time, error) {
	key := r.keys[shard].processing
	if skip == 0 {
		// Mostly nothing is claimed, and one command shows that.
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
	entries := make([]ClaimedEntry, len(texts))
	for i, text := range texts {
		entry, err := ParseEntry(text)
		entries[len(texts)-1-i] = ClaimedEntry{Entry: entry, text: text, err: err}
	}
	return entries, now, nil
}

// NothingClaimed reports that no account of any shard is claimed. It costs one command if
// one node serves all shards. If there are several nodes, it asks nothing and reports
// false.
func (r *Ring) NothingClaimed(ctx context.Context) (bool, error) {
	if r.Node(0) != "" {
		return false, nil
	}
	command := make(wire.Command, 1, 1+len(r.keys))
	command[0] = "EXISTS"
	for i := range r.keys {
		command = append(command, r.keys[i].processing)
	}
	replies, err := r.wire.PipelineFor(ctx, wire.Vital, r.keys[0].processing, command)
	if err != nil {
		return false, fmt.Errorf("nothing claimed: %w", err)
	}
	return replies[0] == int64(0), nil
}

// Requeued is the outcome of a requeue.
type Requeued uint8

const (
	// Moved says that the entry is in message_queue again.
	Moved Requeued = iota + 1
	// Compensated says that the entry was returned in the meantime, and that the
	// requeue's copy was removed again.
	Compensated
	// SetAsideEntry says that the text was not an entry, and was set aside.
	SetAsideEntry
)

// Requeue takes a stale entry from its holder, in two transactions:
//
//	MULTI; LREM processing_list -1 e; LPUSH message_queue e; HINCRBY strikes id 1; EXEC
//
// and, if that LREM answered 0, at once
//
//	MULTI; LREM message_queue 1 e; LREM processing_list 1 e; HINCRBY strikes id -1; EXEC
//
// If it is unknown whether the first transaction ran, it is never compensated: it may
// have been the one that moved the entry. It may leave a second copy, which the next
// claim drops by its ticket.
//
// A Redis at its memory limit refuses every transaction before it has done anything.
// There Requeue is a script, which has nothing to compensate.
//
// Strikes is how often the account of a moved entry has been requeued since its last
// returned check.
func (r *Ring) Requeue(ctx context.Context, shard int, e ClaimedEntry) (outcome Requeued, strikes int, err error) {
	k := &r.keys[shard]
	if e.Malformed() {
		outcome, err = r.setAsideEntry(ctx, shard, e)
		return outcome, 0, err
	}
	commands := []wire.Command{
		{"LREM", k.processing, -1, e.text}, {"LPUSH", k.queue, e.text}, {"HINCRBY", k.strikes, e.Entry.ID, 1},
	}
	if kept := r.told(); kept != "" {
		commands = append(commands, k.timeline.Tell(kept, e.Entry.ID, string(EventRequeued), e.Entry.Replica))
	}
	results, err := r.transact(ctx, k.processing, commands...)
	if Full(err) {
		return r.requeueFull(ctx, shard, e)
	}
	if err != nil {
		return 0, 0, fmt.Errorf("requeue, shard %d: %w", shard, err)
	}
	if results[0] == int64(1) {
		if _, failed := results[1].(redis.Error); failed {
			outcome, err = r.pushAgain(ctx, shard, e)
			return outcome, 0, err
		}
		if n, ok := results[2].(int64); ok {
			strikes = int(n)
		}
		return Moved, strikes, nil
	}
	outcome, err = r.compensate(ctx, shard, e, results[3:])
	return outcome, 0, err
}

// requeueFull is Requeue on a full Redis.
func (r *Ring) requeueFull(ctx context.Context, shard int, e ClaimedEntry) (Requeued, int, error) {
	k := &r.keys[shard]
	strikes, err := redis.Int(r.wire.Run(ctx, requeueScript, shard, []string{k.processing, k.queue, k.strikes, k.timeline.Mattered, k.timeline.Routine}, e.text, r.told()))
	switch {
	case err != nil:
		return 0, 0, err
	case strikes == 0:
		return Compensated, 0, nil
	}
	return Moved, strikes, nil
}

// compensate removes the copy that a requeue pushed of a returned entry. Told is the
// reply to the command that wrote a line of the timeline, if there was one.
func (r *Ring) compensate(ctx context.Context, shard int, e ClaimedEntry, told []any) (Requeued, error) {
	k := &r.keys[shard]
	commands := []wire.Command{
		{"LREM", k.queue, 1, e.text}, {"LREM", k.processing, 1, e.text}, {"HINCRBY", k.strikes, e.Entry.ID, -1},
	}
	for _, reply := range told {
		if line, err := redis.String(reply, nil); err == nil { // otherwise the key has another type
			commands = append(commands, wire.Command{"XDEL", k.timeline.Mattered, line})
		}
	}
	results, err := r.transact(ctx, k.processing, commands...)
	if err != nil {
		return 0, fmt.Errorf("compensate, shard %d: %w", shard, err)
	}
	if strikes, ok := results[2].(int64); ok && strikes <= 0 {
		// No strike is left to count, and the account may be gone. A strike in between is
		// lost, which does no harm.
		if _, err := r.wire.Pipeline(ctx, k.strikes, wire.Command{"HDEL", k.strikes, e.Entry.ID}); err != nil {
			r.log.Debug("a strike count of zero was left behind", "account", e.Entry.ID, "error", err)
		}
	}
	return Compensated, nil
}

func (r *Ring) setAsideEntry(ctx context.Context, shard int, e ClaimedEntry) (Requeued, error) {
	k := &r.keys[shard]
	if _, err := r.transact(ctx, k.processing,
		wire.Command{"LREM", k.processing, -1, e.text},
		wire.Command{"LPUSH", k.setAside, e.text},
		wire.Command{"LTRIM", k.setAside, 0, 999}); err != nil {
		return 0, fmt.Errorf("set aside, shard %d: %w", shard, err)
	}
	r.wire.CountSetAside(1)
	r.log.Error("a malformed entry of processing_list was set aside", "shard", shard, "key", k.setAside)
	return SetAsideEntry, nil
}

// pushAgain pushes an entry into message_queue after a transaction removed it from
// processing_list without pushing it: MULTI has no rollback.
func (r *Ring) pushAgain(ctx context.Context, shard int, e ClaimedEntry) (Requeued, error) {
	k := &r.keys[shard]
	_, err := r.wire.SetShardAside(ctx, shard)
	if err == nil {
		_, err = r.wire.Pipeline(ctx, k.queue, wire.Command{"LPUSH", k.queue, e.text})
	}
	if err != nil {
		return 0, fmt.Errorf("requeue, shard %d: taken out and not put back: %w", shard, err)
	}
	return Moved, nil
}

// transact runs commands in MULTI and returns their results. The first command takes the entry out:
// its error is returned as transact's. Other results may be errors, because Redis runs the remaining
// commands all the same.
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

var quarantineScript = wire.NewTellingScript("quarantine", lua("quarantine"))

// Quarantine parks an account right after its entry was requeued, if it has at least that
// many strikes. Unlike Park it does not change an account that was claimed, changed or
// parked in between: earlier strikes must not quarantine a record that was just
// corrected, or replace a pause. It reports whether the account is now parked.
func (r *Ring) Quarantine(ctx context.Context, shard int, e ClaimedEntry, strikes int, reason string) (bool, error) {
	if e.Malformed() {
		return false, nil
	}
	k := &r.keys[shard]
	return redis.Bool(r.wire.Run(ctx, quarantineScript, shard,
		[]string{k.tickets, k.ticketSeq, k.parked, k.reasons, k.strikes, k.ticketMark, k.timeline.Mattered, k.timeline.Routine},
		e.text, strikes, reason, r.told()))
}
