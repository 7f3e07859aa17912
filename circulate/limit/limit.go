// Package limit has the limits that all replicas of a namespace share: how many checks
// start, how many run at once, or both. A check that must wait gets a time at which it
// may come back, so that no waiting check occupies a place in a pool. The package knows
// no accounts, and does not wait itself: package poller asks before a check, and presents
// the promise.
//
// The rate follows the generic cell rate algorithm (ITU-T I.371, annex A; for Redis:
// Brandur Leach, "Rate Limiting, Cells, and GCRA", and redis-cell). Its whole state is
// the theoretical arrival time TAT. With an emission interval T and a burst B, and so a
// tolerance τ = (B-1)·T, a start at t conforms if t >= TAT-τ, and makes TAT = max(t,
// TAT)+T.
//
// Whatever replicas and askers do, this holds:
//
//   - In any time t at most B + t/T checks start. The first of n starts, at t1,
//     leaves TAT >= t1+T, each further one adds at least T, so the last conforms
//     only at tn >= t1+(n-1)T-τ: that is n <= B + (tn-t1)/T. A refund keeps
//     that: without the refunded start TAT would be lower by at least T minus
//     the time since then, and that much is refunded and no more.
//   - At most N leases exist at once: they are counted where they are given.
//     A lease ends when it is returned, or by itself when its holder has crashed.
//     It must live longer than any check.
//
// A denied check gets a slot behind the line of the checks denied before it, and a
// promise to be heard then. While there is a line, a check that was not denied before is
// denied. The distance between slots is
//
//	max(T + max(0, J-τ), p·H/N)
//
// where J is how late checks come back after the promised time, H is how long leases last
// on average, and p, at least 1, is for the time that goes unused between two leases.
// With a rate alone every check is denied once and then starts, in order, if none comes
// back later than J: TAT <= s+τ at a slot s, and so TAT <= s+max(J,τ)+T behind it, which
// is at most τ more than the next slot. With leases H is an average: a check that comes
// back while others take longer, or just before one ends, is denied again. Each such
// denial raises p by 1/32, and each check that finds a free lease removes an eighth of
// p's excess over 1: at p = 1.25 they balance if every other check comes back in vain.
// That keeps leases in use for about four fifths of the time that checks can use them at
// all, at two denials for each check.
//
// A check that comes back in time and is denied again gets a slot at the front, in a
// second line with the same distances that only such checks are in. So later checks do
// not overtake it, and how often it comes back until it finds a free slot does not depend
// on the length of the line. A check that is late by more than 2 s and two slots, as
// after an outage, is heard too, but has lost its place: all those slots have passed at
// once. If the bounds do not let it start, it goes to the end of the line, behind the
// others. A check that comes early, because it was nudged, retains its slot.
//
// An account that stays connected for longer than a check ([Limits.Connect]) takes a lease too, under
// its own name and until it is silent for a while. Such leases do not count for H, and N is then what
// they leave. They leave an eighth of N, so that checks have their turn.
//
// If Redis loses writes in a failover, a limit may be exceeded once by the checks granted
// in the lost time. If Redis' clock has gone back by more than a second since a limit was
// last asked, the limit moves its lines and leases back by as much.
package limit

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

// Limit is one limit. At least one of Every and Concurrency is set.
type Limit struct {
	Name        string        // any text; limits of one name are one limit
	Every       time.Duration // the emission interval T, at least 1 µs; 0: no rate
	Burst       int           // B, how many may start at once; at least 1 if there is a rate
	Concurrency int           // N, how many may run at once; 0: any number
	Lease       time.Duration // with a Concurrency: when a silent holder counts as crashed
}

// promiseJitter is J: a busy replica claims a shard at least each 100 ms.
const promiseJitter = 125 * time.Millisecond

// A limit's times in µs must fit into numbers of 53 bits.
const (
	maxTolerance = 365 * 24 * time.Hour // B·T
	maxRunning   = 1_000_000
)

