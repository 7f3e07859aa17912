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
	// SlowFrom is the staleness from which on missed slots count.
	SlowFrom = 3 * time.Minute
	// BehindSlots is the number of missed slots from which on an account is behind.
	BehindSlots = 3

	newlyWithin    = time.Hour
	shortestSlot   = time.Minute // a shorter interval counts as this
	mostMissed     = 1000        // the most missed slots that are counted
	mostTimed      = 100         // the same for a cadence that names times
	kindsApart     = 100
	otherKinds     = "other"
	cadencesCached = 1000
)

// SoundMarks returns the marks of checks that did not fail, or whose failure counts nowhere, besides
// circulate.MarkOK.
func SoundMarks() []circulate.Mark {
	var sound []circulate.Mark
	for mark, word := range marks() {
		if word == MarkMore || word == MarkMaintenance {
			sound = append(sound, mark)
		}
	}
	return sound
}

// ExcusedMarks returns the marks of checks whose failure counts nowhere.
func ExcusedMarks() []circulate.Mark {
	var excused []circulate.Mark
	for mark, word := range marks() {
		if word == MarkMaintenance {
			excused = append(excused, mark)
		}
	}
	return excused
}

// Failing counts the accounts that are checked in vain, as the last scan found them or, of some of
// the figures, what came after it. Parked accounts are left out.
type Failing struct {
	At time.Time `json:"at,omitzero" doc:"When accounts, newly, never_succeeded and left_out were found, those of kinds among them. The other figures are from the scan, whose time is in staleness."`

	Accounts       int `json:"accounts" doc:"Accounts whose last check failed, whatever the cause. Parked ones are left out of all these figures."`
	Newly          int `json:"newly" doc:"Those of them that began to fail within the last hour: their first slot since a check last succeeded completely, or since they were registered, is less than an hour ago."`
	NeverSucceeded int `json:"never_succeeded" doc:"Accounts that were checked, but never with complete success."`

	LeftOut int `json:"left_out,omitempty" doc:"About how many more failing or parked accounts were not looked at, because there are too many."`

	Behind int `json:"behind" doc:"Accounts that missed three slots of their cadence or more: that many slots, and at least three minutes, have passed since a check last succeeded completely. An interval below a minute counts as a minute. A cadence of one time has no such slots."`

	MissedP99  int    `json:"missed_slots_p99" doc:"99 of 100 accounts missed at most this many slots, as in behind. A thousand may also mean more."`
	MissedMax  int    `json:"missed_slots_max" doc:"The most slots that an account missed, as in behind: an account of every 20s that is six and a half minutes stale missed six."`
	MostMissed string `json:"most_missed" doc:"The id of the account that missed the most slots; empty if none missed any."`

	Kinds []FailingKind `json:"kinds" nullable:"false" doc:"The same by kind. Kinds without such accounts are left out."`
}

// FailingKind counts the accounts of a kind that are checked in vain.
type FailingKind struct {
	Kind           string `json:"kind" doc:"The kind; empty for records that cannot be read, other for the kinds beyond a hundred."`
	Accounts       int    `json:"accounts"`
	Newly          int    `json:"newly"`
	NeverSucceeded int    `json:"never_succeeded"`
	Behind         int    `json:"behind"`
}

// FailingCount sums up the pages of a scan in bounded memory.
type FailingCount struct {
	kinds    map[string]*FailingKind
	missed   [mostMissed + 1]int // accounts by missed slots; accounts that missed none are not counted
	most     int
	stalest  string
	cadences map[string]cadence.Cadence
}

// NewFailingCount returns an empty count.
func NewFailingCount() *FailingCount {
	return &FailingCount{kinds: make(map[string]*FailingKind), cadences: make(map[string]cadence.Cadence)}
}

// Add counts the accounts of a page. Now is Redis' clock.
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

// slots returns the number of slots since a check last succeeded, and the time since the
// first of them. An unreadable cadence has no slots.
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
	return slotsOf(rhythm, g.Stalest, now, age)
}

// slotsOf returns the number of slots of an account's cadence since a check last succeeded,
// and the time since the first of them.
func slotsOf(rhythm cadence.Cadence, id string, now time.Time, age time.Duration) (passed int, since time.Duration) {
	if !rhythm.Timed() {
		interval := max(rhythm.Longest(), shortestSlot)
		return int(min(age/interval, mostMissed)), age - interval
	}
	for from := now.Add(-age); passed < mostTimed; passed++ {
		slot, ok := rhythm.After(id, from, cadence.State{})
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

// Newly reports whether an account whose last check failed began to fail within the last
// hour, as Failing.Newly has it. Age is the time since a check last succeeded completely.
func (f *FailingCount) Newly(id, rhythm string, now time.Time, age time.Duration) bool {
	_, since := f.slots(circulate.SlowGroup{Cadence: rhythm, Stalest: id}, now, age)
	return since <= newlyWithin
}

// Found returns the result of a scan of that many accounts.
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

// quantile returns the number of slots that this share of the accounts missed at most.
func (f *FailingCount) quantile(scanned int, share float64) int {
	above := int(float64(scanned) * (1 - share)) // accounts that may have missed more
	for missed := f.most; missed > 0; missed-- {
		if above -= f.missed[missed]; above < 0 {
			return missed
		}
	}
	return 0
}
