package main

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/testing/redistest"
)

// fault is one way to break the service.
type fault struct {
	name      string
	on        topology
	invariant string // what it is most likely to break
	sign      sign   // what operators see of it; a control has none
	straggler bool   // a live poller may be cut from its claims, so that its checks overlap others
	control   bool   // nothing is injected
	within    time.Duration

	// inject injects the fault, waits for as long as it lasts, and returns what ends it.
	// It names the accounts that it hits by one of the turn's hit methods; otherwise it
	// hits every account.
	inject func(t *turn) (heal func() error, err error)

	// mend, if there is one, comes after the recovery. It restores what the service can
	// do without, so that the next fault finds it whole.
	mend func(t *turn) error
}

// turn is one injection of a fault.
type turn struct {
	context.Context
	*world
	fault  *fault
	signs  []sign // all of the world's faults, for a control
	number int
	random *rand.Rand
	former *redistest.Server // the master that was replaced

	injected, healed time.Time
	done             bool     // it was injected
	seen             bool     // the sign moved
	moved            []string // in a control: the signs that moved
	faults           []string

	hit       map[string]bool // the accounts concerned; nil: all
	concerned []string        // the processes whose checks may overlap others'; nil: all
	was       recovery        // computed at the end

	rollback  time.Time // Redis may have lost what it acknowledged from then on; zero: nothing was lost
	lostUntil time.Time // the end of that time; zero: when the fault was healed
	torn      bool      // meanwhile two servers believed to be the master
}

// fail notes a violation that the turn itself found.
func (t *turn) fail(text string) { t.faults = append(t.faults, text) }

// last waits for as long as the fault should last.
func (t *turn) last(d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-t.Done():
		return t.Err()
	}
}

// between draws a duration between two others.
func (t *turn) between(least, most time.Duration) time.Duration {
	return least + time.Duration(t.random.Int64N(int64(most-least)+1))
}

// one draws a member of a role.
func (t *turn) one(role string) string {
	names := t.names(role)
	return names[t.random.IntN(len(names))]
}

// some draws accounts that are registered throughout, among those that are well: what one
// fault did must not show in another.
func (t *turn) some(n int) []string {
	ids := t.ailing.without(t.base)
	t.random.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	return ids[:min(n, len(ids))]
}

// connectors draws some accounts that have a connector. It waits until so many are well.
func (t *turn) connectors(n int) (ids []string) {
	t.untilWithin(wholeWithin, func() bool {
		t.ailing.review(t.third)
		ids = slices.DeleteFunc(t.some(len(t.base)), func(id string) bool { return !strings.HasPrefix(id, "http-") })
		return len(ids) >= n
	})
	t.injected = time.Now()
	return ids[:min(n, len(ids))]
}

// until waits for a condition, for ten seconds at most, and reports whether it came true.
func (t *turn) until(so func() bool) bool { return t.untilWithin(10*time.Second, so) }

func (t *turn) untilWithin(d time.Duration, so func() bool) bool {
	for began := time.Now(); time.Since(began) < d; {
		if so() {
			return true
		}
		if t.last(20*time.Millisecond) != nil {
			return false
		}
	}
	return false
}

// hits names the accounts that the fault concerns.
func (t *turn) hits(ids ...string) {
	if t.hit == nil {
		t.hit = make(map[string]bool)
	}
	for _, id := range ids {
		t.hit[id] = true
	}
}

// hitsPollers says that the fault concerns what some pollers hold, or have checked last,
// and that their checks may overlap others'.
func (t *turn) hitsPollers(names ...string) {
	t.hits()
	for _, name := range names {
		p := t.member(name).process
		t.concerned = append(t.concerned, p.id)
		t.hits(t.claimsOf(p.Replica())...)
		t.hits(t.third.checkedBy(p.id, time.Now().Add(-longestCadence-time.Second))...)
	}
}

// hitsShards says that the fault concerns the accounts of some shards.
func (t *turn) hitsShards(concerned func(shard int) bool) {
	t.hits()
	for _, id := range t.base {
		if concerned(shardOf(id)) {
			t.hits(id)
		}
	}
}

// hitsHosts says that the fault concerns the accounts of some of the third party's hosts.
func (t *turn) hitsHosts(hosts ...*host) {
	t.hits()
	for _, id := range t.base {
		if slices.Contains(hosts, t.usual[id].host) {
			t.hits(id)
		}
	}
}