// Validate returns everything that is wrong with a limit, each fault with its field.
func (l Limit) Validate() error {
	var errs []error
	fault := func(broken bool, format string, args ...any) {
		if broken {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	fault(l.Name == "", "name: must not be empty")
	fault(l.Every == 0 && l.Concurrency == 0, "a rate or a concurrency must be set")
	fault(l.Every < 0 || l.Every > 0 && l.Every < time.Microsecond, "every: must be 0 or at least 1µs, is %v", l.Every)
	fault(l.Every > 0 && l.Burst < 1, "burst: must be at least 1, is %d", l.Burst)
	fault(l.Every > 0 && l.Burst > 0 && float64(l.Burst)*float64(l.Every) > float64(maxTolerance),
		"burst: a whole burst must take no more than %v, takes %d times %v", maxTolerance, l.Burst, l.Every)
	fault(l.Concurrency < 0 || l.Concurrency > maxRunning, "concurrency: must be 0 to %d, is %d", maxRunning, l.Concurrency)
	fault(l.Concurrency > 0 && (l.Lease < time.Millisecond || l.Lease > maxTolerance), "lease: must be 1ms to %v, is %v", maxTolerance, l.Lease)
	return errors.Join(errs...)
}

func (l Limit) check(step string) error {
	if err := l.Validate(); err != nil {
		return fmt.Errorf("%w: %s: limit %q: %w", wire.ErrInput, step, l.Name, err)
	}
	return nil
}

// keysOf returns the keys of a limit's state and of its leases. Each limit has its own
// hash tag, so that limits are spread over a cluster like shards.
func keysOf(namespace, name string) (state, leases string) {
	state = namespace + ":limits:{" + textOf(name) + "}"
	return state, state + ":leases"
}

// textOf returns a limit's name as in its keys. A name that is long, or would break the
// hash tag, is replaced by its digest; no other name begins with #.
func textOf(name string) string {
	if plainPattern.MatchString(name) {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	return "#" + hex.EncodeToString(sum[:])
}

var plainPattern = regexp.MustCompile(`^[A-Za-z0-9_./:@*-]{1,100}$`)

var acquireScript = wire.NewScript("acquire", lua("acquire"))

// Limits are the limits of a namespace.
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
	Promised time.Time // the promise when the account was last denied; zero: it was not denied
}

// Answers are the answers of one limit.
type Answers struct {
	// Err says that no check may start. If it is Unknown, the checks may have been
	// counted all the same; a counted lease ends by itself.
	Err error
	// Now is when the limit was asked, by Redis' clock.
	Now time.Time
	// At is zero for a check that may start. Otherwise it is when the check may start: a
	// promise that the account must present then.
	At []time.Time
}

// Acquire asks several limits in one round trip, each for itself. An error says that no
// limit was asked; a failure of one limit is in its Answers.
//
// Asking again after an unknown outcome is safe for the limit but costs the caller:
// checks that were counted stay counted.
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
	for i := range calls {
		calls[i].Keys = append(calls[i].Keys, connectedOf(calls[i].Keys[0]))
	}
	for i, reply := range l.run(ctx, acquireScript, calls, "hash", "zset", "zset") {
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

// run does a step on several limits at once. It sets aside a key that is not of its type, so
// that the key blocks nobody for ever, and repeats the step.
func (l Limits) run(ctx context.Context, s *wire.Script, calls []wire.Call, types ...any) []wire.Reply {
	replies := l.wire.EvalEach(ctx, s, calls)
	for i := range replies {
		reply, keys := &replies[i], calls[i].Keys
		if !wire.HasCode(reply.Err, "WRONGTYPE") {
			continue
		}
		if moved, err := l.wire.SetAside(ctx, keys, types); err == nil && moved > 0 {
			reply.Value, reply.Err = l.wire.Eval(ctx, s, keys, calls[i].Args)
		}
	}
	return replies
}

var finishScript = wire.NewScript("finish", lua("finish"))

// Finished are checks that one limit let start and that have ended.
type Finished struct {
	Limit    Limit
	CheckIDs []string
}

// Refund is checks that one limit let start but that did not start.
type Refund struct {
	Limit    Limit
	Granted  time.Time // Answers.Now of that time
	CheckIDs []string
}

// Finish reports to limits that checks have ended. It is safe to repeat. A limit without
// a Concurrency does not need it. The error joins the failures of all limits.
func (l Limits) Finish(ctx context.Context, all []Finished) error {
	refunds := make([]Refund, len(all))
	for i, f := range all {
		refunds[i] = Refund{Limit: f.Limit, CheckIDs: f.CheckIDs}
	}
	return l.finish(ctx, "finish", refunds)
}

// Refund gives back to limits what they granted for checks that did not start, for
// example because another limit denied them. Do not repeat it after an unknown outcome,
// and do not refund a grant of unknown outcome: a limit without a Concurrency does not
// know what has been refunded already.
func (l Limits) Refund(ctx context.Context, all []Refund) error {
	for _, f := range all {
		if f.Granted.UnixMicro() <= 0 {
			return fmt.Errorf("%w: refund: limit %q: granted: must be set", wire.ErrInput, f.Limit.Name)
		}
	}
	return l.finish(ctx, "refund", all)
}

// finish ends checks under limits. Where Granted is set, it gives back what the limit granted then.
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
		granted := int64(0)
		if !f.Granted.IsZero() {
			granted = f.Granted.UnixMicro()
		}
		args := append(make([]any, 0, 4+len(f.CheckIDs)), f.Limit.Lease.Milliseconds(), f.Limit.Every.Microseconds(), wire.Flag(f.Limit.Concurrency > 0), granted)
		for _, id := range f.CheckIDs {
			args = append(args, id)
		}
		calls[i] = l.call(f.Limit, args)
	}
	if err := wire.CheckBatch(step, ended); err != nil {
		return err
	}
	var errs []error
	for i, reply := range l.run(ctx, finishScript, calls, "hash", "zset") {
		if reply.Err != nil {
			errs = append(errs, fmt.Errorf("%s, limit %q: %w", step, all[i].Limit.Name, reply.Err))
		}
	}
	return errors.Join(errs...)
}
