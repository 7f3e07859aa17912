package accounts

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/rounds-dev/rounds/accounts/cadence"
	"github.com/rounds-dev/rounds/circulate"
)

const (
	// SlowFrom is how stale an account must be for its slots to be counted: below that
	// none counts as missed.
	SlowFrom = 3 * time.Minute
	// BehindSlots is from how many missed slots on an account is behind.
	BehindSlots = 3

	newlyWithin    = time.Hour
	shortestSlot   = time.Minute // an interval below counts as this
	mostMissed     = 1000        // that are counted
	mostTimed      = 100         // likewise, of a cadence that names times by the clock
	kindsApart     = 100
	otherKinds     = "other"
	cadencesCached = 1000
)

// SoundMarks are the marks of checks that did not fail, besides circulate.MarkOK.
func SoundMarks() []circulate.Mark {
	var sound []circulate.Mark
	for mark, word := range marks() {
		if word == MarkMore {
			sound = append(sound, mark)
		}
	}
	return sound
}

// Failing is how many accounts are checked in vain, as the last scan found it. Parked
// ones are left out.
type Failing struct {
	Accounts       int `json:"accounts" doc:"Accounts whose last check failed, whoever is to blame."`
	Newly          int `json:"newly" doc:"Of these, those whose first slot since a check last succeeded completely, or since they were registered, was within the last hour."`
	NeverSucceeded int `json:"never_succeeded" doc:"Accounts that were checked, and no check ever succeeded completely."`

	Behind int `json:"behind" doc:"Accounts for which three slots of their cadence or more have passed since a check last succeeded completely, and three minutes. An interval below a minute counts as a minute; a cadence of one time has no such slots."`

	MissedP99  int    `json:"missed_slots_p99" doc:"99 of 100 accounts have missed at most so many slots; a thousand stands for all above."`
	MissedMax  int    `json:"missed_slots_max" doc:"All have."`
	MostMissed string `json:"most_missed" doc:"The id of one that has missed as many; empty if none has missed any."`

	Kinds []FailingKind `json:"kinds" nullable:"false" doc:"The same by kind; kinds without any such account are left out."`
}

// FailingKind is how many accounts of a kind are checked in vain.
type FailingKind struct {
	Kind           string `json:"kind" doc:"Empty where the records cannot be read; other stands for those beyond a hundred."`
	Accounts       int    `json:"accounts"`
	Newly          int    `json:"newly"`
	NeverSucceeded int    `json:"never_succeeded"`
	Behind         int    `json:"behind"`
}

// FailingCount counts what a scan tells, page by page, in bounded memory.
type FailingCount struct {
	kinds    map[string]*FailingKind
	missed   [mostMissed + 1]int // accounts by missed slots; those without any are not counted
	most     int
	stalest  string
	cadences map[string]cadence.Cadence
}

// NewFailingCount begins a count.
func NewFailingCount() *FailingCount {
	return &FailingCount{kinds: make(map[string]*FailingKind), cadences: make(map[string]cadence.Cadence)}
}

// Add counts what a page tells. Now is Redis' clock.
func (f *FailingCount) Add(now time.Time, groups []circulate.SlowGroup) {
	for _, g := range groups {
		kind := f.kind(g.Kind)
		for _, c := range g.Counts {
			missed, since := f.slots(g, now, c.Age)
			if c.Age < SlowFrom {
				missed = 0
			}
			if c.Failing {
				kind.Accounts += c.Accounts
				if since <= newlyWithin {
					kind.Newly += c.Accounts
				}
			}
			if c.NeverSucceeded {
				kind.NeverSucceeded += c.Accounts
			}
			if missed >= BehindSlots {
				kind.Behind += c.Accounts
			}
			if missed > 0 {
				f.missed[missed] += c.Accounts
			}
			if missed > f.most {
				f.most, f.stalest = missed, g.Stalest
			}
		}
	}
}

func (f *FailingCount) kind(name string) *FailingKind {
	if f.kinds[name] == nil && len(f.kinds) >= kindsApart {
		name = otherKinds
	}
	if f.kinds[name] == nil {
		f.kinds[name] = &FailingKind{Kind: name}
	}
	return f.kinds[name]
}

// slots returns how many slots have passed since a check last succeeded, and how long
// ago the first of them was. A cadence that cannot be read has none.
func (f *FailingCount) slots(g circulate.SlowGroup, now time.Time, age time.Duration) (passed int, since time.Duration) {
	rhythm, ok := f.cadences[g.Cadence]
	if !ok {
		var err error
		if rhythm, err = cadence.Parse(g.Cadence); err != nil {
			return 0, age
		}
		if len(f.cadences) >= cadencesCached {
			clear(f.cadences)
		}
		f.cadences[g.Cadence] = rhythm
	}
	if !rhythm.Timed() {
		interval := max(rhythm.Longest(), shortestSlot)
		return int(min(age/interval, mostMissed)), age - interval
	}
	since = 0
	for from := now.Add(-age); passed < mostTimed; passed++ {
		slot, ok := rhythm.After(g.Stalest, from, cadence.State{})
		if !ok || slot.After(now) {
			break
		}
		if passed == 0 {
			since = now.Sub(slot)
		}
		from = slot
	}
	return passed, since
}

// Found returns the sums, for a scan of so many accounts.
func (f *FailingCount) Found(scanned int) Failing {
	all := Failing{MissedMax: f.most, MostMissed: f.stalest, Kinds: []FailingKind{}}
	for _, name := range slices.Sorted(maps.Keys(f.kinds)) {
		k := *f.kinds[name]
		all.Accounts += k.Accounts
		all.Newly += k.Newly
		all.NeverSucceeded += k.NeverSucceeded
		all.Behind += k.Behind
		if cmp.Or(k.Accounts, k.NeverSucceeded, k.Behind) > 0 {
			all.Kinds = append(all.Kinds, k)
		}
	}
	all.MissedP99 = f.quantile(scanned, 0.99)
	return all
}

// quantile is the number of slots that a share of the accounts has missed at most.
func (f *FailingCount) quantile(scanned int, share float64) int {
	above := int(float64(scanned) * (1 - share)) // that may have missed more
	for missed := f.most; missed > 0; missed-- {
		if above -= f.missed[missed]; above < 0 {
			return missed
		}
	}
	return 0
}
