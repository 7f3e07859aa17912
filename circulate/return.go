package circulate

import (
	"context"
	_ "embed"
	"fmt"
	"strconv"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

//go:embed list.lua
var listLua string

//go:embed return.lua
var returnLua string

var returnScript = wire.NewVitalScript("return", listLua+returnLua)

// Outcome is what became of one account's return.
type Outcome uint8

const (
	// Fenced says that the claim was lost, and nothing was written.
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
	Due      time.Time // when to check next, by Redis' clock; what is past, as the zero time, means at once
	Kind     string    // goes with the messages
	Messages []Message // appended to the shard's stream, in order

	Cursor     []byte // nil leaves it as it is
	DropCursor bool   // forgets it

	Failures int    // in a row, this check included; 0 after a success
	State    string // what the account's cadence keeps; opaque to the ring
	Rule     Rule   // what decided Due; zero: as it was
	Mark     Mark   // how the check went; zero: there was none
	Error    string // what went wrong, for people; cut to MaxError bytes
	Park     string // not empty: out of circulation, with this reason
}

// Return gives accounts of one shard back. Each is written whole or, where the
// claim was lost, not at all; the outcomes stand in the order of the items. It
// is safe to repeat after an unknown outcome: what had been written then shows
// as Fenced. Of an account that was nudged to an earlier time meanwhile, Due is
// set to the zero time: its shard is worth a look at once.
//
// A Redis at its memory limit refuses items with messages, and none of the batch is
// written then; items without go through. See Full.
func (r *Ring) Return(ctx context.Context, shard int, items []Return) ([]Outcome, error) {
	if err := wire.CheckBatch("return", len(items)); err != nil {
		return nil, err
	}
	args := make([]any, 1, 1+2*len(items))
	args[0] = len(items)
	for i := range items {
		args = append(args, items[i].Claim.entry, items[i].what())
	}
	if brings(items) {
		args = append(args, "messages")
	}
	for i := range items {
		args = items[i].appendExtras(args, i+1)
	}
	k := &r.keys[shard]
	verdict, err := redis.Bytes(r.wire.Run(ctx, returnScript, shard, []string{
		k.processing, k.queue, k.schedule, k.tickets, k.ticketSeq, k.cursors, k.failures, k.strikes, k.nudges,
		k.parked, k.reasons, k.messages, k.states, k.urgent, k.low, k.errors, k.ticketMark,
	}, args...))
	if err != nil {
		return nil, err
	}
	if len(verdict) != len(items) {
		return nil, fmt.Errorf("return, shard %d: %w", shard, wire.ErrReply)
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

// what is the rule, the mark and the due time as the script takes them.
func (it *Return) what() []byte {
	rule, mark := it.Rule, it.Mark
	if rule == 0 {
		rule = it.Claim.Rule
	}
	if mark == 0 {
		mark = noMark
	}
	return strconv.AppendInt([]byte{byte(rule), byte(mark)}, max(0, it.Due.UnixMilli()), 10)
}

// appendExtras adds what most returns have none of. Place counts from 1.
func (it *Return) appendExtras(args []any, place int) []any {
	switch {
	case it.DropCursor:
		args = append(args, "nocursor", place)
	case it.Cursor != nil:
		args = append(args, "cursor", place, it.Cursor)
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
	for j := range it.Messages {
		args = append(args, "message", place, it.Kind)
		args = it.Messages[j].appendFields(args)
	}
	return args
}

// brings reports whether any of some returns has messages.
func brings(items []Return) bool {
	for i := range items {
		if len(items[i].Messages) > 0 {
			return true
		}
	}
	return false
}
