package circulate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

var returnScript = wire.NewTellingScript("return", lua("list"), lua("known"), lua("sends"), lua("return")).Vitally()

// Outcome is the outcome of returning one account.
type Outcome uint8

const (
	// Fenced says that the claim was lost and nothing was written.
	Fenced Outcome = iota
	// Written says that messages, cursor, failures and place were written together.
	Written
)

// String names the outcome.
func (o Outcome) String() string {
	if o == Written {
		return "written"
	}
	return "fenced"
}

// Return is a claimed account with what its check found.
type Return struct {
	Claim    *Claim
	Due      time.Time // when to check next, by Redis' clock; at once if past or zero
	Kind     string    // goes with the messages
	Messages []Message // appended to the shard's stream, in order
	Trace    string    // the traceparent that goes with the messages; empty: none

	Cursor     []byte // nil does not change it
	DropCursor bool   // clears the cursor

	Failures int    // in a row, including this check; 0 after a success
	State    string // the cadence's state; opaque to the ring
	Rule     Rule   // what decided Due; zero: unchanged
	Mark     Mark   // how the check went; zero: there was no check
	Error    string // what went wrong, for people; cut to MaxError bytes
	Park     string // not empty: the account is parked for this reason
	Reset    string // not empty: the check succeeded with a cursor that was begun anew, as this text says in the timeline

	Remember Remember // how the account remembers the messages
	Judged   Judged   // set by [Ring.Return]: what memory had to say about the messages
}

// Return returns accounts of one shard to the ring. Each is written completely or, if the
// claim was lost, not at all. Outcomes are in the order of the items. Return is safe to
// repeat after an unknown outcome: accounts that were written before then show as Fenced.
// If an account was meanwhile nudged to an earlier time, Return sets its Due to the zero
// time: look at its shard at once.
//
// A Redis at its memory limit refuses items with messages, and then writes none of the
// batch. Items without messages succeed. See Full.
func (r *Ring) Return(ctx context.Context, shard int, items []Return) ([]Outcome, error) {
	if err := wire.CheckBatch("return", len(items)); err != nil {
		return nil, err
	}
	args := make([]any, 1, 2+len(items))
	whats := make([]byte, 0, whatWidth*len(items))
	for i := range items {
		whats = items[i].appendWhat(whats)
		args = append(args, items[i].Claim.entry)
	}
	args[0] = whats
	usual := len(args)
	args, kept := r.appendExtras(args, items)
	k := &r.keys[shard]
	var known []string
	keys := []string{
		k.processing, k.queue, k.schedule, k.tickets, k.ticketSeq, k.ticketMark, k.strikes, k.nudges, k.errors, k.urgent, k.low,
	}
	if len(args) > usual {
		keys = append(keys, k.cursors, k.failures, k.states, k.parked, k.reasons, k.messages)
		for i := range items {
			if items[i].remembers() {
				known = append(known, k.knownKeys(items[i].Claim.ID)...)
			}
		}
	}
	opens := opensWindow(items)
	if kept != "" || opens {
		args, keys = append(args, kept), append(keys, k.timeline.Keys()...)
	}
	if opens {
		keys = append(keys, k.outbox.with()...)
	}
	verdict, err := redis.Bytes(r.runKnowing(ctx, returnScript, shard, keys, known, args...))
	if err != nil {
		return nil, err
	}
	if len(verdict) < len(items) {
		return nil, fmt.Errorf("return, shard %d: %w", shard, wire.ErrReply)
	}
	for i := range items {
		items[i].Judged = Judged{}
	}
	err = readJudged(string(verdict[len(items):]), func(place int, j Judged) {
		if place >= 1 && place <= len(items) {
			items[place-1].Judged = j
		}
	})
	if err != nil {
		return nil, fmt.Errorf("return, shard %d: %w", shard, err)
	}
	outcomes := make([]Outcome, len(items))
	for i := range outcomes {
		switch verdict[i] {
		case '1':
			outcomes[i] = Written
		case '2':
			outcomes[i], items[i].Due = Written, time.Time{}
		}
	}
	return outcomes, nil
}

// latestDue is the last time that fits into a stamp of thirteen digits, in 2286.
const latestDue = 9999999999999

// whatWidth is how many bytes appendWhat appends.
const whatWidth = 2 + stampWidth

// appendWhat appends the rule, the mark and the due time as the script takes them. The
// script compares stamps as texts, so all have the same length.
func (it *Return) appendWhat(b []byte) []byte {
	rule, mark := it.Rule, it.Mark
	if rule == 0 {
		rule = it.Claim.Rule
	}
	if mark == 0 {
		mark = noMark
	}
	due := min(max(0, it.Due.UnixMilli()), latestDue)
	return appendDigits(append(b, byte(rule), byte(mark)), due, stampWidth)
}

