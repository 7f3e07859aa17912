package circulate

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

// ReasonPaused is the reason of an account that somebody paused.
const ReasonPaused = "paused"

var (
	//go:embed park.lua
	parkLua string
	//go:embed resume.lua
	resumeLua string

	parkScript   = wire.NewTellingScript("park", parkLua)
	resumeScript = wire.NewTellingScript("resume", resumeLua)
)

// Park takes accounts of one shard out of circulation, with a reason that replaces an
// earlier one. A check under way will not be written. It returns how many were
// registered.
func (r *Ring) Park(ctx context.Context, shard int, reason string, ids []string) (int, error) {
	return r.park(ctx, shard, ids, func(ids []string) []any { return append([]any{reason, r.told(), 1}, anyOf(ids)...) })
}

// ParkIf is Park of accounts that are as the caller saw them: each with the reason for
// which it is parked, or "" if it is not. An account that was parked for another reason
// since, or resumed, is not changed.
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
	Due time.Time // by Redis' clock; a past time, and the zero time, means at once

	// Reason is the exact reason that it must be parked for. An account that was paused
	// since the caller looked stays parked. Empty: any reason.
	Reason string

	// ForgetCursor has the account checked as if for the first time; not for Probe.
	ForgetCursor bool
	// State is what its cadence keeps from now on, as in Return; not for Probe, which
	// does not change it.
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

// ResumeAll puts parked accounts of one shard back into circulation, and forgets their
// failures and strikes. It does not change accounts that circulate. Outcomes are in the
// order of the items.
func (r *Ring) ResumeAll(ctx context.Context, shard int, items []Resumption) ([]Resumed, error) {
	return r.resumeAnywhere(ctx, shard, items, RuleResumed, 0)
}

// Probe is ResumeAll on probation. Failures, strikes and what the cadence keeps stay, so
// that the next failure parks an account again, and only a success clears them.
func (r *Ring) Probe(ctx context.Context, shard int, items []Resumption) ([]Resumed, error) {
	return r.resumeAnywhere(ctx, shard, items, RuleProbed, 1)
}

func (r *Ring) resume(ctx context.Context, shard int, items []Resumption, rule Rule, keep int) ([]Resumed, error) {
	if err := wire.CheckBatch("resume", len(items)); err != nil {
		return nil, err
	}
	args := append(r.wakeArgs(shard), string(rule), keep, r.told())
	for _, it := range items {
		forget := 0
		if it.ForgetCursor && keep == 0 {
			forget = 1
		}
		args = append(args, it.ID, max(0, it.Due.UnixMilli()), it.Reason, forget, it.State)
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

//go:embed parked.lua
var parkedLua string

var parkedScript = wire.NewScript("parked", parkedLua)

// ParkedAccount is an account out of circulation.
type ParkedAccount struct {
	ID     string
	Since  time.Time // by Redis' clock, in ms
	Reason string
}

// ParkedPage returns some of a shard's parked accounts, the longest parked first, and the
// time now by the same clock. It continues after an account that it returned before,
// which need not be parked any more; the zero account is before the first. An account
// that is parked throughout a walk is returned once. A page that is not full is the last.
func (r *Ring) ParkedPage(ctx context.Context, shard int, behind ParkedAccount, count int) ([]ParkedAccount, time.Time, error) {
	if err := wire.CheckBatch("parked", count); err != nil {
		return nil, time.Time{}, err
	}
	since := int64(0)
	if behind.ID != "" {
		since = behind.Since.UnixMilli()
	}
	k := &r.keys[shard]
	answer, err := redis.Values(r.wire.Run(ctx, parkedScript, shard, []string{k.parked, k.reasons}, since, behind.ID, count))
	if err != nil {
		return nil, time.Time{}, err
	}
	malformed := fmt.Errorf("parked, shard %d: %w", shard, wire.ErrReply)
	if len(answer)%3 != 1 {
		return nil, time.Time{}, malformed
	}
	now, ok := answer[0].(int64)
	if !ok {
		return nil, time.Time{}, malformed
	}
	texts, err := redis.ByteSlices(answer[1:], nil)
	if err != nil {
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
	return page, time.UnixMilli(now), nil
}

// LongestParked returns the account of a shard that this many have been parked for longer
// than, to begin a walk with [Ring.ParkedPage] behind it; the zero account if there
// is none.
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
