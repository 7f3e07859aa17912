package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

const (
	cutTolerance   = 250 * time.Millisecond // the most by which the third party notices too late that a caller has gone
	stragglerTime  = longTimeout + 2*time.Second
	lastCheckAfter = longTimeout + 6*time.Second // the last moment at which a frozen poller may begin a check that it had claimed
)

// excuse is why checks may overlap: a poller may have been cut from its claims.
type excuse struct {
	fault    string
	from, to time.Time
	end      time.Time // of the fault: if all pollers are concerned, the earlier check must have begun before it
	of       []string  // the processes that are excused; nil: all
	used     int
}

// excuse returns that of a turn. A poller that was cut off finds out at the end, and by
// then it may have begun what it had claimed.
func (t *turn) excuse() *excuse {
	return &excuse{fault: t.fault.name, from: t.injected, to: t.healed.Add(stragglerTime), end: t.healed.Add(time.Second), of: t.concerned}
}

// covers reports whether the excuse covers two checks that overlapped. If nobody knows
// who made one of them, the other must be a straggler's.
func (e *excuse) covers(earlier, later check) bool {
	if later.began.Before(e.from) || later.began.After(e.to) {
		return false
	}
	if e.of == nil {
		return earlier.began.Before(e.end)
	}
	return slices.ContainsFunc([]check{earlier, later}, func(c check) bool {
		return c.caller.name() == "" || slices.Contains(e.of, c.caller.name())
	})
}

// overlapping finds checks of one account that ran at the same time and are not excused.
func overlapping(history []check, allowed []*excuse) (faults []violation, lawful int) {
	slices.SortFunc(history, func(a, b check) int {
		return cmp.Or(strings.Compare(a.account, b.account), a.began.Compare(b.began))
	})
	var before check
	for _, c := range history {
		end := before.ended
		if before.cut {
			end = end.Add(-cutTolerance)
		}
		if c.account == before.account && c.began.Before(end) {
			if i := slices.IndexFunc(allowed, func(e *excuse) bool { return e.covers(before, c) }); i >= 0 {
				allowed[i].used++
				lawful++
			} else {
				faults = append(faults, violation{c.began, fmt.Sprintf("I3: two checks of %s overlapped by %v, by %q and %q, neither of them a straggler",
					c.account, before.ended.Sub(c.began).Round(time.Millisecond), before.caller.name(), c.caller.name())})
			}
		}
		if c.account != before.account || c.ended.After(before.ended) {
			before = c
		}
	}
	return faults, lawful
}
