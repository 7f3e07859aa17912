package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// row is a fault and all its turns.
type row struct {
	Fault     string   `json:"fault"`
	Injected  int      `json:"injected"`
	Invariant string   `json:"invariant"`
	Sign      string   `json:"sign"`
	Seen      int      `json:"seen"`
	Verdict   string   `json:"verdict"`
	Recovery  []string `json:"recovery"`
	Faults    []string `json:"violations,omitempty"`
	World     topology `json:"world"`
	// Redis itself may lose what it acknowledged shortly before or during it.
	MayLose bool `json:"redis_may_lose_acknowledged_writes,omitempty"`
	// A live poller may be cut from its claims.
	MayOverlap bool `json:"checks_may_overlap,omitempty"`

	least, most time.Duration
}

// report is what a run came to.
type report struct {
	Seed       uint64          `json:"seed"`
	Length     string          `json:"length"`
	Rows       []*row          `json:"faults"`
	Injected   int             `json:"injected"`
	Accounts   int             `json:"accounts"`
	Checks     int             `json:"checks"`
	Messages   int             `json:"messages"`
	Overlaps   int             `json:"overlaps_by_stragglers"`
	Operations map[outcome]int `json:"operations"`
	Undone     int             `json:"operations_redis_may_have_lost"`
	Violations []string        `json:"violations,omitempty"`

	length time.Duration
}

// add joins what happened in another world to the report.
func (r *report) add(other *report) {
	r.length += other.length
	r.Length = r.length.Round(time.Second).String()
	r.Rows = append(r.Rows, other.Rows...)
	r.Injected += other.Injected
	r.Accounts += other.Accounts
	r.Checks += other.Checks
	r.Messages += other.Messages
	r.Overlaps += other.Overlaps
	r.Undone += other.Undone
	if r.Operations == nil {
		r.Operations = make(map[outcome]int)
	}
	for o, n := range other.Operations {
		r.Operations[o] += n
	}
	r.Violations = append(r.Violations, other.Violations...)
}

// summarize puts the turns of each fault together, and violations that the whole
// history showed with the fault in whose time they fell.
func summarize(turns []*turn, v verdict) *report {
	r := &report{Checks: v.checks, Messages: v.messages, Overlaps: v.overlaps, Operations: v.operations, Undone: v.undone}
	byName := make(map[string]*row)
	for _, t := range turns {
		line := byName[t.fault.name]
		if line == nil {
			line = &row{Fault: t.fault.name, Invariant: t.fault.invariant, Sign: t.fault.sign.name, Verdict: "held",
				World: t.fault.on, MayOverlap: t.fault.straggler, least: t.recovery}
			byName[t.fault.name] = line
			r.Rows = append(r.Rows, line)
		}
		if t.done {
			line.Injected++
			r.Injected++
		}
		if t.seen {
			line.Seen++
		}
		line.MayLose = line.MayLose || !t.rollback.IsZero()
		line.Recovery = append(line.Recovery, t.recovery.Round(10*time.Millisecond).String())
		line.least, line.most = min(line.least, t.recovery), max(line.most, t.recovery)
		line.Faults = append(line.Faults, t.faults...)
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
	for _, line := range r.Rows {
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
	for _, line := range r.Rows {
		n += len(line.Faults)
	}
	return n
}

// marks are what is judged less strictly.
func (r *row) marks() string {
	marks := ""
	if r.MayOverlap {
		marks += " ~"
	}
	if r.MayLose {
		marks += " *"
	}
	return marks
}

const shown = 12 // violations of one kind

// write prints the report, for machines or for people.
func (r *report) write(out io.Writer, asJSON bool) error {
	if asJSON {
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(r)
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "FAULT\tON\tINJECTED\tINVARIANT\tVERDICT\tRECOVERY\tSEEN\tSHOWS IN")
	for _, line := range r.Rows {
		recovery := fmt.Sprintf("%.1f s", line.most.Seconds())
		if line.Injected > 1 {
			recovery = fmt.Sprintf("%.1f to %.1f s", line.least.Seconds(), line.most.Seconds())
		}
		fmt.Fprintf(table, "%s\t%s\t%d\t%s\t%s\t%s\t%d\t%s\n", line.Fault, line.World, line.Injected,
			line.Invariant+line.marks(), line.Verdict, recovery, line.Seen, line.Sign)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	fmt.Fprint(out, `
SEEN counts the injections in which the metric or log line moved.
~ a live poller may be cut from its claims meanwhile: its checks may overlap others', and are counted.
* Redis itself may lose what it acknowledged shortly before or during it. Judged is that it comes to an
  earlier state of each shard, consistent: each account in one place, each message in the stream once, found
  again under the same account and message id where it was forgotten. Acknowledged operations of that time
  may be undone, and are counted.
`)
	for _, line := range r.Rows {
		list(out, line.Fault, line.Faults)
	}
	list(out, "at the end", r.Violations)
	fmt.Fprintf(out, "\nseed %d, %s: %d faults of %d kinds injected; %d accounts that stayed, %d checks, %d messages; operations: %d done, %d refused, %d unknown\n",
		r.Seed, r.Length, r.Injected, len(r.Rows), r.Accounts, r.Checks, r.Messages, r.Operations[done], r.Operations[refused], r.Operations[unknown])
	_, err := fmt.Fprintf(out, "%d checks overlapped another while a poller may have been cut from its claims; %d acknowledged operations fell into a time that Redis may lose; %d violations\n",
		r.Overlaps, r.Undone, r.failed())
	return err
}

func list(out io.Writer, title string, faults []string) {
	if len(faults) == 0 {
		return
	}
	fmt.Fprintf(out, "\n%s:\n", title)
	for _, text := range faults[:min(shown, len(faults))] {
		fmt.Fprintln(out, "  "+text)
	}
	if rest := more(len(faults) - shown); rest != "" {
		fmt.Fprintln(out, " "+rest)
	}
}

// more says that so many are not shown.
func more(n int) string {
	if n <= 0 {
		return ""
	}
	return fmt.Sprintf(" and %d more", n)
}
