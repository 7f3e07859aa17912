package secret

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/vault"
)

const (
	// MaxBy is the most bytes that are kept of who put a secret in.
	MaxBy = 128
	// MaxPage is the most secrets that one page lists.
	MaxPage = vault.MaxPage
)

var (
	// ErrFull reports that there are as many secrets as there may be.
	ErrFull = vault.ErrFull
	// ErrRecord reports a record that cannot be read: it is of a later version, or somebody
	// else wrote it.
	ErrRecord = errors.New("what is kept of it cannot be read")
)

// Stored is what may be told of a secret that is kept: never its value.
type Stored struct {
	Name string
	Binding
	Set      time.Time // by Redis' clock
	By       string    // who put it in
	Key      string    // the ID of the key that it is sealed for; empty: the record cannot be read
	Revision int64
}

// Shelf has the secrets that are kept in a namespace, each sealed.
type Shelf struct{ vault vault.Store }

// Of returns the secrets of a ring's namespace.
func Of(ring *circulate.Ring) Shelf { return Shelf{vault.Of(ring)} }

// At returns the secrets of a namespace in a Redis, for who opens no ring there.
func At(server circulate.Server, namespace string) Shelf { return Shelf{vault.At(server, namespace)} }

// Put seals a secret and keeps it in place of the one of that name, and reports whether
// there was none. Its value, its binding and who put it in change together. To repeat it is
// safe.
func (s Shelf) Put(ctx context.Context, k *PublicKey, name string, b Binding, by string, value []byte) (Stored, bool, error) {
	for len(by) > MaxBy || !utf8.ValidString(by) {
		by = by[:min(len(by)-1, MaxBy)]
	}
	r, err := k.Seal(name, b, by, value)
	if err != nil {
		return Stored{}, false, err
	}
	text, err := json.Marshal(r)
	if err != nil {
		return Stored{}, false, fmt.Errorf("secret %s: %w", name, err)
	}
	e, created, err := s.vault.Put(ctx, name, text)
	return Stored{name, b, e.Set, by, r.Key, e.Revision}, created, err
}

// Replace keeps another seal of a secret that is as it was seen, and reports false where it
// has changed since, or is gone.
func (s Shelf) Replace(ctx context.Context, seen Stored, r *Record) (bool, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return false, fmt.Errorf("secret %s: %w", seen.Name, err)
	}
	return s.vault.Replace(ctx, seen.Name, seen.Revision, text)
}

// Remove forgets a secret, and reports whether there was one.
func (s Shelf) Remove(ctx context.Context, name string) (bool, error) {
	if err := ValidateFullName(name); err != nil {
		return false, fmt.Errorf("secret: %w", err)
	}
	return s.vault.Remove(ctx, name)
}

// Get returns a secret as it is sealed; false: there is none. One whose record cannot be
// read is ErrRecord.
func (s Shelf) Get(ctx context.Context, name string) (*Record, Stored, bool, error) {
	if err := ValidateFullName(name); err != nil {
		return nil, Stored{}, false, err
	}
	e, found, err := s.vault.Get(ctx, name)
	if err != nil || !found {
		return nil, Stored{}, false, err
	}
	r, stored := read(e)
	if r == nil {
		return nil, stored, true, ErrRecord
	}
	return r, stored, true, nil
}

// Page lists the secrets whose names come after one, at most limit of them, in the order of
// names. Next is where the page after it begins; empty: there is none.
func (s Shelf) Page(ctx context.Context, after string, limit int) (page []Stored, next string, err error) {
	entries, err := s.vault.Page(ctx, after, limit)
	if err != nil {
		return nil, "", err
	}
	for _, e := range entries {
		_, stored := read(e)
		page = append(page, stored)
	}
	if len(entries) == limit {
		next = entries[len(entries)-1].Name
	}
	return page, next, nil
}

// read reads a record; nil: it cannot be read.
func read(e vault.Entry) (*Record, Stored) {
	stored := Stored{Name: e.Name, Set: e.Set, Revision: e.Revision}
	var r Record
	if json.Unmarshal(e.Value, &r) != nil || r.Key == "" || len(r.Sealed) == 0 {
		return nil, stored
	}
	stored.Binding, stored.By, stored.Key = r.Binding, r.By, r.Key
	return &r, stored
}
