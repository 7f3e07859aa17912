package limit

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

const (
	ledgerMost   = 2000             // limits that a ledger knows at once
	ledgerTurn   = 30 * time.Second // length of a turn of counting; a report covers this turn and the one before
	ledgerMemory = 5 * time.Minute  // how long an asked limit is remembered, unless a check waits longer
	reportMost   = 64               // limits in a report
)

// Ledger counts one process's requests to limits, for operators. It is bounded: if there
// are too many limits, it counts the ones that it knew first. It is safe for concurrent
// use.
type Ledger struct {
	mu    sync.Mutex
	turn  time.Time // when the current turn began
	known map[string]*counted
}

// counted is a ledger's count for one limit.
type counted struct {
	limit         Limit
	asked, denied [2]int    // in this turn, and in the one before
	until         time.Time // the last promise
	at            time.Time // when it was last asked
}

// NewLedger returns an empty ledger.
func NewLedger() *Ledger { return &Ledger{known: make(map[string]*counted)} }

// Note counts the answers of a limit. They must come without an error.
func (l *Ledger) Note(of Limit, a Answers) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.advance(a.Now)
	c := l.known[of.Name]
	if c == nil {
		if len(l.known) >= ledgerMost {
			return
		}
		c = &counted{}
		l.known[of.Name] = c
	}
	c.limit, c.at = of, a.Now
	c.asked[0] += len(a.At)
	for _, at := range a.At {
		if at.IsZero() {
			continue
		}
		c.denied[0]++
		if at.After(c.until) {
			c.until = at
		}
	}
}

// advance begins a new turn if it is time, and forgets limits that are no longer asked.
func (l *Ledger) advance(now time.Time) {
	since := now.Sub(l.turn)
	if since.Abs() < ledgerTurn { // the clocks of nodes differ a little
		return
	}
	l.turn = now
	for name, c := range l.known {
		c.asked, c.denied = [2]int{0, c.asked[0]}, [2]int{0, c.denied[0]}
		if since >= 2*ledgerTurn || since < 0 {
			c.asked[1], c.denied[1] = 0, 0
		}
		if now.Sub(c.at) >= ledgerMemory && now.After(c.until) {
			delete(l.known, name)
		}
	}
}

// Seen is what processes have seen of a limit lately: in the last thirty seconds to a minute.
type Seen struct {
	Name        string        `json:"name"`          // cut if it is very long
	Key         string        `json:"key,omitempty"` // in place of Name, if the limit's keys have another text
	Every       time.Duration `json:"every,omitempty"`
	Burst       int           `json:"burst,omitempty"`
	Concurrency int           `json:"concurrency,omitempty"`
	Asked       int           `json:"asked,omitempty"`
	Denied      int           `json:"denied,omitempty"`
	Until       time.Time     `json:"until,omitzero"` // the last promise
}

// Seen returns the ledger's counts at a time by Redis' clock, for a bounded number of
// limits: first the limits that denied most, then the limits with the longest line.
func (l *Ledger) Seen(now time.Time) []Seen {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.advance(now)
	all := make([]Seen, 0, len(l.known))
	for name, c := range l.known {
		s := Seen{
			Name: name, Every: c.limit.Every, Burst: c.limit.Burst, Concurrency: c.limit.Concurrency,
			Asked: c.asked[0] + c.asked[1], Denied: c.denied[0] + c.denied[1],
		}
		if c.until.After(now) {
			s.Until = c.until
		}
		if text := textOf(name); text != name {
			s.Name, s.Key = cut(name), text
		}
		all = append(all, s)
	}
	slices.SortFunc(all, bySeen)
	return all[:min(len(all), reportMost)]
}

// bySeen puts the limits that denied most first.
func bySeen(a, b Seen) int {
	return cmp.Or(cmp.Compare(b.Denied, a.Denied), b.Until.Compare(a.Until), cmp.Compare(b.Asked, a.Asked), cmp.Compare(a.Name, b.Name))
}
