package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/testing/census"
	"github.com/rounds-dev/rounds/testing/upstream"
)

// violation is something that must not happen, and when it happened. The time is zero if
// nobody knows.
type violation struct {
	at   time.Time
	what string
}

// verdict is what the offline checker found in the whole history.
type verdict struct {
	violations []violation
	operations map[outcome]int
	messages   int
	checks     int
	overlaps   int // lawful ones
	sends      *tally
	undone     int // acknowledged operations that Redis lost, as it may
}

// span is a time in which something is allowed.
type span struct {
	from, to time.Time
	torn     bool // two servers may have answered in it, one of which was discarded
}

func (s span) has(at time.Time) bool { return !at.Before(s.from) && !at.After(s.to) }

// standing is what an account may be: absent, active or paused, or several of them if an
// outcome is unknown.
type standing uint8

const (
	absent standing = 1 << iota
	active
	paused
)

// after returns what an operation makes of an account if it is done.
func (s standing) after(kind string) standing {
	switch {
	case kind == register:
		return s&^absent | active
	case kind == deregister:
		return absent
	case kind == pause && s&(active|paused) != 0:
		return paused | s&absent
	case kind == resume && s&(active|paused) != 0:
		return active | s&absent
	}
	return s
}

// told returns what an account may be after an operation's outcome; 0 if the outcome is
// impossible.
func (s standing) told(op operation) standing {
	switch {
	case op.racing || op.outcome == unknown:
		return s | s.after(op.kind) | (s & absent)
	case op.outcome == refused:
		switch {
		case op.status == 404:
			return s & absent
		case op.status == 409 && op.kind == register:
			return s &^ absent
		case op.status == 409 && op.kind == nudge:
			return s & paused
		}
		return s
	case op.kind == register:
		return (s & absent) << 1 // absent becomes active
	case op.kind == deregister && s&^absent != 0:
		return absent
	case s&^absent != 0:
		return (s &^ absent).after(op.kind)
	}
	return 0
}

// fate is an account's history.
type fate struct {
	standing  standing
	changed   time.Time // when the last operation ended
	registers int       // tries
	confused  bool      // an operation among concurrent ones had no answer: it may still be done
	violation *violation
	undone    int
}

// follow returns what each account may be after all operations, given that Redis may have
// lost what was acknowledged in the spans.
func follow(history []operation, lost []span) map[string]*fate {
	byAccount := make(map[string][]operation)
	for _, op := range history {
		byAccount[op.account] = append(byAccount[op.account], op)
	}
	fates := make(map[string]*fate)
	for account, ops := range byAccount {
		slices.SortFunc(ops, func(a, b operation) int { return a.ended.Compare(b.ended) })
		f := &fate{standing: absent}
		fates[account] = f
		rest := slices.Clone(lost)
		var within []operation // done in the span that comes next
		before := f.standing
		for _, op := range ops {
			for len(rest) > 0 && op.ended.After(rest[0].to) {
				f.lose(before, within)
				rest, within = rest[1:], nil
			}
			if len(rest) > 0 && rest[0].has(op.ended) {
				if within == nil {
					before = f.standing
				}
				if rest[0].torn { // a server that lacks the others may have answered this one
					f.standing |= reached(before, within)
				}
				within = append(within, op)
			}
			f.obey(op)
		}
		if len(rest) > 0 {
			f.lose(before, within)
		}
	}
	return fates
}

func (f *fate) obey(op operation) {
	if op.kind == register {
		f.registers++
	}
	f.confused = f.confused || op.racing && op.outcome == unknown
	next := f.standing.told(op)
	if f.confused {
		next = absent | active | paused
	}
	if next == 0 {
		if f.violation == nil {
			f.violation = &violation{op.ended, fmt.Sprintf("I5: %s of %s answered %d, which earlier answers rule out", op.kind, op.account, op.status)}
		}
		next = absent | active | paused
	}
	f.standing, f.changed = next, op.ended
}

// lose adds what the account was before operations that Redis may have lost, and after
// each of them.
func (f *fate) lose(before standing, ops []operation) {
	if len(ops) == 0 {
		return
	}
	f.standing |= reached(before, ops)
	f.undone += len(ops)
}

// reached returns what an account may be after some of the operations.
func reached(before standing, ops []operation) standing {
	for _, op := range ops {
		before |= before.told(op)
	}
	return before
}

