package accounts

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/rounds-dev/rounds/circulate"
)

var (
	// ErrChanged reports that an account does not meet the caller's condition: somebody
	// changed or deleted it, or it does not exist yet.
	ErrChanged = errors.New("accounts: the account is not as expected")
	// ErrContended reports that a change lost against other changes again and again.
	// Nothing was written. The caller may try again.
	ErrContended = errors.New("accounts: others keep changing the account")
)

// saveTries is how often a change is tried if other changes come first. Each time at least
// one other change succeeded.
const saveTries = 32

// Match is the condition of a change. The zero value demands nothing.
type Match struct {
	Any  bool     // the account must exist
	Tags []string // its record must have one of these tags; see View.Tag
}

func (m Match) demands() bool { return m.Any || m.Tags != nil }

// holds reports whether a tag meets the condition. An account that does not exist has an
// empty tag.
func (m Match) holds(tag string) bool {
	return !m.demands() || tag != "" && (m.Any || slices.Contains(m.Tags, tag))
}

// Save says how an account is saved. The zero value is Put.
type Save struct {
	Match Match
	// New saves only an account that does not exist yet.
	New bool
	// From says where a new account begins. An account that exists goes on where it is.
	From BeginFrom

	moved string // the third party's new address that a change follows, for the timeline
}

// Save registers an account or changes it, as Put does, if s.Match holds. Otherwise it
// returns ErrChanged, or with s.New ErrExists. Two saves at once happen one after the
// other, and the second sees what the first wrote. Save returns Faults for a record that is
// not valid, and ErrContended if it may be tried again.
func (r *Registry) Save(ctx context.Context, a Account, s Save) (View, circulate.Registered, error) {
	if err := s.From.Validate(); err != nil {
		return View{}, 0, err
	}
	record, err := r.encode(ctx, a)
	if err != nil {
		return View{}, 0, err
	}
	if s.New {
		view, err := r.create(ctx, a, record, s.From)
		return view, circulate.Created, err
	}
	return r.save(ctx, a.ID, s, func(*circulate.View) (Account, []byte, error) { return a, record, nil })
}

// create registers an account that does not exist yet.
func (r *Registry) create(ctx context.Context, a Account, record []byte, from BeginFrom) (View, error) {
	account := r.ring.Account(a.ID)
	now, err := account.Now(ctx)
	if err != nil {
		return View{}, err
	}
	due, err := a.firstDue(func() (time.Time, error) { return now, nil })
	if err != nil {
		return View{}, err
	}
	item := circulate.Registration{Record: withRevision(record, Revision{}.next(now)), Due: due, Priority: a.lane(), Begin: from.begin(now)}
	outcome, err := account.Register(ctx, item)
	if err != nil {
		return View{}, err
	}
	if outcome == circulate.Exists {
		return View{}, fmt.Errorf("%w: %q", ErrExists, a.ID)
	}
	return r.after(ctx, a)
}

// Patch applies a JSON merge patch (RFC 7396) to the record of an account: it changes the
// fields that the patch names, and null removes a field. The resulting record is judged as a
// whole. Two patches at once are both applied. Patch returns Faults, ErrNotFound,
// ErrChanged if m does not hold, and ErrContended if it may be tried again.
func (r *Registry) Patch(ctx context.Context, id string, patch []byte, m Match) (View, circulate.Registered, error) {
	return r.patch(ctx, id, patch, Save{Match: m})
}

func (r *Registry) patch(ctx context.Context, id string, patch []byte, s Save) (View, circulate.Registered, error) {
	fields, err := decodePatch(id, patch)
	if err != nil {
		return View{}, 0, err
	}
	return r.save(ctx, id, s, func(before *circulate.View) (Account, []byte, error) {
		if before == nil {
			return Account{}, nil, fmt.Errorf("%w: %q", ErrNotFound, id)
		}
		plain, _ := SplitRevision(before.Record)
		return r.patched(ctx, id, plain, fields)
	})
}

// patched returns an account with a patch merged into its record, and the new record.
func (r *Registry) patched(ctx context.Context, id string, plain []byte, patch map[string]json.RawMessage) (Account, []byte, error) {
	merged, err := mergeRecord(plain, patch)
	if err != nil {
		return Account{}, nil, err
	}
	a, err := r.Read(ctx, id, merged)
	if err != nil {
		return Account{}, nil, err
	}
	record, err := a.Encode()
	return a, record, err
}