// appendExtras appends values that only some returns have. It appends nothing if no
// return has any, as in most batches. If it appends a line, it also returns how many
// lines timelines hold. Without timelines it appends the same whether a check had pages
// or not.
func (r *Ring) appendExtras(args []any, items []Return) (_ []any, kept string) {
	some, paged := false, false
	for i := range items {
		some, paged = some || items[i].extra(), paged || items[i].Claim.found+items[i].Claim.again > 0
	}
	if !some && !paged {
		return args, ""
	}
	told := r.told()
	if !some && told == "" {
		return args, ""
	}
	brought := make([]byte, len(items))
	args = append(args, brought)
	for i := range items {
		if it := &items[i]; it.remembers() {
			args = it.Remember.appendPage(append(args, it.Claim.again), it.Messages)
		}
	}
	var before *Return
	for i := range items {
		it, pages := &items[i], 0
		if told != "" {
			pages = it.Claim.found
		}
		args, brought[i] = it.appendBrought(args, before, pages)
		if len(it.Messages) > 0 {
			before = it
		}
		if event, _ := it.event(); event != "" || pages+len(it.Messages) > 0 || told != "" && it.Claim.again > 0 {
			kept = told
		}
	}
	for i := range items {
		if kept != "" {
			args = items[i].appendLines(args, i+1)
		}
		args = items[i].appendRare(args, i+1)
	}
	return args, kept
}

// extra reports whether a return has more than a place.
func (it *Return) extra() bool {
	return it.Cursor != nil || len(it.Messages) > 0 || it.Failures != it.Claim.Failures || it.DropCursor ||
		it.State != it.Claim.State || it.Error != "" || it.Park != "" || it.Reset != ""
}

// remembers reports whether a return has messages that memory judges.
func (it *Return) remembers() bool { return len(it.Messages) > 0 && it.Remember.on() }

// appendBrought appends a cursor and messages, and returns the letter that names them to
// the script. Before is the last return that had messages, or nil, and pages is how many
// messages the check's earlier pages had.
func (it *Return) appendBrought(args []any, before *Return, pages int) (_ []any, letter byte) {
	letters := "-mMr"
	if it.Cursor != nil && !it.DropCursor {
		letters = "cbBR"
		args = append(args, it.Cursor)
	}
	switch {
	case len(it.Messages) == 0:
		return args, letters[0]
	case it.remembers():
		letter = letters[3]
		args = append(args, it.Kind, it.Trace, len(it.Messages), pages+len(it.Messages))
	case len(it.Messages) == 1 && pages == 0 && before != nil && before.Kind == it.Kind && it.Trace == "":
		letter = letters[1]
	default:
		letter = letters[2]
		args = append(args, it.Kind, it.Trace, len(it.Messages), pages+len(it.Messages))
	}
	for i := range it.Messages {
		args = it.Messages[i].appendFields(args)
	}
	return args, letter
}

// appendRare appends values that most returns do not have. Place counts from 1.
func (it *Return) appendRare(args []any, place int) []any {
	if it.DropCursor {
		args = append(args, "nocursor", place)
	}
	if it.Failures != it.Claim.Failures {
		args = append(args, "failures", place, it.Failures)
	}
	if it.State != it.Claim.State {
		args = append(args, "state", place, it.State)
	}
	if it.Error != "" {
		args = append(args, "error", place, clip(it.Error))
	}
	if it.Park != "" {
		args = append(args, "park", place, it.Park)
	}
	for i := range it.Messages {
		if w := it.Messages[i].Answerable; w.usable() {
			args = w.append(append(args, "window", place, i+1))
		}
	}
	return args
}

// opensWindow reports whether a message of some returns lets its peer be answered.
func opensWindow(items []Return) bool {
	for i := range items {
		if answerable(items[i].Messages) {
			return true
		}
	}
	return false
}

func answerable(messages []Message) bool {
	return slices.ContainsFunc(messages, func(m Message) bool { return m.Answerable.usable() })
}

// appendLines appends the lines that a return writes to its account's timeline, except
// those that the script makes from its messages. Place counts from 1.
func (it *Return) appendLines(args []any, place int) []any {
	if it.Claim.found > 0 && len(it.Messages) == 0 {
		args = append(args, "found", place, it.Claim.found)
	}
	if it.Claim.again > 0 && !it.remembers() {
		args = append(args, "line", place, string(EventRepeated), it.Claim.again, "")
	}
	if event, text := it.event(); event != "" {
		args = append(args, "line", place, string(event), max(it.Failures, it.Claim.Failures), text)
	}
	return args
}

// event returns the return's event in the account's timeline, besides messages.
func (it *Return) event() (event Event, text string) {
	switch {
	case it.Park != "":
		return EventParked, it.Park
	case it.Error != "" && it.DropCursor:
		return EventCursorReset, clip(it.Error)
	case it.Error != "" && it.Failures > it.Claim.Failures:
		return EventFailed, clip(it.Error)
	case it.Error != "":
		return EventHindered, clip(it.Error)
	case it.Claim.Failures > 0 && it.Failures == 0 && it.Mark != 0:
		return EventRecovered, clip(it.Reset)
	case it.Reset != "":
		return EventCursorReset, clip(it.Reset)
	}
	return "", ""
}

