package limit

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"time"

	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

//go:embed finish.lua
var finishLua string

var finishScript = wire.NewScript("finish", finishLua)

// Finished are checks that one limit let start and that have ended.
type Finished struct {
	Limit    Limit
	CheckIDs []string
}

// Refund is checks that one limit let start and that did not start.
type Refund struct {
	Limit    Limit
	Granted  time.Time // Answers.Now of that time
	CheckIDs []string
}

// Finish reports to limits that checks have ended. It is safe to repeat. A limit without
// a Concurrency need not be told. The error joins the failures of all limits.
func (l Limits) Finish(ctx context.Context, all []Finished) error {
	refunds := make([]Refund, len(all))
	for i, f := range all {
		refunds[i] = Refund{Limit: f.Limit, CheckIDs: f.CheckIDs}
	}
	return l.finish(ctx, "finish", refunds)
}

// Refund returns what limits granted for checks that did not start, for example because
// another limit denied them. It must not be repeated after an unknown outcome, nor be
// done for a grant of unknown outcome: a limit without a Concurrency does not know what
// was returned before.
func (l Limits) Refund(ctx context.Context, all []Refund) error {
	for _, f := range all {
		if f.Granted.UnixMicro() <= 0 {
			return fmt.Errorf("%w: refund: limit %q: granted: must be set", wire.ErrInput, f.Limit.Name)
		}
	}
	return l.finish(ctx, "refund", all)
}

func (l Limits) finish(ctx context.Context, step string, all []Refund) error {
	ended := 0
	calls := make([]wire.Call, len(all))
	for i, f := range all {
		if err := f.Limit.check(step); err != nil {
			return err
		}
		if err := wire.CheckBatch(step, len(f.CheckIDs)); err != nil {
			return err
		}
		ended += len(f.CheckIDs)
		granted, leased := int64(0), 0
		if !f.Granted.IsZero() {
			granted = f.Granted.UnixMicro()
		}
		if f.Limit.Concurrency > 0 {
			leased = 1
		}
		args := append(make([]any, 0, 4+len(f.CheckIDs)), f.Limit.Lease.Milliseconds(), f.Limit.Every.Microseconds(), leased, granted)
		for _, id := range f.CheckIDs {
			args = append(args, id)
		}
		calls[i] = l.call(f.Limit, args)
	}
	if err := wire.CheckBatch(step, ended); err != nil {
		return err
	}
	var errs []error
	for i, reply := range l.run(ctx, finishScript, calls) {
		if reply.Err != nil {
			errs = append(errs, fmt.Errorf("%s, limit %q: %w", step, all[i].Limit.Name, reply.Err))
		}
	}
	return errors.Join(errs...)
}
