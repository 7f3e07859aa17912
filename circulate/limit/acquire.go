package limit

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

//go:embed acquire.lua
var acquireLua string

var acquireScript = wire.NewScript("acquire", acquireLua)

// Limits are those of a namespace.
type Limits struct{ wire *wire.Wire }

// Of returns the limits of a ring's namespace.
func Of(ring *circulate.Ring) Limits { return Limits{ring.Wire(wire.Insider{})} }

// Asks are requests to one limit, in order.
type Asks struct {
	Limit Limit
	Asks  []Ask
}

// Ask asks for one check.
type Ask struct {
	CheckID  string    // unique among checks
	Promised time.Time // what the account was promised when it was last denied; zero: it was not
}

// Answers are the answers of one limit.
type Answers struct {
	// Err says that no check may start. If it is Unknown they may have been counted all
	// the same; a counted lease ends by itself.
	Err error
	// Now is when they were asked, by Redis' clock.
	Now time.Time
	// At is zero for an ask that may start. Otherwise it is when the check may start.
	// That is a promise, which the account must present then.
	At []time.Time
}

// Acquire asks several limits in one round trip, each for itself. An error says that
// nothing was asked; a failure of one limit is in its Answers.
//
// Asking again after an unknown outcome is safe for the limit and costs the asker: what
// was counted then stays counted.
func (l Limits) Acquire(ctx context.Context, all []Asks) ([]Answers, error) {
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
		calls[i] = l.call(a.Limit, args)
	}
	if err := wire.CheckBatch("acquire", asked); err != nil {
		return nil, err
	}
	answers := make([]Answers, len(all))
	for i, reply := range l.run(ctx, acquireScript, calls) {
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

func (l Limits) call(limit Limit, args []any) wire.Call {
	state, leases := keysOf(l.wire.Namespace(), limit.Name)
	return wire.Call{Keys: []string{state, leases}, Args: args}
}

// run does a step on several limits at once. A key of the wrong type is set aside, so
// that it holds nobody up for ever, and the step is repeated.
func (l Limits) run(ctx context.Context, s *wire.Script, calls []wire.Call) []wire.Reply {
	replies := l.wire.EvalEach(ctx, s, calls)
	for i := range replies {
		reply, keys := &replies[i], calls[i].Keys
		if !wire.HasCode(reply.Err, "WRONGTYPE") {
			continue
		}
		if moved, err := l.wire.SetAside(ctx, keys, []any{"hash", "zset"}); err == nil && moved > 0 {
			reply.Value, reply.Err = l.wire.Eval(ctx, s, keys, calls[i].Args)
		}
	}
	return replies
}
