package accounts

import (
	"cmp"
	"context"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/rounds-dev/rounds/circulate"
)

// CatchUp says when all accounts are in time again, as the monitor on duty estimated it after
// accounts had been late.
type CatchUp struct {
	At      time.Time `json:"at" doc:"When it was estimated, by Redis' clock."`
	Seconds float64   `json:"seconds,omitempty" doc:"After so many seconds all accounts are checked in time again, if nothing changes. Left out if they never are."`
	Never   bool      `json:"never,omitempty" doc:"The replicas make fewer checks than the accounts' cadences ask for: with this capacity accounts stay late."`
	Late    float64   `json:"late_accounts" doc:"About how many accounts are due and not claimed."`
	Asked   float64   `json:"asked_per_second" doc:"How many checks a second the cadences of all accounts ask for."`
	Made    float64   `json:"made_per_second" doc:"How many checks a second the replicas made lately."`
}

// CatchUpShown is how long an estimate is shown. While accounts are late there is a newer one.
const CatchUpShown = 2 * time.Minute

// sampled is the most scheduled accounts of a shard that an estimate looks at.
const sampled = 500

// SampleBacklog returns a sample of the accounts of all shards.
func SampleBacklog(ctx context.Context, ring *circulate.Ring) ([]circulate.Paced, error) {
	var mu sync.Mutex
	var all []circulate.Paced
	err := circulate.EachShard(ctx, ring.Shards(), func(ctx context.Context, shard int) error {
		some, err := ring.Backlog(ctx, shard, sampled)
		mu.Lock()
		defer mu.Unlock()
		all = append(all, some...)
		return err
	})
	return all, err
}

// EstimateCatchUp says when a sample's accounts are in time again, if replicas go on making so
// many checks a second. It returns false if that is not known, because they make none.
//
// It goes by the order of claims: at each time there is a level, such that accounts are checked
// when their lateness is that many of their intervals. An account that has been checked comes
// again after its interval and the level of it. What replicas can do besides those lowers the
// level: it reaches accounts that were not checked yet, and those that come again come earlier.
// The level begins at the highest there is, and all are in time when it is nought.
func EstimateCatchUp(sample []circulate.Paced, perSecond float64) (CatchUp, bool) {
	if perSecond <= 0 || len(sample) == 0 {
		return CatchUp{}, false
	}
	found := CatchUp{Made: perSecond}
	var turns time.Duration // when the last account has its turn at its limit
	all := cellsOf(sample, func(p circulate.Paced) {
		turns = max(turns, -p.Late)
	})
	for _, c := range all {
		found.Asked += c.weight / c.interval
		if c.late > 0 {
			found.Late += c.weight
		}
	}
	if found.Asked >= perSecond {
		found.Never = true
		return found, true
	}
	found.Seconds = max(timeToLevel(all, perSecond), turns.Seconds())
	return found, true
}

// cell is accounts of about the same interval and lateness, in seconds.
type cell struct{ weight, interval, late float64 }

// cellsOf sums up accounts in cells, so that the cost of an estimate is bounded. Those that wait
// for their turn at a limit are passed to turn instead.
func cellsOf(sample []circulate.Paced, turn func(circulate.Paced)) []cell {
	const perDoubling, perInterval = 4, 20
	type place struct{ interval, late int }
	cells := make(map[place]*cell)
	for _, p := range sample {
		if p.Turn {
			turn(p)
			continue
		}
		interval, late := p.Interval.Seconds(), p.Late.Seconds()
		ratio := late / interval
		at := place{int(math.Floor(perDoubling * math.Log2(interval))), int(math.Floor(perInterval * ratio))}
		if ratio > 1 {
			at.late = perInterval + int(math.Floor(perInterval*math.Log2(ratio)))
		}
		c := cells[at]
		if c == nil {
			c = &cell{}
			cells[at] = c
		}
		// The sum of 1/interval stays what it is: that is what is asked for.
		c.weight, c.interval, c.late = c.weight+p.Weight, c.interval+p.Weight/interval, c.late+p.Weight*ratio
	}
	all := make([]cell, 0, len(cells))
	for _, c := range cells {
		interval := c.weight / c.interval
		all = append(all, cell{c.weight, interval, c.late / c.weight * interval})
	}
	return all
}

