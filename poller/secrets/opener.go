package secrets

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/rounds-dev/rounds/accounts/secret"
	"github.com/rounds-dev/rounds/poller/internal/copies"
)

const (
	// fresh is how long a process uses a secret without asking Redis again. A change takes
	// effect after that at the latest.
	fresh = 3 * time.Second
	// stale is how long a process goes on using a secret while Redis is unreachable.
	stale = 10 * time.Minute

	askTimeout     = 5 * time.Second
	mostRemembered = 20_000 // secrets in a process: as many as a namespace has
	mostBytes      = 32 << 20
)

// openShelf is the part of secret.Shelf that an Opener needs.
type openShelf interface {
	Get(ctx context.Context, name string) (*secret.Record, secret.Stored, bool, error)
	Replace(ctx context.Context, seen secret.Stored, r *secret.Record) (bool, error)
}

// Opener finds stored secrets for pollers. It is safe for concurrent use.
type Opener struct {
	shelf      openShelf
	keys       atomic.Pointer[Keys]
	flights    singleflight.Group
	remembered *copies.Copies[string, remembered] // by name
}

var _ Store = (*Opener)(nil)

// remembered is the last known state of a name.
type remembered struct {
	value   string
	binding secret.Binding
	err     error // secrets.ErrNotFound, or why it does not open
	asked   time.Time
}

// New returns an Opener of the secrets on a shelf.
func New(shelf secret.Shelf, keys Keys) *Opener { return over(shelf, keys) }

func over(shelf openShelf, keys Keys) *Opener {
	o := &Opener{shelf: shelf, remembered: copies.New[string](mostRemembered, mostBytes, func(h remembered) int { return len(h.value) })}
	o.SetKeys(keys)
	return o
}

// SetKeys replaces the keys that open secrets from now on.
func (o *Opener) SetKeys(keys Keys) {
	o.keys.Store(&keys)
	o.remembered.DropAll()
}

// Forget makes the next use of a secret ask Redis, such as because it was set together with something
// that has just been read.
func (o *Opener) Forget(name string) {
	o.remembered.Drop(name, func(remembered) bool { return true })
}

// Get returns a secret and its binding. It asks Redis again if the known value is older than fresh.
// While Redis is unreachable, it returns the known value until that is older than stale. After that
// the error is secrets.ErrUnavailable. The fact that a secret does not exist is used only for the
// time of fresh.
func (o *Opener) Get(ctx context.Context, name string) (string, secret.Binding, error) {
	h, known := o.remembered.Get(name)
	if known && time.Since(h.asked) < fresh {
		return h.value, h.binding, h.err
	}
	if ctx.Err() != nil {
		return "", secret.Binding{}, fmt.Errorf("%w: %w", ErrUnavailable, ctx.Err())
	}
	flight := o.flights.DoChan(name, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), askTimeout)
		defer cancel()
		return o.ask(ctx, name)
	})
	select {
	case <-ctx.Done():
		return "", secret.Binding{}, fmt.Errorf("%w: %w", ErrUnavailable, ctx.Err())
	case done := <-flight:
		if done.Err == nil {
			h = done.Val.(remembered)
			return h.value, h.binding, h.err
		}
	}
	if known && h.err == nil && time.Since(h.asked) < stale {
		return h.value, h.binding, nil
	}
	return "", secret.Binding{}, ErrUnavailable
}

// ask asks Redis. Its error means that Redis could not be asked.
func (o *Opener) ask(ctx context.Context, name string) (remembered, error) {
	asked := time.Now()
	r, _, found, err := o.shelf.Get(ctx, name)
	h := remembered{asked: asked}
	switch {
	case errors.Is(err, secret.ErrRecord):
		h.err = err
	case err != nil:
		return remembered{}, err
	case !found:
		h.err = ErrNotFound
	default:
		value, err := o.keys.Load().open(name, r)
		h.value, h.binding, h.err = string(value), r.Binding, err
	}
	o.remembered.Put(name, h)
	return h, nil
}
