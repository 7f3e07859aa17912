package secrets

import (
	"context"
	"errors"
	"fmt"

	"github.com/rounds-dev/rounds/accounts/secret"
	"github.com/rounds-dev/rounds/poller/internal/conceal"
)

// ErrNotStored reports a secret that comes from a file or the environment where one is needed that
// this process can replace.
var ErrNotStored = errors.New("is a file or in the environment, and must be a stored secret because it is replaced from time to time")

// Seen is a stored secret as it was read, for Change.
type Seen struct{ stored secret.Stored }

// ChangingStore is a Store whose secrets this process can replace.
type ChangingStore interface {
	Store
	// Latest is Get for a value that is not older than the call.
	Latest(ctx context.Context, name string) (value string, b secret.Binding, seen Seen, err error)
	// Change replaces the value of a secret that is still as it was seen, and leaves its binding
	// and its author. It returns false if somebody else has changed or removed the secret.
	Change(ctx context.Context, seen Seen, value string) (bool, error)
}

var _ ChangingStore = (*Opener)(nil)

// Latest returns a stored secret for a use, as it is now, and how it was seen. The error is one of
// Get, or ErrNotStored. Unlike Get, which may return a value that is some seconds old, Latest always
// asks the store.
func (s Source) Latest(ctx context.Context, name string, use Use) (string, Seen, error) {
	if secret.ValidateName(name) != nil {
		return "", Seen{}, fmt.Errorf("secret: %w", ErrName)
	}
	value, seen, err := s.latest(ctx, name, use)
	if err != nil {
		return "", Seen{}, fmt.Errorf("secret %s: %w", name, err)
	}
	conceal.Note(ctx, value, Scrub)
	return value, seen, nil
}

func (s Source) latest(ctx context.Context, name string, use Use) (string, Seen, error) {
	bindings, err := s.bindings(name)
	if err != nil {
		return "", Seen{}, err
	}
	local := s
	local.Store = nil
	if _, _, err := local.read(ctx, name); !errors.Is(err, ErrNotFound) {
		return "", Seen{}, ErrNotStored
	}
	store, ok := s.Store.(ChangingStore)
	if !ok {
		return "", Seen{}, s.absent(name)
	}
	value, bound, seen, err := store.Latest(ctx, name)
	switch {
	case errors.Is(err, ErrNotFound):
		return "", Seen{}, s.absent(name)
	case err != nil:
		return "", Seen{}, err
	}
	return value, seen, s.allow(use, append(bindings, bound))
}

// Change replaces the value of a stored secret that is still as Latest has seen it. It returns false
// if somebody else has changed or removed the secret.
func (s Source) Change(ctx context.Context, seen Seen, value string) (bool, error) {
	store, ok := s.Store.(ChangingStore)
	if !ok {
		return false, fmt.Errorf("secret %s: %w", seen.stored.Name, ErrNotStored)
	}
	return store.Change(ctx, seen, value)
}

// Latest implements ChangingStore.
func (o *Opener) Latest(ctx context.Context, name string) (string, secret.Binding, Seen, error) {
	r, stored, found, err := o.shelf.Get(ctx, name)
	switch {
	case errors.Is(err, secret.ErrRecord):
		return "", secret.Binding{}, Seen{}, err
	case err != nil:
		return "", secret.Binding{}, Seen{}, fmt.Errorf("%w: %w", ErrUnavailable, err)
	case !found:
		return "", secret.Binding{}, Seen{}, ErrNotFound
	}
	value, err := o.keys.Load().open(name, r)
	return string(value), r.Binding, Seen{stored}, err
}

// Change implements ChangingStore. The value is sealed for the newest key.
func (o *Opener) Change(ctx context.Context, seen Seen, value string) (bool, error) {
	newest := o.keys.Load().Newest()
	if newest == nil {
		return false, fmt.Errorf("secret %s: %w", seen.stored.Name, errNoKey)
	}
	r, err := newest.Seal(seen.stored.Name, seen.stored.Binding, seen.stored.By, []byte(value))
	if err != nil {
		return false, err
	}
	done, err := o.shelf.Replace(ctx, seen.stored, r)
	if done {
		o.remembered.Drop(seen.stored.Name, func(remembered) bool { return true })
	}
	return done, err
}
