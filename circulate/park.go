package circulate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

// ReasonPaused is the reason of a paused account.
const ReasonPaused = "paused"

var (
	parkScript   = wire.NewTellingScript("park", lua("park"))
	resumeScript = wire.NewTellingScript("resume", lua("resume"))
)

// Park takes accounts of one shard out of circulation. The reason replaces an earlier
// one. A check under way will not be written. Park returns how many accounts were
// registered.
func (r *Ring) Park(ctx context.Context, shard int, reason string, ids []string) (int, error) {
	return r.park(ctx, shard, ids, func(ids []string) []any { return append([]any{reason, r.told(), 1}, anyOf(ids)...) })
}

// ParkIf is Park for accounts that are still as the caller saw them: parked for the given
// reason, or not parked if the reason is "". It does not change an account that has been
// parked for another reason or resumed since.
func (r *Ring) ParkIf(ctx context.Context, shard int, reason string, seen map[string]string) (int, error) {
	return r.park(ctx, shard, slices.Sorted(maps.Keys(seen)), func(ids []string) []any {
		args := []any{reason, r.told(), 2}
		for _, id := range ids {
			args = append(args, id, seen[id])
		}
		return args
	})
}

func (r *Ring) park(ctx context.Context, shard int, ids []string, args func(ids []string) []any) (int, error) {
	if err := wire.CheckBatch("park", len(ids)); err != nil {
		return 0, err
	}
	return r.countAnywhere(ctx, shard, ids, func(ctx context.Context, shard int, ids []string) (int, error) {
		k := &r.keys[shard]
		return redis.Int(r.wire.Run(ctx, parkScript, shard,
			[]string{k.tickets, k.ticketSeq, k.schedule, k.parked, k.reasons, k.ticketMark, k.timeline.Mattered, k.timeline.Routine}, args(ids)...))
	})
}

// Resumption is a parked account that should circulate again.
type Resumption struct {
	ID  string
	Due time.Time // by Redis' clock; at once if past or zero

	// Reason is the exact reason for which the account must be parked. An account that
	// was paused since the caller looked stays parked. Empty: any reason.
	Reason string

	// ForgetCursor makes the next check start as if it were the first; not for Probe.
	ForgetCursor bool
	// State is the cadence's new state, as in Return; not for Probe, which does not
	// change it.
	State string
}

// Resumed is the outcome of one resumption.
type Resumed byte

// The outcomes of a resumption.
const (
	BackAgain     Resumed = 'r' // it circulates again
	Circulating   Resumed = 'c' // it was not parked; it was not changed
	OtherReason   Resumed = 'o' // it is parked for another reason; it was not changed
	NotRegistered Resumed = 'n' // there is no such account
)

// ResumeAll puts parked accounts of one shard back into circulation and clears their
// failures and strikes. It does not change accounts that circulate. Outcomes are in the
// order of the items.
func (r *Ring) ResumeAll(ctx context.Context, shard int, items []Resumption) ([]Resumed, error) {
	return r.resumeAnywhere(ctx, shard, items, RuleResumed, false)
}

// Probe resumes accounts as ResumeAll does, but on probation. It retains failures, strikes
// and the cadence's state, so that the next failure parks an account again. Only a success
// clears them.
func (r *Ring) Probe(ctx context.Context, shard int, items []Resumption) ([]Resumed, error) {
	return r.resumeAnywhere(ctx, shard, items, RuleProbed, true)
}

// resume resumes accounts in exactly this shard.
func (r *Ring) resume(ctx context.Context, shard int, items []Resumption, rule Rule, onProbation bool) ([]Resumed, error) {
	if err := wire.CheckBatch("resume", len(items)); err != nil {
		return nil, err
	}
	args := append(r.wakeArgs(shard), string(rule), wire.Flag(onProbation), r.told())
	for _, it := range items {
		args = append(args, it.ID, max(0, it.Due.UnixMilli()), it.Reason, wire.Flag(it.ForgetCursor && !onProbation), it.State)
	}
	k := &r.keys[shard]
	letters, err := redis.Bytes(r.wire.Run(ctx, resumeScript, shard,
		[]string{
			k.tickets, k.ticketSeq, k.schedule, k.parked, k.reasons, k.failures, k.strikes, k.states, k.cursors, k.ticketMark,
			k.timeline.Mattered, k.timeline.Routine,
		}, args...))
	if err != nil {
		return nil, err
	}
	if len(letters) != len(items) {
		return nil, fmt.Errorf("resume, shard %d: %w", shard, wire.ErrReply)
	}
	outcomes := make([]Resumed, len(letters))
	for i, letter := range letters {
		outcomes[i] = Resumed(letter)
	}
	return outcomes, nil
}