var releaseScript = wire.NewVitalScript("release", lua("list"), lua("release"))

// Release releases claims of one shard: unchecked, next in line and as late as they were,
// as a replica does at shutdown. It returns how many were still claimed.
func (r *Ring) Release(ctx context.Context, shard int, claims []*Claim) (int, error) {
	if err := wire.CheckBatch("release", len(claims)); err != nil {
		return 0, err
	}
	args := make([]any, 0, 2*len(claims))
	for _, c := range claims {
		args = append(args, c.entry, max(0, c.Due.UnixMilli()))
	}
	return r.release(ctx, shard, args)
}

// ReleaseEntries is Release for entries that Oldest returned. A replica uses it for claims
// that it does not know of because the reply was lost. They count as due since they were
// claimed.
func (r *Ring) ReleaseEntries(ctx context.Context, shard int, entries []ClaimedEntry) (int, error) {
	if err := wire.CheckBatch("release", len(entries)); err != nil {
		return 0, err
	}
	args := make([]any, 0, 2*len(entries))
	for i := range entries {
		args = append(args, entries[i].text, max(0, entries[i].Entry.Stamp.UnixMilli()))
	}
	return r.release(ctx, shard, args)
}

func (r *Ring) release(ctx context.Context, shard int, entries []any) (int, error) {
	k := &r.keys[shard]
	return redis.Int(r.wire.Run(ctx, releaseScript, shard,
		[]string{k.processing, k.queue, k.tickets, k.ticketSeq, k.urgent, k.low, k.ticketMark},
		append(r.wakeArgs(shard), entries...)...))
}

var progressScript = wire.NewVitalScript("progress", lua("known"), lua("sends"), lua("progress"))

// Page is one page of a check that has more pages, or one call of a held check.
type Page struct {
	Kind       string
	Messages   []Message
	Trace      string // the traceparent that goes with the messages; empty: none
	Cursor     []byte // nil does not change it
	DropCursor bool   // clears the cursor
	Succeeded  bool   // a call of a held check has succeeded completely, and the check goes on
	Remember   Remember
}

// Progress writes a page and renews the claim, which changes in place, also by what memory
// had to say about the page: a Return of the claim must come after. ErrClaimLost says that nothing was written and that the claim is
// void. After an unknown outcome drop the claim, because its entry is unknown: the
// monitor finds it.
func (r *Ring) Progress(ctx context.Context, c *Claim, p Page) error {
	cursor := "keep"
	switch {
	case p.DropCursor:
		cursor = "drop"
		p.Cursor = nil
	case p.Cursor != nil:
		cursor = "set"
	}
	mark := noMark
	if p.Succeeded {
		mark = MarkOK
	}
	k := &r.keys[c.Shard]
	var known []string
	args := append(make([]any, 0, 9+4*len(p.Messages)), c.entry, p.Kind, cursor, p.Cursor, string(rune(mark)), p.Trace)
	if len(p.Messages) > 0 && p.Remember.on() {
		args, known = p.Remember.appendPage(args, p.Messages), k.knownKeys(c.ID)
	}
	for i := range p.Messages {
		args = p.Messages[i].appendFields(args)
	}
	keys := []string{k.processing, k.tickets, k.ticketSeq, k.cursors, k.messages, k.ticketMark}
	if answerable(p.Messages) {
		keys = append(keys, k.outbox.with()...)
		messages := len(args)
		for i := range p.Messages {
			if w := p.Messages[i].Answerable; w.usable() {
				args = w.append(append(args, i+1))
			}
		}
		args = append(args, len(args)-messages)
	}
	renewed, err := redis.String(r.runKnowing(ctx, progressScript, c.Shard, keys, known, args...))
	c.Judged = Judged{}
	if err == nil && len(known) > 0 && len(renewed) > len(c.entry) {
		numbers := strings.ReplaceAll(renewed[len(c.entry)+1:], "|", ":")
		renewed = renewed[:len(c.entry)]
		err = readJudged("1:"+numbers, func(_ int, j Judged) { c.Judged = j })
	}
	switch {
	case errors.Is(err, redis.ErrNil):
		return ErrClaimLost
	case err != nil:
		return err
	case len(renewed) != len(c.entry):
		return fmt.Errorf("progress, shard %d: %w", c.Shard, wire.ErrReply)
	}
	c.entry = renewed
	c.found += len(p.Messages) - c.Judged.Repeated
	c.again += c.Judged.Repeated
	switch {
	case p.DropCursor:
		c.Cursor = nil
	case p.Cursor != nil:
		c.Cursor = p.Cursor
	}
	return nil
}
