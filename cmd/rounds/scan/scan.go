// Package scan signs a WeChat account in by a code that a phone scans, step by step. Any process of
// the namespace can do any step.
//
// Redis stores a sign-in for a quarter of an hour under a name that nobody can guess, sealed with a
// key that is derived from that name. A reader of Redis can therefore neither follow a sign-in nor
// take its token. Redis has only the digest of the name. Each principal has at most a thousand
// sign-ins at once; a further one ends the oldest.
//
// Once the phone has confirmed, the token is first stored with the sign-in, then stored as a secret
// that is bound to the account's server, and then the account is registered. Each of these steps
// may be repeated, so a process that dies half way loses nothing: the next step, at any process,
// goes on. An existing secret is replaced only if the account uses it, or if the principal may
// replace any secret. A sign-in that is abandoned before that leaves nothing behind.
package scan

import (
	"cmp"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/document"
)

const (
	life      = 15 * time.Minute
	maxRecord = 1 << 10
	maxDigits = 16

	maxTrouble = 512 // bytes
)

// MaxDrawn is how many codes a sign-in has.
const MaxDrawn = 3

// The states of a sign-in.
const (
	Waiting = "wait"      // nobody has scanned the code
	Scanned = "scanned"   // the phone asks its owner to confirm
	Digits  = "digits"    // the phone shows digits, which have to be typed in here
	Again   = "drawn"     // the code expired, or wrong digits blocked it, and there is another one
	Expired = "expired"   // the last code has expired, or was blocked
	Bound   = "bound"     // the account was already bound to this client: nothing has changed
	Done    = "confirmed" // the account is registered
)

// The reasons why a step is refused.
var (
	ErrNone   = errors.New("there is no such sign-in, or it has ended")
	ErrKind   = errors.New("an account of another kind has this id")
	ErrTaken  = errors.New("a secret is stored under the name that the token would have, and no WeChat account of this id uses it: take another id, or have an admin remove the secret")
	ErrDigits = errors.New("must be 1 to 16 digits")
)

// Code is a code to be scanned.
type Code struct{ QRCode, Link string }

// Told is what the third party says about a code. The words are its own.
type Told struct{ Status, Base, Token, Bot string }

// Server is the third party.
type Server struct {
	Base string // where signing in begins unless the caller says otherwise
	Kind string // of the accounts
	// Validate judges a base that the caller names.
	Validate func(base string) error
	// NewCode asks for a code, and Ask asks what became of it. Ask holds until something happens.
	// Their errors may be shown.
	NewCode func(ctx context.Context, base string) (Code, error)
	Ask     func(ctx context.Context, base, qrcode, digits string) (Told, error)
}

// Login is a sign-in as its owner sees it.
type Login struct {
	Name    string // a secret of its owner
	Account string
	State   string
	Link    string // the text to draw; empty once it is over
	Drawn   int    // codes so far
	Wrong   bool   // with Digits: the last digits were wrong
	Trouble string // why the last call found nothing; empty: it found something. Another call is made
	Until   time.Time
}

// kept is what Redis stores about a sign-in, sealed.
type kept struct {
	Record json.RawMessage `json:"record"` // the account to register, without its config
	ID     string          `json:"id"`
	QRCode string          `json:"qrcode"`
	Link   string          `json:"link"`
	Origin string          `json:"origin"` // where codes are drawn
	Base   string          `json:"base"`   // where the code is followed
	State  string          `json:"state"`
	Drawn  int             `json:"drawn"`
	Tried  bool            `json:"tried,omitempty"` // digits were typed in
	Token  string          `json:"token,omitempty"`
	Until  time.Time       `json:"until"`

	// MayReplace says that the principal may replace any stored secret.
	MayReplace bool `json:"may_replace,omitempty"`
	// Free says that, when the phone had confirmed, the name of the secret was free or the secret was
	// the account's.
	Free bool `json:"free,omitempty"`

	Trouble string `json:"trouble,omitempty"`

	sealed []byte // the form in Redis
}

