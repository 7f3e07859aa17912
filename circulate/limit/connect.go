package limit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

var connectScript = wire.NewScript("connect", lua("connect"))

// Connects are accounts that ask one limit with a Concurrency to stay connected.
type Connects struct {
	Limit    Limit
	Accounts []string
}

// MostConnected returns how many accounts may stay connected under a limit: all of its Concurrency but
// an eighth, and at least one, which stays for checks. The accounts that find no place can so be polled.
func (l Limit) MostConnected() int { return l.Concurrency - (l.Concurrency+7)/8 }

// Connect asks which accounts may stay connected for longer than a check, each of which takes a lease
// of its own as if it were a check. It says so for one limit after the other. An account that is
// connected already stays so, whichever replica asks for it, unless the Concurrency has become lower.
// It counts as connected for life after it last asked: nothing else ends that, so that an account that
// moves to another replica keeps its place. Life must be the same for all replicas.
//
// It is safe to repeat. An error of one limit says that nobody knows which of its accounts may.
func (l Limits) Connect(ctx context.Context, all []Connects, life time.Duration) ([][]bool, []error) {
	answers, errs := make([][]bool, len(all)), make([]error, len(all))
	fail := func(err error) ([][]bool, []error) {
		for i := range errs {
			errs[i] = err
		}
		return answers, errs
	}
	calls := make([]wire.Call, len(all))
	for i, c := range all {
		if err := c.Limit.check("connect"); err != nil {
			return fail(err)
		}
		if err := wire.CheckBatch("connect", len(c.Accounts)); err != nil {
			return fail(err)
		}
		state, leases := keysOf(l.wire.Namespace(), c.Limit.Name)
		args := append(make([]any, 0, 3+len(c.Accounts)), c.Limit.Concurrency, c.Limit.MostConnected(), life.Milliseconds())
		for _, account := range c.Accounts {
			args = append(args, account)
		}
		calls[i] = wire.Call{Keys: []string{leases, connectedOf(state)}, Args: args}
	}
	for i, reply := range l.run(ctx, connectScript, calls, "zset", "zset") {
		numbers, err := redis.Ints(reply.Value, reply.Err)
		if err == nil && len(numbers) != len(all[i].Accounts) {
			err = wire.ErrReply
		} else if err != nil && reply.Err == nil {
			err = errors.Join(wire.ErrReply, err)
		}
		if err != nil {
			errs[i] = fmt.Errorf("connect, limit %q: %w", all[i].Limit.Name, err)
			continue
		}
		answers[i] = make([]bool, len(numbers))
		for j, n := range numbers {
			answers[i][j] = n == 1
		}
	}
	return answers, errs
}

// connectedOf returns the key of a limit's connected accounts.
func connectedOf(state string) string { return state + ":connected" }
