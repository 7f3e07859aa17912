// Package limit holds the limits that all replicas of a namespace share: how many checks
// start, how many run at once, or both. A check that must wait is told a time at which it
// may come back, so that nothing waits in line with a place in a pool. The package knows
// no account, and does not wait itself: package poller asks before a check, and presents
// a promise.
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
// A denied check gets a slot behind the line of those denied before, and a promise to be
// heard then. While there is a line, a check that was not denied before is denied. Slots
// are apart by
//
//	max(T + max(0, J-τ), p·H/N)
//
// with J for how late checks come back that were promised a time, H for how long leases
// were held on average, and p, at least 1, for how much of that goes unused between two
// leases. With a rate alone every check is denied once and then starts, in order, if none
// comes back later than J: TAT <= s+τ at a slot s, and so TAT <= s+max(J,τ)+T behind it,
// which is at most τ more than the next slot. With leases H is an average: a check that
// comes back while others take longer, or just before one ends, is denied again. Each
// such denial raises p by 1/32, and each check that finds a free lease removes an eighth
// of what p has above 1: at p = 1.25 they balance if every other check comes back in
// vain. That keeps leases in use for about four fifths of the time that checks can use
// them at all, at two denials for each check.
//
// A check that comes back in time and is denied again gets a slot at the front, in a
// second line that only such checks are in, with the same distances. So later checks do
// not overtake it, and how often it comes back until it finds a free slot does not depend
// on the length of the line. A check that comes back late by more than 2 s and two slots,
// as after an outage, is heard too, but has lost its place: all those slots have passed
// at once. If the bounds do not let it start, it goes to the end of the line, one behind
// the other. A check that comes early, because it was nudged, keeps its slot.
//
// What Redis forgets in a failover is forgotten here: a limit may then be exceeded once
// by what was granted in the time lost. If Redis' clock went back by more than a second
// since it was last asked, a limit moves its lines and leases back by as much.
package limit

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

// Limit is one limit. At least one of Every and Concurrency is set.
type Limit struct {
	Name        string        // any text; limits of one name are one limit
	Every       time.Duration // the emission interval T, at least 1 µs; 0: no rate
	Burst       int           // B, how many may start at once; where there is a rate at least 1
	Concurrency int           // N, how many may run at once; 0: any number
	Lease       time.Duration // with a Concurrency: when a silent holder counts as crashed
}

// promiseJitter is J: a busy replica claims a shard at least each 100 ms.
const promiseJitter = 125 * time.Millisecond

// The numbers that hold a limit's times have 53 bits, in µs.
const (
	maxTolerance = 365 * 24 * time.Hour // B·T
	maxRunning   = 1_000_000
)

// Validate returns everything that is wrong with a limit, each fault by its field.
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

// textOf returns a limit's name as keys have it. A name that is long, or would break the
// hash tag, is replaced by its digest; no other name begins with #.
func textOf(name string) string {
	if plainPattern.MatchString(name) {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	return "#" + hex.EncodeToString(sum[:])
}

var plainPattern = regexp.MustCompile(`^[A-Za-z0-9_./:@*-]{1,100}$`)
