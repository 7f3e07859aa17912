package accounts

import (
	"cmp"
	"slices"
)

// The bounds of a capacity.
const (
	BoundMemory = "memory" // of Redis, up to the mark from which no messages are taken
	BoundPlaces = "places" // of pollers, for checks at once
	BoundHeld   = "held"   // of pollers, for held checks
	BoundBudget = "budget" // of adaptive accounts
)

const (
	// placesInUse is the part of the pollers' places from which on checks are late now and then,
	// because checks do not come evenly.
	placesInUse = 0.8
	// mostRoom is the most that is said. More would be no forecast.
	mostRoom = 10
)

// Load is what the accounts use now, and what there is. A bound whose limit is zero is not known, or
// there is none.
type Load struct {
	Memory, MemoryLimit float64 // bytes, of all servers of Redis together
	MemoryMark          int     // per cent of the limit

	InFlight, Places float64 // checks at once, lately and at most
	Held, HeldPlaces float64 // held checks, likewise
	Late             bool    // accounts are late, so that pollers have no more to give

	Spent, Budget float64 // checks a second of adaptive accounts, if these cannot give way to more accounts
}

// Capacity says how many more accounts fit, as a share of the present ones: 0.3 is 30 % more. They
// must be like those: as large, with as many messages, checked as often, by checks that take as long. It
// covers Redis' memory, the pollers' places and the budget of adaptive accounts. It knows nothing of
// processors, of networks, of disks, and of what third parties allow.
type Capacity struct {
	Room   float64 `json:"room" doc:"The least of the bounds. 10: ten times as many as there are, or more."`
	Bound  string  `json:"bound" enum:"memory,places,held,budget" doc:"The bound that is reached first."`
	Bounds []Bound `json:"bounds" nullable:"false" doc:"The tightest first. What has no limit, or is not known, is left out."`
}

// Bound is how many more accounts one thing allows.
type Bound struct {
	Bound string  `json:"bound" enum:"memory,places,held,budget" doc:"memory: of Redis, up to ROUNDS_MEMORY_MARK. places: of pollers (ROUNDS_CONCURRENCY), up to 80 per cent, none while accounts are late. held: likewise ROUNDS_HELD_CHECKS. budget: ROUNDS_ADAPTIVE_BUDGET, unless adaptive accounts give way by longer intervals."`
	Used  float64 `json:"used" doc:"Bytes, checks at once, or checks a second."`
	Most  float64 `json:"most" doc:"Of the same."`
	Room  float64 `json:"room"`
}

// CapacityOf judges a load. It returns nil if no bound is known, or nothing is used.
func CapacityOf(l Load) *Capacity {
	var c Capacity
	add := func(bound string, used, most float64) {
		if most > 0 && used > 0 {
			c.Bounds = append(c.Bounds, Bound{Bound: bound, Used: used, Most: most, Room: min(mostRoom, max(0, most/used-1))})
		}
	}
	add(BoundMemory, l.Memory, l.MemoryLimit*float64(l.MemoryMark)/100)
	add(BoundPlaces, l.InFlight, l.Places*placesInUse)
	add(BoundHeld, l.Held, l.HeldPlaces)
	add(BoundBudget, l.Spent, l.Budget)
	if len(c.Bounds) == 0 {
		return nil
	}
	for i := range c.Bounds {
		if c.Bounds[i].Bound == BoundPlaces && l.Late {
			c.Bounds[i].Room = 0
		}
	}
	slices.SortStableFunc(c.Bounds, func(a, b Bound) int { return cmp.Compare(a.Room, b.Room) })
	c.Room, c.Bound = c.Bounds[0].Room, c.Bounds[0].Bound
	return &c
}
