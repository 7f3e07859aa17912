package main

import (
	"slices"
	"strings"
	"time"
)

// row is a fault and all its turns. Each figure is the greatest of any turn; figures in
// seconds are rounded to a tenth.
type row struct {
	Fault     string   `json:"fault"`
	World     topology `json:"world"`
	Injected  int      `json:"injected"`
	Invariant string   `json:"invariant"`
	Verdict   string   `json:"verdict"`
	Faults    []string `json:"violations,omitempty"`
	Sign      string   `json:"sign,omitempty"`
	Seen      int      `json:"seen"`

	Lasted         float64 `json:"lasted_seconds"`
	Hit            int     `json:"accounts_hit"`
	Interrupted    int     `json:"accounts_interrupted"`
	Longest        float64 `json:"longest_wait_seconds"`
	AfterInjection float64 `json:"back_after_injection_seconds"`
	AfterEnd       float64 `json:"back_after_end_seconds"`

	// Redis itself may lose what it acknowledged shortly before or during it.
	MayLose bool `json:"redis_may_lose_acknowledged_writes,omitempty"`
	// A live poller may be cut from its claims.
	MayOverlap bool `json:"checks_may_overlap,omitempty"`
	Overlaps   int  `json:"checks_that_overlapped,omitempty"`
}

// add adds a turn.
func (r *row) add(t *turn) {
	if t.done {
		r.Injected++
	}
	if t.seen {
		r.Seen++
	}
	r.MayLose = r.MayLose || !t.rollback.IsZero()
	r.Hit = max(r.Hit, t.was.hit)
	r.Interrupted = max(r.Interrupted, t.was.interrupted)
	for _, figure := range []struct {
		most *float64
		of   time.Duration
	}{
		{&r.Lasted, t.healed.Sub(t.injected)}, {&r.Longest, t.was.longest},
		{&r.AfterInjection, t.was.afterInjection}, {&r.AfterEnd, t.was.afterEnd},
	} {
		*figure.most = max(*figure.most, float64(figure.of.Round(100*time.Millisecond))/float64(time.Second))
	}
	r.Faults = append(r.Faults, t.faults...)
}

// report is the result of a run.
type report struct {
	Seed       uint64          `json:"seed"`
	Commit     string          `json:"commit"`
	Modified   bool            `json:"modified,omitempty"` // files of the commit were changed
	Began      time.Time       `json:"began"`
	Length     float64         `json:"seconds"`
	Machine    machine         `json:"machine"`
	Rows       []*row          `json:"faults"`
	Controls   []*row          `json:"controls"`
	Injected   int             `json:"injected"`
	Accounts   int             `json:"accounts"`
	Checks     int             `json:"checks"`
	Messages   int             `json:"messages"`
	Overlaps   int             `json:"overlaps_by_stragglers"`
	Operations map[outcome]int `json:"operations"`
	Undone     int             `json:"operations_redis_may_have_lost"`
	Sends      *tally          `json:"sends,omitempty"`
	Violations []string        `json:"violations,omitempty"`
}

// add adds what happened in another world to the report.
func (r *report) add(other *report) {
	r.Length += other.Length
	r.Rows = append(r.Rows, other.Rows...)
	r.Controls = append(r.Controls, other.Controls...)
	r.Injected += other.Injected
	r.Accounts += other.Accounts
	r.Checks += other.Checks
	r.Messages += other.Messages
	r.Overlaps += other.Overlaps
	r.Undone += other.Undone
	if other.Sends != nil {
		if r.Sends == nil {
			r.Sends = &tally{}
		}
		r.Sends.add(other.Sends)
	}
	if r.Operations == nil {
		r.Operations = make(map[outcome]int)
	}
	for o, n := range other.Operations {
		r.Operations[o] += n
	}
	r.Violations = append(r.Violations, other.Violations...)
}

// summarize puts the turns of each fault together, and assigns violations that the whole
// history showed to the fault in whose time they fell. A sign that moved in a control
// does not count.
func summarize(turns []*turn, v verdict, excuses []*excuse) *report {
	r := &report{Checks: v.checks, Messages: v.messages, Overlaps: v.overlaps, Operations: v.operations, Undone: v.undone, Sends: v.sends}
	byName := make(map[string]*row)
	var moved []string
	for _, t := range turns {
		line := byName[t.fault.name]
		if line == nil {
			line = &row{Fault: t.fault.name, Invariant: t.fault.invariant, Sign: t.fault.sign.name, Verdict: "held",
				World: t.fault.on, MayOverlap: t.fault.straggler}
			byName[t.fault.name] = line
			if t.fault.control {
				r.Controls = append(r.Controls, line)
			} else {
				r.Rows = append(r.Rows, line)
			}
		}
		line.add(t)
		moved = append(moved, t.moved...)
		if t.done && !t.fault.control {
			r.Injected++
		}
	}
	for _, line := range r.Rows {
		if slices.Contains(moved, line.Sign) {
			line.Seen = 0
			line.Faults = append(line.Faults, "I7: "+line.Sign+" moved in a control as well: it is no sign of the fault")
		}
	}
	for _, e := range excuses {
		byName[e.fault].Overlaps += e.used
	}
	for _, found := range v.violations {
		blamed := ""
		for _, t := range turns {
			if !found.at.IsZero() && !found.at.Before(t.injected) {
				blamed = t.fault.name
			}
		}
		if line := byName[blamed]; line != nil {
			line.Faults = append(line.Faults, found.what)
		} else {
			r.Violations = append(r.Violations, found.what)
		}
	}
	for _, line := range slices.Concat(r.Rows, r.Controls) {
		if len(line.Faults) > 0 {
			line.Verdict = "VIOLATED"
		}
	}
	slices.SortStableFunc(r.Rows, func(a, b *row) int { return strings.Compare(a.Fault, b.Fault) })
	return r
}

// failed counts the violations.
func (r *report) failed() int {
	n := len(r.Violations)
	for _, line := range slices.Concat(r.Rows, r.Controls) {
		n += len(line.Faults)
	}
	return n
}

// control returns a world's row of controls, or an empty one if there is none.
func (r *report) control(on topology) *row {
	for _, line := range r.Controls {
		if line.World == on {
			return line
		}
	}
	return &row{}
}