// timeToLevel returns after how many seconds no account is late any more. More checks are made
// than are asked for.
func timeToLevel(all []cell, perSecond float64) float64 {
	const forEver = 30 * 24 * 3600
	f := fleet{perSecond: perSecond, cells: slices.Clone(all)}
	backlog := 0.0
	for _, c := range all {
		f.level = max(f.level, c.late/c.interval)
		if c.late > 0 {
			backlog += c.weight
		}
	}
	step := max(0.2, backlog/perSecond/100)
	for f.at < forEver && !f.inTime() {
		f.pass(max(step, f.at/100))
	}
	return f.at
}

// fleet is how far accounts have come in an estimate.
type fleet struct {
	perSecond float64
	at        float64 // seconds since the beginning
	level     float64
	cells     []cell // with their lateness at the beginning, as if they had been due since
	checked   []cell // those that were checked in a step, as they are after it

	// Accounts that come several times in a step: 1/interval, how many they are, and the longest
	// interval.
	asked, often, longest float64
}

// inTime reports whether no account is late.
func (f *fleet) inTime() bool {
	most := circulate.Late.Seconds()
	for _, c := range f.cells {
		if c.late+f.at > most {
			return false
		}
	}
	return f.level*f.longest <= most
}

// pass lets dt seconds pass.
func (f *fleet) pass(dt float64) {
	f.at += dt
	defer func() { f.cells, f.checked = append(f.cells, f.checked...), f.checked[:0] }()
	made := f.perSecond * dt
	// An eighth of the checks is for the longest waiting, as late.lua has it.
	slices.SortFunc(f.cells, func(a, b cell) int { return cmp.Compare(a.late, b.late) })
	made -= f.take(made/8, dt, func(c cell) bool { return c.late+f.at > 0 })
	// The others are for those that are late by more of their intervals than the level, and
	// lower it.
	ratio := func(c cell) float64 { return (c.late + f.at) / c.interval }
	slices.SortFunc(f.cells, func(a, b cell) int { return cmp.Compare(ratio(a), ratio(b)) })
	spare := made - f.asked/(1+f.level)*dt
	if spare < 0 { // those that come often are too many: they come later
		f.level = (1+f.level)*math.Exp(-spare/f.often) - 1
		return
	}
	for spare > 0 && f.level > 0 {
		if taken := f.take(spare, dt, func(c cell) bool { return ratio(c) >= f.level }); taken > 0 {
			spare -= taken
			continue
		}
		next := 0.0
		if n := len(f.cells); n > 0 {
			next = max(0, ratio(f.cells[n-1]))
		}
		// Those that come often come earlier, by so much of their intervals.
		cost := f.often * math.Log((1+f.level)/(1+next))
		if cost > spare {
			f.level = (1+f.level)*math.Exp(-spare/f.often) - 1
			return
		}
		spare, f.level = spare-cost, next
	}
	f.take(spare, dt, func(c cell) bool { return c.late+f.at > 0 })
	if n := len(f.cells); n > 0 {
		f.level = max(f.level, ratio(f.cells[n-1]))
	}
}

// take has the last accounts of cells checked, so many at most, as long as they are such. It
// returns how many.
func (f *fleet) take(most, dt float64, such func(cell) bool) (taken float64) {
	for n := len(f.cells) - 1; n >= 0 && taken < most && such(f.cells[n]); n-- {
		c := &f.cells[n]
		part := min(c.weight, most-taken)
		taken += part
		if c.interval < 2*dt {
			f.asked, f.often, f.longest = f.asked+part/c.interval, f.often+part, max(f.longest, c.interval)
		} else {
			f.checked = append(f.checked, cell{part, c.interval, -c.interval - f.at})
		}
		if c.weight -= part; c.weight <= 0 {
			f.cells = f.cells[:n]
		}
	}
	return taken
}
