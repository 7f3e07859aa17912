package accounts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/rounds-dev/rounds/accounts/cursor"
	"github.com/rounds-dev/rounds/circulate"
)

var (
	// ErrNotFound reports an id that no account has.
	ErrNotFound = errors.New("accounts: no such account")
	// ErrExists reports an id that an account has already.
	ErrExists = errors.New("accounts: the account exists")
	// ErrParked reports an account that is out of circulation.
	ErrParked = errors.New("accounts: the account is parked")
	// ErrCursor reports a cursor or a position that this ring never gave.
	ErrCursor = cursor.ErrInvalid
	// ErrInput reports that the reader of an import failed before its end.
	ErrInput = errors.New("accounts: input ended early")
)

// Registry is who is checked: the accounts of a ring. It is safe for concurrent
// use. Errors that are none of this package's are the ring's: Redis is away, or
// refused.
type Registry struct {
	ring  *circulate.Ring
	kinds Kinds
}

// NewRegistry makes the registry of a ring. Records are judged by kinds.
func NewRegistry(ring *circulate.Ring, kinds Kinds) *Registry {
	return &Registry{ring: ring, kinds: kinds}
}

// Read decodes and judges a record. With an id that is not empty, the record may
// leave its own out but not name another one. It returns all faults at once, as
// Faults. That a time is past is told among others, but is none by itself: the
// account may be there with it, which Create and Put see.
func (r *Registry) Read(ctx context.Context, id string, record []byte) (Account, error) {
	a, err := readAs(id, record, r.kinds)
	if err != nil {
		err = a.withPast(err, r.clockOf(ctx, a.ID))
	}
	return a, err
}

// clockOf asks the clock that decides for an account.
func (r *Registry) clockOf(ctx context.Context, id string) func() (time.Time, error) {
	return func() (time.Time, error) { return r.ring.Account(id).Now(ctx) }
}

// Create registers an account, due at once unless its cadence names a time. It
// returns Faults for a record that is not valid, or names a time that is past, and
// ErrExists for an id that is taken.
func (r *Registry) Create(ctx context.Context, a Account) (View, error) {
	view, _, err := r.Save(ctx, a, Save{New: true})
	return view, err
}

// Put registers an account or changes it. Either way it is due as with Create,
// unless it is there with this very record: then nothing changes, even if it
// names a time that is past. The cursor is kept,
// but not over a change of kind: another checker could not read it.
func (r *Registry) Put(ctx context.Context, a Account) (View, circulate.Registered, error) {
	return r.Save(ctx, a, Save{})
}

// Get returns an account and where it is, or ErrNotFound.
func (r *Registry) Get(ctx context.Context, id string) (View, error) {
	view, err := r.ring.Account(id).Look(ctx)
	if err != nil {
		return View{}, translate(err, id)
	}
	return viewOf(&view), nil
}

// Delete takes an account out for good; its messages stay. It returns ErrNotFound
// for an id that no account has.
func (r *Registry) Delete(ctx context.Context, id string) error {
	return translate(r.ring.Account(id).Deregister(ctx), id)
}

// Pause takes an account out of circulation until Resume; no change of its
// record brings it back before. A check under way is not written.
func (r *Registry) Pause(ctx context.Context, id string) (View, error) {
	if err := r.ring.Account(id).Park(ctx, circulate.ReasonPaused); err != nil {
		return View{}, translate(err, id)
	}
	return r.Get(ctx, id)
}

// Resume brings an account back, for whatever reason it was parked: due at once, with
// a clean slate. One that circulates is left alone.
func (r *Registry) Resume(ctx context.Context, id string) (View, error) {
	if err := r.ring.Account(id).Resume(ctx, circulate.Resumption{}); err != nil {
		return View{}, translate(err, id)
	}
	return r.Get(ctx, id)
}

// Nudge has an account checked sooner than it is due. It returns ErrNotFound, or
// ErrParked for an account that is out of circulation.
func (r *Registry) Nudge(ctx context.Context, id string, n Nudge) (View, error) {
	if err := n.Validate(); err != nil {
		return View{}, err
	}
	lives := n.Lives
	if lives == 0 {
		lives = HintLife
	}
	err := r.ring.Account(id).Nudge(ctx, circulate.Nudge{Within: n.Within, Hint: n.Hint, Lives: lives})
	if err != nil {
		return View{}, translate(err, id)
	}
	return r.Get(ctx, id)
}

// encode judges an account and writes its record.
func (r *Registry) encode(ctx context.Context, a Account) ([]byte, error) {
	if err := a.Validate(r.kinds); err != nil {
		return nil, a.withPast(err, r.clockOf(ctx, a.ID))
	}
	return a.Encode()
}

// after is an account as it is after it was written. That somebody deleted it
// since does not undo the writing.
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

// kindOf is the kind in a record; empty where that cannot be read.
func kindOf(record []byte) string {
	var a struct {
		Kind string `json:"kind"`
	}
	_ = json.Unmarshal(record, &a) // no kind is what it means
	return a.Kind
}
