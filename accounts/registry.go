package accounts

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/rounds-dev/rounds/accounts/access"
	"github.com/rounds-dev/rounds/circulate"
)

var (
	// ErrNotFound reports an id that no account has.
	ErrNotFound = errors.New("accounts: no such account")
	// ErrExists reports an id that an account already has.
	ErrExists = errors.New("accounts: the account exists")
	// ErrParked reports an account that is out of circulation.
	ErrParked = errors.New("accounts: the account is parked")
	// ErrCursor reports a cursor or a position that this ring never returned.
	ErrCursor = errors.New("cursor: not a cursor of this ring")
	// ErrInput reports that the reader of an import failed before its end.
	ErrInput = errors.New("accounts: input ended early")
)

// Registry is the accounts of a ring. It is safe for concurrent use. Errors from other
// packages are the ring's: Redis is away, or refused.
type Registry struct {
	ring   *circulate.Ring
	kinds  Kinds
	labels access.Labels // of Bound; none: all accounts are there
	ids    *IDIndex      // of Indexed; nil: none
}

// NewRegistry returns the registry of a ring. Kinds judges the configs of records.
func NewRegistry(ring *circulate.Ring, kinds Kinds) *Registry {
	return &Registry{ring: ring, kinds: kinds}
}

// Read decodes and judges a record. If id is not empty, the record may leave its own id
// out but must not name another one. Read returns all faults at once, as Faults. It adds
// a past time to other faults, but does not return it alone: the account may exist with
// that time, which Create and Put check.
func (r *Registry) Read(ctx context.Context, id string, record []byte) (Account, error) {
	a, err := readAs(id, record, r.kinds)
	if err = r.bind(&a, err); err != nil {
		err = a.withPast(err, r.clockOf(ctx, a.ID))
	}
	return a, err
}

// clockOf returns a function that asks for the time of an account's shard.
func (r *Registry) clockOf(ctx context.Context, id string) func() (time.Time, error) {
	return func() (time.Time, error) { return r.ring.Account(id).Now(ctx) }
}

// Create registers an account. It is due at once unless its cadence names a time. Create
// returns Faults for a record that is not valid or whose time is past, and ErrExists for
// an id that is taken.
func (r *Registry) Create(ctx context.Context, a Account) (View, error) {
	view, _, err := r.Save(ctx, a, Save{New: true})
	return view, err
}

// Put registers an account or changes it. Either way the account is due as with Create.
// If it exists with this very record nothing changes, even if its time is past. The
// account retains its cursor unless its kind changes: another checker could not read the
// cursor. Put returns Faults for a record that is not valid.
func (r *Registry) Put(ctx context.Context, a Account) (View, circulate.Registered, error) {
	return r.Save(ctx, a, Save{})
}

// Get returns an account and the place where it is, or ErrNotFound.
func (r *Registry) Get(ctx context.Context, id string) (View, error) {
	view, err := r.ring.Account(id).Look(ctx)
	if err != nil {
		return View{}, translate(err, id)
	}
	if !r.sees(view.Record) {
		return View{}, fmt.Errorf("%w: %q", ErrNotFound, id)
	}
	return viewOf(&view), nil
}

// Delete deregisters an account for good. Its messages stay. It returns ErrNotFound for an
// id that no account has.
func (r *Registry) Delete(ctx context.Context, id string) error {
	return r.DeleteIf(ctx, id, Match{})
}

// Pause takes an account out of circulation until Resume. A change of its record does not
// bring it back. The result of a check under way is dropped. Pause returns ErrNotFound for
// an id that no account has.
func (r *Registry) Pause(ctx context.Context, id string) (View, error) {
	return r.change(ctx, id, func(account circulate.Account) error { return account.Park(ctx, circulate.ReasonPaused) })
}

// change makes a step on an account that the bound principal sees, and returns how the
// account is then.
func (r *Registry) change(ctx context.Context, id string, step func(circulate.Account) error) (View, error) {
	if err := r.check(ctx, id); err != nil {
		return View{}, err
	}
	if err := step(r.ring.Account(id)); err != nil {
		return View{}, translate(err, id)
	}
	return r.Get(ctx, id)
}

// Resume brings a parked account back, whatever the reason: it is due at once, with a clean
// slate. An account that circulates stays as it is. Resume returns ErrNotFound for an id
// that no account has.
func (r *Registry) Resume(ctx context.Context, id string) (View, error) {
	return r.ResumeFrom(ctx, id, ResumeCursor)
}

// Nudge asks for a check before an account is due. It returns Faults for a nudge that is
// not valid, ErrNotFound, or ErrParked for an account that is out of circulation.
func (r *Registry) Nudge(ctx context.Context, id string, n Nudge) (View, error) {
	if err := n.Validate(); err != nil {
		return View{}, err
	}
	return r.change(ctx, id, func(account circulate.Account) error {
		return account.Nudge(ctx, circulate.Nudge{Within: n.Within, Hint: n.Hint, Lives: cmp.Or(n.Lives, HintLife)})
	})
}

// encode judges an account and returns its record.
func (r *Registry) encode(ctx context.Context, a Account) ([]byte, error) {
	if err := r.bind(&a, a.Validate(r.kinds)); err != nil {
		return nil, a.withPast(err, r.clockOf(ctx, a.ID))
	}
	return a.paced(r.kinds).Encode()
}

// after returns an account as it is after a write. A write succeeded even if somebody
// deleted the account since.
func (r *Registry) after(ctx context.Context, a Account) (View, error) {
	view, err := r.Get(ctx, a.ID)
	if errors.Is(err, ErrNotFound) {
		return View{Account: a}, nil
	}
	return view, err
}

func translate(err error, id string) error {
	switch {
	case errors.Is(err, circulate.ErrNotRegistered):
		return fmt.Errorf("%w: %q", ErrNotFound, id)
	case errors.Is(err, circulate.ErrParked):
		return fmt.Errorf("%w: %q", ErrParked, id)
	}
	return err
}

// kindOf returns the kind in a record; it is empty if the record cannot be read.
func kindOf(record []byte) string {
	var a struct {
		Kind string `json:"kind"`
	}
	_ = json.Unmarshal(record, &a) // an unreadable record has no kind
	return a.Kind
}