// judge reads Redis at the end, when nothing runs any more, and compares it with what the
// clients and the third party have seen.
func (w *world) judge(allowed []*excuse, lost []span, settled time.Time) (verdict, error) {
	v := verdict{operations: make(map[outcome]int)}
	fault := func(at time.Time, format string, args ...any) {
		v.violations = append(v.violations, violation{at, fmt.Sprintf(format, args...)})
	}
	from, err := w.reader()
	if err != nil {
		return v, err
	}
	defer from.close()
	c, err := take(from)
	if err != nil {
		return v, err
	}
	for _, text := range lawless(c, false) {
		fault(time.Time{}, "%s", text)
	}
	if c.Claimed > 0 {
		fault(time.Time{}, "I6: %d entries are left in processing_list", c.Claimed)
	}
	v.sends = w.judgeSent(allowed, lost, fault)
	counts, written, err := streams(from)
	if err != nil {
		return v, err
	}
	history := w.third.history()
	v.checks = len(history)
	found, lawful := overlapping(history, allowed)
	v.violations, v.overlaps = append(v.violations, found...), lawful

	operations := w.clients.operations()
	for _, op := range operations {
		v.operations[op.outcome]++
	}
	for _, n := range counts {
		v.messages += n
	}
	fates := follow(operations, lost)
	for _, id := range w.base {
		fates[id] = &fate{standing: active, registers: 1}
	}
	for id, f := range fates {
		v.undone += f.undone
		if f.violation != nil {
			v.violations = append(v.violations, *f.violation)
		}
		w.judgeStanding(id, f, c, settled, fault)
		w.judgeMessages(id, f, c, len(lost) > 0, counts, written, fault)
	}
	for m := range counts { // what is left of them
		if strings.HasPrefix(m[0], endlessPrefix) {
			continue
		}
		fault(written[m], "I4: message %s of %q, which the third party never had", m[1], m[0])
	}
	return v, nil
}

// judgeStanding compares an account's place with what it may be.
func (w *world) judgeStanding(id string, f *fate, c *census.Census, settled time.Time, fault func(time.Time, string, ...any)) {
	account, registered := c.Accounts[id]
	is, reason := absent, ""
	if registered {
		reason = account.Reason
	}
	switch {
	case registered && slices.Contains(account.Places, "parked"):
		is = paused
	case registered:
		is = active
	}
	if is&f.standing == 0 {
		fault(f.changed, "I5: %s should be %s, and is %s %s", id, f.standing, is, reason)
	}
	if is == paused && !strings.HasPrefix(reason, "paused") {
		fault(time.Time{}, "I1: %s is parked: %s", id, reason)
	}
	last := w.third.lastBegun(id)
	if is == active && !last.After(settled) {
		fault(last, "I1: %s was not checked on, last at %s", id, last.Format(time.TimeOnly))
	}
	if (f.standing == absent || f.standing == paused) && last.After(f.changed.Add(lastCheckAfter)) {
		fault(last, "I3: %s was checked %v after it went out of circulation", id, last.Sub(f.changed).Round(time.Millisecond))
	}
}

// judgeMessages expects each message that the third party returned, and that the
// account's cursor has passed, in the streams once. An account that was registered again
// begins anew, so its messages may be there once for each registration.
func (w *world) judgeMessages(id string, f *fate, c *census.Census, lost bool, counts map[[2]string]int, written map[[2]string]time.Time, fault func(time.Time, string, ...any)) {
	posted := w.third.Stats(id).Posted
	_, registered := c.Accounts[id]
	passed := w.third.cursor(id)
	if registered && f.standing == active {
		passed = posted // everything, by now
	} else if lost {
		passed = 0 // the cursor may have been set back, and no check followed
	}
	for n := range posted {
		m := [2]string{id, upstream.MessageID(id, n+1)}
		switch copies := counts[m]; {
		case copies == 0 && n < passed:
			fault(f.changed, "I4: message %s is lost", m[1])
		case copies > max(1, f.registers):
			fault(written[m], "I4: message %s is in the streams %d times", m[1], copies)
		}
		delete(counts, m)
	}
}

// String names what an account may be.
func (s standing) String() string {
	var names []string
	for i, name := range []string{"absent", "active", "paused"} {
		if s&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, " or ")
}