// Desk makes sign-ins. It is safe for concurrent use.
type Desk struct {
	Ring   *circulate.Ring
	Server Server
	// Keep stores the token as a secret that is bound to a base URL.
	Keep func(ctx context.Context, name, base, token string) error
	// Stored reports whether a secret is stored.
	Stored func(ctx context.Context, name string) (bool, error)
	// Note is called for each account that was signed in, with whether it existed before.
	Note func(ctx context.Context, id string, again bool)
	// Tell returns what may be shown of an error; nil: the text of an Error, and no more.
	Tell func(ctx context.Context, err error) string

	calls calls
}

// Error is a failure of the third party, in a text that may be shown.
type Error struct{ Code, Text string }

// Error returns the code and the text.
func (e *Error) Error() string { return e.Code + ": " + e.Text }

func (d *Desk) store() document.Sessions { return document.Of(d.Ring).Sessions(document.SigningIn) }

// By is the principal that begins a sign-in.
type By struct {
	Name       string // the principal's name; each principal may have a limited number of sign-ins under way
	MayReplace bool   // may replace any stored secret
}

// Begin draws a code at a base, or at Server.Base if that is empty, for an account. If the account
// is not registered yet, it will be registered as a says, except for a.Config. If it is, it is signed in
// again, and its record stays as it is. The errors are accounts.Faults, ErrKind, ErrTaken, and the
// server's.
func (d *Desk) Begin(ctx context.Context, registry *accounts.Registry, by By, a accounts.Account, base string) (*Login, error) {
	base = strings.TrimRight(cmp.Or(base, d.Server.Base), "/")
	existing, err := registry.Get(ctx, a.ID)
	switch {
	case err == nil && existing.Account.Kind != d.Server.Kind:
		return nil, ErrKind
	case err != nil && !errors.Is(err, accounts.ErrNotFound):
		return nil, err
	}
	if err := d.judge(ctx, registry, a, base, err != nil); err != nil {
		return nil, err
	}
	k := &kept{ID: a.ID, MayReplace: by.MayReplace}
	if err := d.checkFree(ctx, registry, k); err != nil {
		return nil, err
	}
	a.Config = nil
	record, err := json.Marshal(a)
	if err != nil {
		return nil, err
	}
	if len(record) > maxRecord {
		return nil, accounts.Faults{{Field: "labels", Reason: fmt.Sprintf("a sign-in keeps at most %d bytes of a record", maxRecord)}}
	}
	code, err := d.Server.NewCode(ctx, base)
	if err != nil {
		return nil, err
	}
	k.Record, k.QRCode, k.Link, k.Origin, k.Base = record, code.QRCode, code.Link, base, base
	k.State, k.Drawn, k.Until = Waiting, 1, time.Now().Add(life)
	name := rand.Text() + rand.Text()
	if err := d.put(ctx, name, by.Name, k); err != nil {
		return nil, err
	}
	return k.login(name), nil
}

// judge returns everything that is wrong with a base and, for a new account, with a record apart
// from its config.
func (d *Desk) judge(ctx context.Context, registry *accounts.Registry, a accounts.Account, base string, isNew bool) error {
	var faults, more accounts.Faults
	if err := d.Server.Validate(base); err != nil {
		faults.Add("base_url", err.Error())
		base = d.Server.Base
	}
	if isNew {
		a.Kind, a.Config = d.Server.Kind, d.config(a.ID, base)
		record, err := json.Marshal(a)
		if err != nil {
			return err
		}
		_, err = registry.Read(ctx, "", record)
		if err != nil && !errors.As(err, &more) {
			return err
		}
	}
	if faults = append(faults, more...); len(faults) > 0 {
		return faults
	}
	return nil
}

