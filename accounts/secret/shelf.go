package secret

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/document"
)

const (
	// MaxBy is the most bytes that are stored of the name of the secret's author.
	MaxBy = 128
	// MaxPage is the most secrets that one page lists.
	MaxPage = document.MaxPage
)

var (
	// ErrFull reports that there is no room for another secret.
	ErrFull = document.ErrFull
	// ErrRecord reports a record that cannot be read. A later version wrote it, or another
	// program.
	ErrRecord = errors.New("its stored record cannot be read")
)

// Stored describes a stored secret, without its value.
type Stored struct {
	Name string
	Binding
	Set      time.Time // by Redis' clock
	By       string    // the name of the principal that stored it
	Key      string    // the ID of the public key that sealed it; empty: the record cannot be read
	Revision int64
}

// Shelf has the stored secrets of a namespace. All of them are sealed.
type Shelf struct{ vault document.Vault }

// Of returns the secrets of a ring's namespace.
func Of(ring *circulate.Ring) Shelf { return Shelf{document.Of(ring).Vault()} }

// At returns the secrets of a namespace in a Redis, for callers without a ring.
func At(server circulate.Server, namespace string) Shelf {
	return Shelf{document.At(server, namespace).Vault()}
}

// Put seals a secret and stores it, in place of an earlier one with the same name. It
// returns true if there was none. The value, the binding and the author change in one
// step. Put is safe to repeat.
func (s Shelf) Put(ctx context.Context, k *PublicKey, name string, b Binding, by string, value []byte) (Stored, bool, error) {
	for len(by) > MaxBy || !utf8.ValidString(by) { // until the longest beginning that may be stored
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

// Replace stores a new record of a secret that has not changed since it was read as seen. It
// returns false if the secret has changed or was removed.
func (s Shelf) Replace(ctx context.Context, seen Stored, r *Record) (bool, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return false, fmt.Errorf("secret %s: %w", seen.Name, err)
	}
	return s.vault.Replace(ctx, seen.Name, seen.Revision, text)
}

// Remove deletes a secret, and reports whether it existed.
func (s Shelf) Remove(ctx context.Context, name string) (bool, error) {
	if err := ValidateFullName(name); err != nil {
		return false, fmt.Errorf("secret: %w", err)
	}
	return s.vault.Remove(ctx, name)
}

// Get returns the sealed record of a secret, or false if there is none. It returns ErrRecord
// if the record cannot be read.
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

// Page lists at most limit secrets whose names come after the given one, in the order of
// names. Next is the after of the next page. It is empty if this page is the last.
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

// read returns the record of an entry and its description. The record is nil if it cannot be
// read.
func read(e document.Sealed) (*Record, Stored) {
	stored := Stored{Name: e.Name, Set: e.Set, Revision: e.Revision}
	var r Record
	if json.Unmarshal(e.Value, &r) != nil || r.Key == "" || len(r.Sealed) == 0 {
		return nil, stored
	}
	stored.Binding, stored.By, stored.Key = r.Binding, r.By, r.Key
	return &r, stored
}