var parkedScript = wire.NewScript("parked", lua("parked"))

// ParkedAccount is an account out of circulation.
type ParkedAccount struct {
	ID     string
	Since  time.Time // by Redis' clock, in ms
	Reason string
}

// ParkedPage returns some of a shard's parked accounts, the longest parked first, and the
// time by the same clock. It continues after an account that it returned before, whether
// that account is still parked or not. The zero account comes before the first. An
// account that is parked throughout a walk is returned once. The last page is the one
// that is not full.
func (r *Ring) ParkedPage(ctx context.Context, shard int, behind ParkedAccount, count int) ([]ParkedAccount, time.Time, error) {
	if err := wire.CheckBatch("parked", count); err != nil {
		return nil, time.Time{}, err
	}
	since := int64(0)
	if behind.ID != "" {
		since = behind.Since.UnixMilli()
	}
	return r.pageBehind(ctx, shard, r.keys[shard].parked, since, behind.ID, count)
}

// pageBehind reads a page of a ZSET of a shard's accounts by their times, with their reasons if
// they are parked.
func (r *Ring) pageBehind(ctx context.Context, shard int, key string, since int64, id string, count int) ([]ParkedAccount, time.Time, error) {
	answer, err := redis.Values(r.wire.Run(ctx, parkedScript, shard, []string{key, r.keys[shard].reasons}, since, id, count))
	if err != nil {
		return nil, time.Time{}, err
	}
	malformed := fmt.Errorf("page of parked or scheduled accounts, shard %d: %w", shard, wire.ErrReply)
	now, rest, err := cutNow(answer)
	texts, badTexts := redis.ByteSlices(rest, nil)
	if errors.Join(err, badTexts) != nil || len(texts)%3 != 0 {
		return nil, time.Time{}, malformed
	}
	page := make([]ParkedAccount, 0, len(texts)/3)
	for i := 0; i < len(texts); i += 3 {
		at, err := score(texts[i+1])
		if err != nil {
			return nil, time.Time{}, malformed
		}
		page = append(page, ParkedAccount{ID: string(texts[i]), Since: at, Reason: string(texts[i+2])})
	}
	return page, now, nil
}

// DueAccount is a scheduled account and when it is due.
type DueAccount struct {
	ID  string
	Due time.Time
}

// DuePage returns some of a shard's scheduled accounts, the soonest due first. It continues behind
// an account as ParkedPage does.
func (r *Ring) DuePage(ctx context.Context, shard int, behind DueAccount, count int) ([]DueAccount, error) {
	if err := wire.CheckBatch("due", count); err != nil {
		return nil, err
	}
	since := int64(0)
	if behind.ID != "" {
		since = behind.Due.UnixMilli()
	}
	found, _, err := r.pageBehind(ctx, shard, r.keys[shard].schedule, since, behind.ID, count)
	page := make([]DueAccount, len(found))
	for i := range found {
		page[i] = DueAccount{ID: found[i].ID, Due: found[i].Since}
	}
	return page, err
}

// LongestParked skips that many of a shard's longest parked accounts and returns the
// next. A walk with [Ring.ParkedPage] can begin behind it. It returns the zero account if
// there is none.
func (r *Ring) LongestParked(ctx context.Context, shard, longer int) (ParkedAccount, error) {
	key := r.keys[shard].parked
	replies, err := r.wire.PipelineOn(ctx, wire.Ordinary, shard, key, wire.Command{"ZRANGE", key, longer, longer, "WITHSCORES"})
	if err != nil {
		return ParkedAccount{}, fmt.Errorf("parked, shard %d: %w", shard, err)
	}
	pair, err := redis.ByteSlices(replies[0], nil)
	if err == nil && len(pair) == 0 {
		return ParkedAccount{}, nil
	}
	if err != nil || len(pair) != 2 {
		return ParkedAccount{}, fmt.Errorf("parked, shard %d: %w", shard, errors.Join(wire.ErrReply, err))
	}
	since, err := score(pair[1])
	return ParkedAccount{ID: string(pair[0]), Since: since}, err
}