// save calls change with the account as it is, nil if it does not exist, and writes the
// result. It begins anew if somebody else was faster.
func (r *Registry) save(ctx context.Context, id string, s Save, change func(*circulate.View) (Account, []byte, error)) (View, circulate.Registered, error) {
	account := r.ring.Account(id)
	for range saveTries {
		var before *circulate.View
		switch v, err := account.Look(ctx); {
		case err == nil && !r.sees(v.Record):
			return View{}, 0, fmt.Errorf("%w: %q", ErrNotFound, id)
		case err == nil:
			before = &v
		case !errors.Is(err, circulate.ErrNotRegistered):
			return View{}, 0, err
		}
		a, record, err := change(before)
		if err != nil {
			return View{}, 0, err
		}
		var plain []byte
		var revision Revision
		tag, item := "", circulate.Registration{Priority: a.lane(), Absent: before == nil, Moved: s.moved}
		if before != nil {
			plain, revision = SplitRevision(before.Record)
			tag = revision.tag(plain)
		}
		if !s.Match.holds(tag) {
			return View{}, 0, fmt.Errorf("%w: %q", ErrChanged, id)
		}
		var now time.Time
		if before == nil {
			if now, err = account.Now(ctx); err != nil {
				return View{}, 0, err
			}
			item.Begin = s.From.begin(now)
		} else {
			if bytes.Equal(plain, record) {
				return viewOf(before), circulate.Unchanged, nil
			}
			now, item.Before, item.ForgetCursor = before.Now, before.Record, kindOf(before.Record) != a.Kind
		}
		item.Record = withRevision(record, revision.next(now))
		if item.Due, err = a.firstDue(func() (time.Time, error) { return now, nil }); err != nil {
			return View{}, 0, err
		}
		outcome, err := account.Upsert(ctx, item)
		switch {
		case err != nil:
			return View{}, 0, err
		case outcome == circulate.Differs:
			continue
		}
		view, err := r.after(ctx, a)
		if before != nil {
			view.Changed, view.Replaced = changedFields(plain, record), replacedBy(plain, record)
		}
		return view, outcome, err
	}
	return View{}, 0, fmt.Errorf("%w: %q", ErrContended, id)
}

// differing calls fn with each name, in order, whose values in two objects differ.
func differing(a, b map[string]json.RawMessage, fn func(string)) {
	all := maps.Clone(a)
	if all == nil {
		all = make(map[string]json.RawMessage)
	}
	maps.Copy(all, b)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if !bytes.Equal(a[name], b[name]) {
			fn(name)
		}
	}
}

// DeleteIf is Delete if m holds. Otherwise it returns ErrChanged. What it demands, and
// whether the bound principal sees the account, is checked in one step with the deletion.
func (r *Registry) DeleteIf(ctx context.Context, id string, m Match) error {
	account := r.ring.Account(id)
	if len(r.labels) == 0 && !m.demands() {
		return translate(account.Deregister(ctx), id)
	}
	for range saveTries {
		before, err := account.Look(ctx)
		if err != nil {
			return translate(err, id)
		}
		plain, revision := SplitRevision(before.Record)
		switch {
		case !r.sees(before.Record):
			return fmt.Errorf("%w: %q", ErrNotFound, id)
		case !m.holds(revision.tag(plain)):
			return fmt.Errorf("%w: %q", ErrChanged, id)
		}
		if err = account.DeregisterIf(ctx, before.Record); !errors.Is(err, circulate.ErrNotRegistered) {
			return err
		}
	}
	return fmt.Errorf("%w: %q", ErrContended, id)
}

// BeginFrom says where a new account begins.
type BeginFrom string

// Where a new account begins.
const (
	// BeginBackfill begins with everything that the third party still has. The zero value
	// means the same.
	BeginBackfill BeginFrom = "backfill"
	// BeginNow drops messages from before the registration, as ResumeNow does. Messages
	// without a time are dropped until a check has fetched everything for the first time,
	// however late that is.
	BeginNow BeginFrom = "now"
)

var beginFault = Fault{Field: "from", Reason: `must be "backfill" or "now"`}

// Validate returns Faults for any other value.
func (f BeginFrom) Validate() error {
	switch f {
	case "", BeginBackfill, BeginNow:
		return nil
	}
	return Faults{beginFault}
}

// begin returns the state of an account that is registered now.
func (f BeginFrom) begin(now time.Time) *circulate.Begin {
	if f != BeginNow {
		return nil
	}
	return &circulate.Begin{State: Memory{SkipBefore: now}.Encode()}
}

// asked returns the state of an account that is registered now and may bring one along. What got
// nowhere yet, such as an account that was paused before its first check, begins as f says.
func (f BeginFrom) asked(carried *circulate.Begin, now time.Time) *circulate.Begin {
	begin := f.begin(now)
	switch {
	case carried == nil:
		return begin
	case begin == nil || len(carried.Cursor) > 0 || carried.State != "":
		return carried
	}
	both := *carried
	both.State = begin.State
	return &both
}
