package monitor

import (
	"context"
	"slices"
	"time"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/accounts/problem"
	"github.com/rounds-dev/rounds/circulate"
)

const (
	// problemsInterval is the time between the beginnings of two turns. A turn rests for
	// about problemsRest at most, so that the stored summary is not older than a minute.
	// With 20,000 failing accounts a turn takes a fifth of a second of Redis' time, by
	// its own measure.
	problemsInterval = 45 * time.Second
	problemsRest     = 10 * time.Second
	problemsPause    = 200 * time.Millisecond // after each step, at most
	problemsPage     = 200                    // accounts in a step: two milliseconds
	// mostFailing is the most failing accounts that a turn looks at, and mostParked the
	// most parked ones. The records of paused accounts are not read.
	mostFailing = 50_000
	mostParked  = 100_000
	parkedPage  = 500
)

// problemTurn is one turn of summing up the accounts that are checked in vain.
type problemTurn struct {
	*Monitor
	store     circulate.Failing
	gathering *problem.Gathering
	size      scanSize
	steps     int
	leftOut   int

	// counted are the accounts that this turn has counted in the shard, because one that is parked
	// meanwhile is found twice. While the number of shards changes they are those of all shards: one
	// that moves is found in its old shard and in its new one.
	counted map[string]bool
}

// shares returns how many accounts of each shard may be looked at. sizes has how many each shard
// has. If there are more than most in all, each shard gets a part in proportion to its size.
func shares(sizes []int, most int) []int {
	sum := 0
	for _, n := range sizes {
		sum += n
	}
	may := make([]int, len(sizes))
	for shard, n := range sizes {
		may[shard] = most
		if sum > most {
			may[shard] = max(1, n*most/sum)
		}
	}
	return may
}

// countedBefore reports whether an account was counted before in this turn, and notes that it is counted.
func (t *problemTurn) countedBefore(id string) bool {
	was := t.counted[id]
	t.counted[id] = true
	return was
}

// problems sums up the accounts that fail or are parked, and stores the summary for the
// API. It reads only accounts that have an error or are parked, so that its cost grows
// with their number.
func (m *Monitor) problems(ctx context.Context) error {
	t := problemTurn{Monitor: m, store: m.ring.Failing(), gathering: problem.NewGathering(m.config.ProbeInterval)}
	moving := m.ring.Sources() > 0
	t.counted = make(map[string]bool)
	erred, parked := make([]int, m.ring.Shards()), make([]int, m.ring.Shards())
	for shard := range erred {
		var err error
		if erred[shard], parked[shard], err = t.store.Sizes(ctx, shard); err != nil {
			return err
		}
	}
	erredShare, parkedShare := shares(erred, mostFailing), shares(parked, mostParked)
	for shard := range erred {
		if !moving {
			clear(t.counted)
		} else { // accounts have moved there since
			var err error
			if erred[shard], parked[shard], err = t.store.Sizes(ctx, shard); err != nil {
				return err
			}
		}
		if erred[shard] > 0 {
			if _, err := t.failing(ctx, shard, erred[shard], erredShare[shard]); err != nil {
				return err
			}
		}
		if parked[shard] > 0 {
			if err := t.parked(ctx, shard, parked[shard], parkedShare[shard]); err != nil {
				return err
			}
		}
		if ctx.Err() != nil || !m.duty.held() {
			return nil
		}
	}
	m.problemSteps = t.steps
	now, err := m.ring.Now(ctx, 0)
	if err != nil {
		return err
	}
	found := t.gathering.Summary(now, t.leftOut)
	found.Registered = int(m.registered.Load())
	quarantined := 0
	for i := range found.Groups {
		if found.Groups[i].Code == quarantineReason {
			quarantined += found.Groups[i].Parked
		}
	}
	m.watch.quarantined(quarantined)
	if registered := int(m.registered.Load()); registered > 0 { // 0: the accounts are not counted yet
		if err := m.recall(ctx); err != nil {
			return err
		}
		m.watch.failing(now, found.Newly, max(found.Newly, registered-found.Parked-found.AtRest))
	}
	return problem.Store(ctx, m.ring, found)
}

// failing adds the failing accounts of a shard, whose number is all. It stops once it has looked at
// as many as most, and returns how many it looked at.
func (t *problemTurn) failing(ctx context.Context, shard, all, most int) (looked int, err error) {
	for cursor := ""; cursor != circulate.ScanDone; {
		page, err := t.store.Scan(ctx, shard, cursor, min(min(problemsPage, t.size.page()), max(scanLeast, most-looked)), accounts.SoundMarks())
		if err != nil {
			return looked, err
		}
		t.size.read(page.Read)
		t.gathering.Failing(page.Now, slices.DeleteFunc(page.Accounts, func(a circulate.FailingAccount) bool { return t.countedBefore(a.ID) }))
		looked, cursor = looked+page.Looked, page.Next
		t.rest(ctx)
		if looked >= most && cursor != circulate.ScanDone {
			t.leftOut += max(0, all-looked)
			break
		}
		if ctx.Err() != nil {
			break
		}
	}
	return looked, nil
}

// parked adds the accounts of a shard that are parked for a failure. If there are more
// than most, it looks at the last parked ones.
func (t *problemTurn) parked(ctx context.Context, shard, all, most int) (err error) {
	var behind circulate.ParkedAccount
	if all > most {
		t.leftOut += all - most
		if behind, err = t.ring.LongestParked(ctx, shard, all-most-1); err != nil {
			return err
		}
	}
	for more := true; more && ctx.Err() == nil; {
		page, _, err := t.ring.ParkedPage(ctx, shard, behind, parkedPage)
		if err != nil {
			return err
		}
		more = len(page) == parkedPage
		var ill []circulate.ParkedAccount
		resting := 0
		for _, p := range page {
			behind = p
			switch {
			case t.countedBefore(p.ID):
			case accounts.AtRest(p.Reason):
				resting++
			default:
				ill = append(ill, p)
			}
		}
		t.gathering.AtRest(resting)
		if err := t.lookAt(ctx, shard, ill); err != nil {
			return err
		}
		t.rest(ctx)
	}
	return nil
}

// lookAt adds parked accounts.
func (t *problemTurn) lookAt(ctx context.Context, shard int, ill []circulate.ParkedAccount) error {
	for len(ill) > 0 && ctx.Err() == nil {
		some := ill[:min(len(ill), min(problemsPage, t.size.page()))]
		ill = ill[len(some):]
		ids, since := make([]string, len(some)), make(map[string]circulate.ParkedAccount, len(some))
		for i := range some {
			ids[i], since[some[i].ID] = some[i].ID, some[i]
		}
		page, err := t.store.Look(ctx, shard, ids)
		if err != nil {
			return err
		}
		t.size.read(page.Read)
		for i := range page.Accounts {
			t.gathering.Parked(&page.Accounts[i], since[page.Accounts[i].ID])
		}
	}
	return nil
}

// rest leaves Redis to others for a moment after a step. The turn before gives about the
// number of steps.
func (t *problemTurn) rest(ctx context.Context) {
	t.steps++
	rest(ctx, min(problemsPause, problemsRest/time.Duration(max(t.ring.Shards(), t.problemSteps, t.steps))))
}
