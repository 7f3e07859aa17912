// Package scan signs a WeChat account in by a code that a phone scans, step by step. Any process of
// the namespace can do any step.
//
// See package login for how a sign-in under way is stored.
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
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/cmd/rounds/login"
)

const (
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
	// Tell returns what may be shown of an error; nil: the text of a login.Error, and no more.
	Tell func(ctx context.Context, err error) string

	calls calls
}

func (d *Desk) book() login.Book { return login.Book{Ring: d.Ring, Use: "rounds weixin sign-in 1"} }

// Begin draws a code at a base, or at Server.Base if that is empty, for an account. If the account
// is not registered yet, it will be registered as a says, except for a.Config. If it is, it is signed in
// again, and its record stays as it is. The errors are accounts.Faults, login.ErrKind, ErrTaken, and the
// server's.
func (d *Desk) Begin(ctx context.Context, registry *accounts.Registry, by login.By, a accounts.Account, base string) (*Login, error) {
	base = strings.TrimRight(cmp.Or(base, d.Server.Base), "/")
	existing, err := registry.Get(ctx, a.ID)
	switch {
	case err == nil && existing.Account.Kind != d.Server.Kind:
		return nil, login.ErrKind
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
	k.State, k.Drawn, k.Until = Waiting, 1, time.Now().Add(login.Life)
	name, err := d.book().Put(ctx, by.Name, k.Until, k)
	if err != nil {
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
	ours, err := login.Uses(ctx, registry, k.ID, d.Server.Kind, "token", name)
	if err == nil && !ours {
		return ErrTaken
	}
	return err
}

// config returns the config of an account whose token is stored.
func (d *Desk) config(id, base string) json.RawMessage {
	text, err := json.Marshal(map[string]any{"token": map[string]string{"secret": SecretOf(id)}, "base_url": base})
	if err != nil {
		return json.RawMessage("{}") // it consists of strings
	}
	return text
}

// SecretOf returns the name of the secret in which an account's token is stored.
func SecretOf(id string) string { return login.SecretOf("weixin-", id) }

func (k *kept) login(name string) *Login {
	l := &Login{Name: name, Account: k.ID, State: k.State, Link: k.Link, Drawn: k.Drawn, Wrong: k.State == Digits && k.Tried, Trouble: k.Trouble, Until: k.Until}
	if k.State == Done || k.State == Expired || k.State == Bound {
		l.Link = ""
	}
	return l
}

// replace stores the new state of a sign-in. It returns document.ErrChanged if somebody else has
// changed the sign-in since it was read, and login.ErrNone if it has ended.
func (d *Desk) replace(ctx context.Context, name string, k *kept) error {
	sealed, err := d.book().Replace(ctx, name, k.sealed, k)
	if err == nil {
		k.sealed = sealed
	}
	return err
}

// get returns a sign-in, or login.ErrNone.
func (d *Desk) get(ctx context.Context, name string) (*kept, error) {
	k := &kept{}
	var err error
	if k.sealed, err = d.book().Get(ctx, name, k); err != nil {
		return nil, err
	}
	return k, nil
}