// checkFree returns ErrTaken if the token's secret would replace one that is not the account's.
func (d *Desk) checkFree(ctx context.Context, registry *accounts.Registry, k *kept) error {
	name := SecretOf(k.ID)
	taken, err := d.Stored(ctx, name)
	if err != nil || !taken || k.MayReplace {
		return err
	}
	there, err := registry.Get(ctx, k.ID)
	if errors.Is(err, accounts.ErrNotFound) {
		return ErrTaken
	}
	if err != nil {
		return err
	}
	var config struct {
		Token struct {
			Secret string `json:"secret"`
		} `json:"token"`
	}
	if there.Account.Kind != d.Server.Kind || json.Unmarshal(there.Account.Config, &config) != nil || config.Token.Secret != name {
		return ErrTaken
	}
	return nil
}

// config returns the config of an account whose token is stored.
func (d *Desk) config(id, base string) json.RawMessage {
	text, err := json.Marshal(map[string]any{"token": map[string]string{"secret": SecretOf(id)}, "base_url": base})
	if err != nil {
		return json.RawMessage("{}") // it consists of strings
	}
	return text
}

// SecretOf returns the name of the secret in which an account's token is stored: weixin- and the
// id, if its characters are allowed in a name, or else a digest of the id. No two ids share a name:
// an id that looks like a digest has a digest of its own.
func SecretOf(id string) string {
	const prefix, digest = "weixin-", "sha256-"
	plain := !strings.HasPrefix(id, digest) && len(id) <= 40 && strings.Trim(id, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == ""
	if plain {
		return prefix + id
	}
	sum := sha256.Sum256([]byte(id))
	return prefix + digest + hex.EncodeToString(sum[:16])
}

func (k *kept) login(name string) *Login {
	l := &Login{Name: name, Account: k.ID, State: k.State, Link: k.Link, Drawn: k.Drawn, Wrong: k.State == Digits && k.Tried, Trouble: k.Trouble, Until: k.Until}
	if k.State == Done || k.State == Expired || k.State == Bound {
		l.Link = ""
	}
	return l
}

// put stores a new sign-in, sealed.
func (d *Desk) put(ctx context.Context, name, owner string, k *kept) error {
	sealed, err := k.seal(name)
	if err != nil {
		return err
	}
	return d.store().Put(ctx, name, owner, sealed, time.Until(k.Until))
}

// replace stores the new state of a sign-in. It returns document.ErrChanged if somebody else has
// changed the sign-in since it was read, and ErrNone if it has ended.
func (d *Desk) replace(ctx context.Context, name string, k *kept) error {
	sealed, err := k.seal(name)
	if err != nil {
		return err
	}
	err = d.store().Replace(ctx, name, k.sealed, sealed)
	switch {
	case errors.Is(err, document.ErrNone):
		return ErrNone
	case err != nil:
		return err
	}
	k.sealed = sealed
	return nil
}

// seal returns the text of a sign-in for Redis.
func (k *kept) seal(name string) ([]byte, error) {
	text, err := json.Marshal(k)
	if err != nil {
		return nil, err
	}
	aead, err := sealer(name)
	if err != nil {
		return nil, err
	}
	return aead.Seal(nil, nil, text, nil), nil
}

// get returns a sign-in, or ErrNone.
func (d *Desk) get(ctx context.Context, name string) (*kept, error) {
	if len(name) < 32 || len(name) > 128 {
		return nil, ErrNone
	}
	sealed, _, err := d.store().Get(ctx, name)
	switch {
	case errors.Is(err, document.ErrNone):
		return nil, ErrNone
	case err != nil:
		return nil, err
	}
	aead, err := sealer(name)
	if err != nil {
		return nil, err
	}
	text, err := aead.Open(nil, nil, sealed, nil)
	k := &kept{sealed: sealed}
	if err != nil || json.Unmarshal(text, k) != nil {
		return nil, ErrNone
	}
	return k, nil
}

// sealer returns the AEAD of a sign-in, which puts a nonce in front of what it seals. Its key is
// derived from the name, which Redis does not have.
func sealer(name string) (cipher.AEAD, error) {
	key, err := hkdf.Key(sha256.New, []byte(name), nil, "rounds weixin sign-in 1", 32)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}
