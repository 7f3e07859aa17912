package circulate

import (
	"context"
	"fmt"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

var registerScript = wire.NewTellingScript("register", lua("register"))

// Registration is an account to register.
type Registration struct {
	ID     string
	Record []byte    // opaque to the ring
	Due    time.Time // of its first check, by Redis' clock; at once if past or zero

	Priority Priority // zero: Normal

	// ForgetCursor drops the cursor if the record changes.
	ForgetCursor bool

	// Before makes Upsert change the account only if this is its record, byte by byte.
	// Absent makes it register the account only if it does not exist. Otherwise nothing
	// changes and the outcome is Differs. An account that has the new record already is
	// Unchanged in any case.
	Before []byte
	Absent bool

	// Moved is the third party's new address, if the record changes because of a move. It
	// goes into the account's timeline, and has no secret and no query. Empty: the record
	// changes for another reason.
	Moved string

	// Begin is the state that a new account begins with. An existing account retains its
	// own. Nil: no state.
	Begin *Begin
}

// Begin is the state that a new account brings along.
type Begin struct {
	Cursor   []byte // nil: none
	State    string // its cadence's state, as in Return
	Failures int    // in a row

	// Park is the reason for which the new account is parked, since Since by Redis'
	// clock, or since now if Since is later. Empty: it circulates.
	Park  string
	Since time.Time
}

// Registered is the outcome of one registration.
type Registered byte

// The outcomes of a registration.
const (
	Created   Registered = 'c' // it is new
	Updated   Registered = 'u' // its record changed; a check under way will not be written
	Unchanged Registered = 's' // it existed with exactly this record; nothing was written
	Exists    Registered = 'e' // it existed; it was not changed
	Differs   Registered = 'x' // it does not meet the registration's condition; it was not changed
)

// Register registers new accounts of one shard and does not change existing ones.
// Outcomes are in the order of the items.
func (r *Ring) Register(ctx context.Context, shard int, items []Registration) ([]Registered, error) {
	return r.registerAnywhere(ctx, shard, items, registering{stays: ReasonPaused})
}

// Upsert registers as Register does, and also changes the records of existing accounts. A
// changed account gets a fresh ticket and a new due time. If it was parked it circulates
// again, unless it was paused.
func (r *Ring) Upsert(ctx context.Context, shard int, items []Registration) ([]Registered, error) {
	return r.registerAnywhere(ctx, shard, items, registering{update: true, stays: ReasonPaused})
}

// Revise is Upsert, but a parked account stays parked whatever the reason.
func (r *Ring) Revise(ctx context.Context, shard int, items []Registration) ([]Registered, error) {
	return r.registerAnywhere(ctx, shard, items, registering{update: true})
}

// registering says what a registration does with accounts that exist.
type registering struct {
	update bool   // it changes their records
	stays  string // an account stays parked if its reason begins so
}

// register registers in exactly this shard.
func (r *Ring) register(ctx context.Context, shard int, items []Registration, how registering) ([]Registered, error) {
	if err := wire.CheckBatch("register", len(items)); err != nil {
		return nil, err
	}
	args := append(make([]any, 0, 6+5*len(items)), wire.Flag(how.update), how.stays)
	args = append(append(args, r.wakeArgs(shard)...), r.told(), len(items))
	for i := range items {
		if err := ValidateID(items[i].ID); err != nil {
			return nil, fmt.Errorf("%w: register: id %q: %w", wire.ErrInput, items[i].ID, err)
		}
		args = append(args, items[i].ID, items[i].Record, max(0, items[i].Due.UnixMilli()), wire.Flag(items[i].ForgetCursor), items[i].Priority.lane())
	}
	for i := range items {
		args = items[i].appendOps(args, i+1)
	}
	k := &r.keys[shard]
	letters, err := redis.Bytes(r.wire.Run(ctx, registerScript, shard, []string{
		k.tickets, k.ticketSeq, k.accounts, k.schedule, k.parked, k.reasons, k.failures, k.strikes, k.cursors, k.changes, k.states, k.errors,
		k.leaving, k.ticketMark, k.kinds, k.timeline.Mattered, k.timeline.Routine,
	}, args...))
	if err != nil {
		return nil, err
	}
	if len(letters) != len(items) {
		return nil, fmt.Errorf("register, shard %d: %w", shard, wire.ErrReply)
	}
	outcomes := make([]Registered, len(letters))
	for i, letter := range letters {
		outcomes[i] = Registered(letter)
	}
	return outcomes, nil
}

// appendOps appends further arguments for the script about one item. Place counts from 1.
func (it *Registration) appendOps(args []any, place int) []any {
	switch {
	case it.Absent:
		args = append(args, "new", place)
	case it.Before != nil:
		args = append(args, "is", place, it.Before)
	}
	if it.Moved != "" {
		args = append(args, "moved", place, it.Moved)
	}
	b := it.Begin
	if b == nil {
		return args
	}
	if len(b.Cursor) > 0 {
		args = append(args, "cursor", place, b.Cursor)
	}
	if b.State != "" {
		args = append(args, "state", place, b.State)
	}
	if b.Failures > 0 {
		args = append(args, "failures", place, b.Failures)
	}
	if b.Park != "" {
		args = append(args, "park", place, b.Park, max(0, b.Since.UnixMilli()))
	}
	return args
}

var deregisterScript = wire.NewTellingScript("deregister", lua("sends"), lua("deregister"))

// Deregister removes accounts of one shard for good, with all their data except their
// messages. A check under way will not be written. It returns how many were registered.
func (r *Ring) Deregister(ctx context.Context, shard int, ids []string) (int, error) {
	if err := wire.CheckBatch("deregister", len(ids)); err != nil {
		return 0, err
	}
	return r.countAnywhere(ctx, shard, ids, func(ctx context.Context, shard int, ids []string) (int, error) {
		return r.deregisterIn(ctx, shard, ids, append([]any{r.told(), 1}, anyOf(ids)...))
	})
}

// deregisterIn is Deregister in exactly this shard, with the arguments of the script.
func (r *Ring) deregisterIn(ctx context.Context, shard int, ids []string, args []any) (int, error) {
	k := &r.keys[shard]
	keys := append([]string{k.changes, k.tickets, k.schedule, k.parked, k.timeline.Mattered, k.timeline.Routine}, k.outbox.with(
		k.accounts, k.cursors, k.failures, k.strikes, k.nudges, k.reasons, k.states, k.errors)...)
	return redis.Int(r.wire.Run(ctx, deregisterScript, shard, append(keys, k.knownKeys(ids...)...), args...))
}

func anyOf(texts []string) []any {
	args := make([]any, len(texts))
	for i, t := range texts {
		args[i] = t
	}
	return args
}
