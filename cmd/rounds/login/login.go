// Package login has what all sign-ins of accounts share, whatever they sign in at: sign-ins under
// way, the name of the secret that a sign-in leads to, and the registration of its account.
//
// Redis stores a sign-in under way for a quarter of an hour under a name that nobody can guess,
// sealed with a key that is derived from that name. A reader of Redis can therefore neither follow a
// sign-in nor take what it leads to. Redis has only the digest of the name. Each principal has at
// most a thousand sign-ins at once; a further one ends the oldest.
package login

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/document"
)

// Life is how long a sign-in may be under way.
const Life = 15 * time.Minute

// The reasons why a step is refused.
var (
	ErrNone = errors.New("there is no such sign-in, or it has ended")
	ErrKind = errors.New("an account of another kind has this id")
)

// By is the principal that begins a sign-in.
type By struct {
	Name       string // the principal's name; each principal may have a limited number of sign-ins under way
	MayReplace bool   // may replace any stored secret
}

// Error is a failure of the third party, in a text that may be shown.
type Error struct{ Code, Text string }

// Error returns the code and the text.
func (e *Error) Error() string { return e.Code + ": " + e.Text }

// Book has the sign-ins under way of a ring's namespace. Use separates the keys of its sign-ins from
// others.
type Book struct {
	Ring *circulate.Ring
	Use  string
}

func (b Book) store() document.Sessions { return document.Of(b.Ring).Sessions(document.SigningIn) }

// Put stores a new sign-in until a time, and returns its name.
func (b Book) Put(ctx context.Context, owner string, until time.Time, v any) (name string, err error) {
	name = rand.Text() + rand.Text()
	sealed, err := b.seal(name, v)
	if err != nil {
		return "", err
	}
	return name, b.store().Put(ctx, name, owner, sealed, time.Until(until))
}

// Get reads a sign-in into v, and returns its form in Redis for Replace. It returns ErrNone if there is
// none.
func (b Book) Get(ctx context.Context, name string, v any) (sealed []byte, err error) {
	if len(name) < 32 || len(name) > 128 {
		return nil, ErrNone
	}
	sealed, _, err = b.store().Get(ctx, name)
	switch {
	case errors.Is(err, document.ErrNone):
		return nil, ErrNone
	case err != nil:
		return nil, err
	}
	aead, err := b.sealer(name)
	if err != nil {
		return nil, err
	}
	text, err := aead.Open(nil, nil, sealed, nil)
	if err != nil || json.Unmarshal(text, v) != nil {
		return nil, ErrNone
	}
	return sealed, nil
}

// Replace stores the new state of a sign-in, and returns its form in Redis. It returns
// document.ErrChanged if somebody else has changed the sign-in since it was read as old, and ErrNone
// if it has ended.
func (b Book) Replace(ctx context.Context, name string, old []byte, v any) (sealed []byte, err error) {
	if sealed, err = b.seal(name, v); err != nil {
		return nil, err
	}
	err = b.store().Replace(ctx, name, old, sealed)
	if errors.Is(err, document.ErrNone) {
		return nil, ErrNone
	}
	return sealed, err
}

// End ends a sign-in. Nothing of it remains.
func (b Book) End(ctx context.Context, name string) error { return b.store().End(ctx, name) }

func (b Book) seal(name string, v any) ([]byte, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	aead, err := b.sealer(name)
	if err != nil {
		return nil, err
	}
	return aead.Seal(nil, nil, text, nil), nil
}

// sealer returns the AEAD of a sign-in, which puts a nonce in front of what it seals. Its key is
// derived from the name, which Redis does not have.
func (b Book) sealer(name string) (cipher.AEAD, error) {
	key, err := hkdf.Key(sha256.New, []byte(name), nil, b.Use, 32)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}

// SecretOf returns the name of the secret in which an account's token is stored: the prefix, such as
// weixin-, and the id, if its characters are allowed in a name, or else a digest of the id. No two ids
// share a name: an id that looks like a digest has a digest of its own.
func SecretOf(prefix, id string) string {
	const digest = "sha256-"
	plain := !strings.HasPrefix(id, digest) && len(id) <= 40 && strings.Trim(id, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == ""
	if plain {
		return prefix + id
	}
	sum := sha256.Sum256([]byte(id))
	return prefix + digest + hex.EncodeToString(sum[:16])
}

// Uses reports whether the account with an id is of a kind and refers to a secret in a field of its
// config.
func Uses(ctx context.Context, registry *accounts.Registry, id, kind, field, name string) (bool, error) {
	there, err := registry.Get(ctx, id)
	if errors.Is(err, accounts.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	var config map[string]json.RawMessage
	var ref struct {
		Secret string `json:"secret"`
	}
	uses := there.Account.Kind == kind && json.Unmarshal(there.Account.Config, &config) == nil && json.Unmarshal(config[field], &ref) == nil && ref.Secret == name
	return uses, nil
}

// Register registers an account, or merges config into that of an existing one and puts it back into
// circulation, with its id, cursor and history. It may be repeated.
func Register(ctx context.Context, registry *accounts.Registry, a accounts.Account, config json.RawMessage) (again bool, err error) {
	if _, err = registry.Create(ctx, a); !errors.Is(err, accounts.ErrExists) {
		return false, err
	}
	there, err := registry.Get(ctx, a.ID)
	if err != nil {
		return true, err
	}
	if there.Kind != a.Kind {
		return true, ErrKind
	}
	patch, err := json.Marshal(map[string]json.RawMessage{"config": config})
	if err != nil {
		return true, err
	}
	if _, _, err = registry.Patch(ctx, a.ID, patch, accounts.Match{}); err != nil {
		return true, err
	}
	_, err = registry.Resume(ctx, a.ID)
	return true, err
}
