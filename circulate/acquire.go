package circulate

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

//go:embed acquire.lua
var acquireLua string

//go:embed leave.lua
var leaveLua string

var (
	acquireScript = wire.NewScript("acquire", acquireLua)
	leaveScript   = wire.NewScript("leave", leaveLua)
)

// Acquire asks limits, each for itself, in one round trip. An error says that
// nothing was asked; what went wrong with one limit is in its answers.
//
// To ask again after an unknown outcome is safe for the limit and costs the asker: what
// was counted then stays counted.
func (r *Ring) Acquire(ctx context.Context, all []Asks) ([]Answers, error) {
	asked := 0
	calls := make([]wire.Call, len(all))
	for i, a := range all {
		if err := a.Limit.check("acquire"); err != nil {
			return nil, err
		}
		if err := wire.CheckBatch("acquire", len(a.Asks)); err != nil {
			return nil, err
		}
		asked += len(a.Asks)
		args := append(make([]any, 0, 5+2*len(a.Asks)), a.Limit.Every.Microseconds(), a.Limit.Burst, a.Limit.Concurrency,
			a.Limit.Lease.Milliseconds(), promiseJitter.Microseconds())
		for _, ask := range a.Asks {
			promised := int64(0)
			if !ask.Promised.IsZero() {
				promised = ask.Promised.UnixMilli()
			}
			args = append(args, ask.CheckID, promised)
		}
		calls[i] = r.limitCall(a.Limit, args)
	}
	if err := wire.CheckBatch("acquire", asked); err != nil {
		return nil, err
	}
	answers := make([]Answers, len(all))
	for i, reply := range r.runLimits(ctx, acquireScript, calls) {
		answers[i] = parseAnswers(reply, len(all[i].Asks))
		if err := answers[i].Err; err != nil {
			answers[i] = Answers{Err: fmt.Errorf("acquire, limit %q: %w", all[i].Limit.Name, err)}
		}
	}
	return answers, nil
}

func parseAnswers(reply wire.Reply, asks int) Answers {
	if reply.Err != nil {
		return Answers{Err: reply.Err}
	}
	numbers, err := redis.Int64s(reply.Value, nil)
	if err != nil || len(numbers) != 1+asks {
		return Answers{Err: errors.Join(wire.ErrReply, err)}
	}
	a := Answers{Now: time.UnixMicro(numbers[0]), At: make([]time.Time, asks)}
	for i, ms := range numbers[1:] {
		if ms != 0 {
			a.At[i] = time.UnixMilli(ms)
		}
	}
	return a
}

// Leave tells limits that checks have ended. It is safe to repeat. A limit without
// a Concurrency need not be told. The error joins what went wrong with each.
func (r *Ring) Leave(ctx context.Context, all []Leaving) error {
	refunds := make([]Refund, len(all))
	for i, l := range all {
		refunds[i] = Refund{Limit: l.Limit, CheckIDs: l.CheckIDs}
	}
	return r.leave(ctx, "leave", refunds)
}

// Refund gives back what limits granted for checks that did not start, as where
// another limit denied them. It must not be repeated after an unknown outcome,
// nor be done for a grant of unknown outcome: a limit without a Concurrency
// cannot tell what was given back before.
func (r *Ring) Refund(ctx context.Context, all []Refund) error {
	for _, f := range all {
		if f.Granted.UnixMicro() <= 0 {
			return fmt.Errorf("%w: refund: limit %q: granted: must be set", wire.ErrInput, f.Limit.Name)
		}
	}
	return r.leave(ctx, "refund", all)
}

func (r *Ring) leave(ctx context.Context, step string, all []Refund) error {
	leaving := 0
	calls := make([]wire.Call, len(all))
	for i, l := range all {
		if err := l.Limit.check(step); err != nil {
			return err
		}
		if err := wire.CheckBatch(step, len(l.CheckIDs)); err != nil {
			return err
		}
		leaving += len(l.CheckIDs)
		granted, leased := int64(0), 0
		if !l.Granted.IsZero() {
			granted = l.Granted.UnixMicro()
		}
		if l.Limit.Concurrency > 0 {
			leased = 1
		}
		args := append(make([]any, 0, 4+len(l.CheckIDs)), l.Limit.Lease.Milliseconds(), l.Limit.Every.Microseconds(), leased, granted)
		for _, id := range l.CheckIDs {
			args = append(args, id)
		}
		calls[i] = r.limitCall(l.Limit, args)
	}
	if err := wire.CheckBatch(step, leaving); err != nil {
		return err
	}
	var errs []error
	for i, reply := range r.runLimits(ctx, leaveScript, calls) {
		if reply.Err != nil {
			errs = append(errs, fmt.Errorf("%s, limit %q: %w", step, all[i].Limit.Name, reply.Err))
		}
	}
	return errors.Join(errs...)
}

func (l Limit) check(step string) error {
	if err := l.Validate(); err != nil {
		return fmt.Errorf("%w: %s: limit %q: %w", wire.ErrInput, step, l.Name, err)
	}
	return nil
}
