// Package mailbox signs mailboxes in at a provider such as Google or Microsoft, step by step. Any
// process of the namespace can do any step. See package login for how a sign-in under way is stored.
//
// Where the provider has device codes, a person types a code in there, on any device, and this
// package asks from time to time what became of it. Otherwise a browser goes to the provider and
// comes back to an address with a code, which the caller passes on.
//
// Once the person has consented, the refresh token is first stored with the sign-in, then stored as
// a secret that is bound to the provider's host and to the account's mail servers, and then the
// account is registered. Each of these steps may be repeated, so a process that dies half way loses
// nothing. An existing secret is replaced only if the account uses it, or if the principal may
// replace any secret. A sign-in that is abandoned before that leaves nothing behind.
package mailbox

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/document"
	"github.com/rounds-dev/rounds/cmd/rounds/login"
)

const (
	maxRecord   = 4 << 10 // bytes
	maxRedirect = 1 << 10
	maxTrouble  = 512

	// MaxHold is the longest that Follow waits.
	MaxHold = 45 * time.Second

	lookAgain = 500 * time.Millisecond // while Follow waits for other processes
	slower    = 5 * time.Second        // RFC 8628, section 3.5
)

// The states of a sign-in.
const (
	Waiting = "wait"      // nobody has consented yet
	Refused = "refused"   // nobody will: the provider refused, or the time is over
	Done    = "confirmed" // the account is registered
)

// The reasons why a step is refused.
var (
	ErrTaken = errors.New("a secret is stored under the name that the refresh token would have, and no mailbox of this id uses it: take another id, or have an admin remove the secret")
	// ErrRefused is returned by Server's functions if the provider or the person has refused.
	ErrRefused = errors.New("the provider refused the sign-in")
	// ErrState is returned by Server.Exchange if the browser brings another sign-in back.
	ErrState = errors.New("is of another sign-in than the one that was begun")
	// ErrNoRedirect is returned by Server.Begin if the browser must come back, and nobody has said
	// where to.
	ErrNoRedirect = errors.New("missing: the provider has no device code, so the browser must come back to an address")
)

// Pending is a sign-in to which nobody has consented.
type Pending struct {
	Secret   json.RawMessage `json:"secret"` // Server's own
	Page     string          `json:"page"`   // where the person goes
	UserCode string          `json:"user_code,omitempty"`
	Interval time.Duration   `json:"interval,omitempty"` // between two calls of Poll; 0: the browser comes back instead
	Until    time.Time       `json:"until,omitzero"`     // when the user code expires; zero: not before the sign-in
}

// Grant is what a sign-in leads to.
type Grant struct {
	Text  string   `json:"text"`  // the value of the secret
	Hosts []string `json:"hosts"` // the provider's, to which it goes
}

// Server has the providers for accounts of a kind.
type Server struct {
	Kind     string                      // of the accounts
	Cadence  string                      // of a new account, if nobody has named one
	Validate func(provider string) error // judges a provider's name
	// Config returns the config of a new account, without oauth.
	Config func(user, host string) map[string]any
	// Own returns what a config says: who is signed in, and the servers that get access tokens.
	Own func(config json.RawMessage) (user string, hosts []string)
	// Hosts returns the mail servers of a provider, the one that has the mailboxes first; none: the
	// caller has to name one.
	Hosts func(provider string) []string

	// Begin begins a sign-in for a mailbox' user. redirect is where the browser shall come back to.
	Begin func(ctx context.Context, provider, user, redirect string) (*Pending, error)
	// Poll asks once what became of a device code. Without a grant and an error there is nothing yet,
	// and slower says that the provider wants to be asked less often.
	Poll func(ctx context.Context, p *Pending) (g *Grant, slower bool, err error)
	// Exchange ends a sign-in with what the browser brings back.
	Exchange func(ctx context.Context, p *Pending, state, code, issuer string) (*Grant, error)
}

// ConfigOfIMAP is the Config of a Server for accounts that are reached over IMAP.
func ConfigOfIMAP(user, host string) map[string]any {
	return map[string]any{"user": user, "host": host}
}

// OwnOfIMAP is the Own of such a Server.
func OwnOfIMAP(raw json.RawMessage) (user string, hosts []string) {
	var config struct {
		User string `json:"user"`
		Host string `json:"host"`
		SMTP struct {
			Host string `json:"host"`
		} `json:"smtp"`
	}
	_ = json.Unmarshal(raw, &config) // what cannot be read is missing
	return config.User, []string{config.Host, config.SMTP.Host}
}

// Request is a mailbox to sign in.
type Request struct {
	Account  accounts.Account // without its config; without a kind: it is the first Server's
	Provider string
	User     string // of a new account
	Host     string // of a new account; empty: the provider's
	Redirect string
}

// Login is a sign-in as its owner sees it.
type Login struct {
	Name     string // a secret of its owner
	Account  string
	State    string
	Page     string // where the person goes; empty once it is over
	UserCode string // what to type in there; empty: the browser comes back instead
	Trouble  string // why the last call found nothing; empty: it found something. Another call is made
	Until    time.Time
}

// kept is what Redis stores about a sign-in, sealed.
type kept struct {
	Record  json.RawMessage `json:"record"` // the account to register
	ID      string          `json:"id"`
	Kind    string          `json:"kind"`
	Hosts   []string        `json:"hosts"` // the account's mail servers
	Pending Pending         `json:"pending"`
	State   string          `json:"state"`
	Grant   *Grant          `json:"grant,omitempty"`
	Next    time.Time       `json:"next,omitzero"` // when to call Poll
	Until   time.Time       `json:"until"`

	// MayReplace says that the principal may replace any stored secret.
	MayReplace bool `json:"may_replace,omitempty"`
	// Free says that, when the person had consented, the name of the secret was free or the secret
	// was the account's.
	Free bool `json:"free,omitempty"`

	Trouble string `json:"trouble,omitempty"`

	sealed []byte // the form in Redis
}

// Desk makes sign-ins. It is safe for concurrent use.
type Desk struct {
	Ring    *circulate.Ring
	Servers []Server // one at least, for a kind each
	// Keep stores a secret that is bound to hosts, for accounts of a kind.
	Keep func(ctx context.Context, kind, name string, hosts []string, text string) error
	// Stored reports whether a secret is stored.
	Stored func(ctx context.Context, name string) (bool, error)
	// Note is called for each account that was signed in, with whether it existed before.
	Note func(ctx context.Context, id string, again bool)
	// Tell returns what may be shown of an error.
	Tell func(ctx context.Context, err error) string
}

// server returns the server of a kind, or nil.
func (d *Desk) server(kind string) *Server {
	for i := range d.Servers {
		if d.Servers[i].Kind == kind {
			return &d.Servers[i]
		}
	}
	return nil
}

func (d *Desk) book() login.Book { return login.Book{Ring: d.Ring, Use: "rounds mailbox sign-in 1"} }

// SecretOf returns the name of the secret in which what an account's sign-in leads to is stored.
func SecretOf(id string) string { return login.SecretOf("mail-", id) }

// Begin begins the sign-in of a mailbox. If the account is not registered yet, it will be registered
// as the request says. If it is, it is signed in again, and its record stays as it is, except that
// oauth replaces a password. The errors are accounts.Faults, login.ErrKind, ErrTaken, and the
// server's.
func (d *Desk) Begin(ctx context.Context, registry *accounts.Registry, by login.By, r Request) (*Login, error) {
	existing, err := registry.Get(ctx, r.Account.ID)
	isNew := errors.Is(err, accounts.ErrNotFound)
	if err != nil && !isNew {
		return nil, err
	}
	a := r.Account
	if isNew {
		a.Kind = cmp.Or(a.Kind, d.Servers[0].Kind)
	} else {
		a = existing.Account
	}
	at := d.server(a.Kind)
	switch {
	case !isNew && (at == nil || r.Account.Kind != "" && r.Account.Kind != a.Kind):
		return nil, login.ErrKind
	case at == nil:
		return nil, accounts.Faults{{Field: "kind", Reason: "accounts of this kind are not signed in like that"}}
	}
	k := &kept{ID: r.Account.ID, Kind: a.Kind, MayReplace: by.MayReplace, State: Waiting}
	if err := d.judge(ctx, registry, at, &a, r, isNew); err != nil {
		return nil, err
	}
	if err := d.checkFree(ctx, registry, k); err != nil {
		return nil, err
	}
	user, own := at.Own(a.Config)
	user, k.Hosts = cmp.Or(user, r.User), at.mailHosts(r.Provider, own)
	if k.Record, err = json.Marshal(a); err != nil {
		return nil, err
	}
	if len(k.Record) > maxRecord {
		return nil, accounts.Faults{{Field: "id", Reason: fmt.Sprintf("a sign-in keeps at most %d bytes of a record", maxRecord)}}
	}
	p, err := at.Begin(ctx, r.Provider, user, r.Redirect)
	if errors.Is(err, ErrNoRedirect) {
		return nil, accounts.Faults{{Field: "redirect_uri", Reason: ErrNoRedirect.Error()}}
	}
	if err != nil {
		return nil, err
	}
	k.Pending, k.Until = *p, time.Now().Add(login.Life)
	if !p.Until.IsZero() && p.Until.Before(k.Until) {
		k.Until = p.Until
	}
	if p.Interval > 0 {
		k.Next = time.Now().Add(p.Interval)
	}
	name, err := d.book().Put(ctx, by.Name, k.Until, k)
	if err != nil {
		return nil, err
	}
	return k.login(name), nil
}

// mailHosts returns the mail servers to which an account's access tokens go: its own, and the
// provider's if the account's is one of them, so that sending can be configured later.
func (at *Server) mailHosts(provider string, own []string) []string {
	hosts := slices.DeleteFunc(own, func(host string) bool { return host == "" })
	if theirs := at.Hosts(provider); len(hosts) > 0 && slices.Contains(theirs, hosts[0]) {
		hosts = append(hosts, theirs...)
	}
	slices.Sort(hosts)
	return slices.Compact(hosts)
}

// judge returns everything that is wrong with a request, and completes the config of a new account.
func (d *Desk) judge(ctx context.Context, registry *accounts.Registry, at *Server, a *accounts.Account, r Request, isNew bool) error {
	var faults accounts.Faults
	if err := at.Validate(r.Provider); err != nil {
		faults.Add("provider", err.Error())
	}
	if r.Redirect != "" && !mayReturn(r.Redirect) {
		faults.Add("redirect_uri", "must be an https URL, or an http URL of this machine such as http://127.0.0.1:8765/")
	}
	wanted := at.Config(r.User, r.Host)
	if _, has := wanted["host"]; !has && r.Host != "" {
		faults.Add("host", "an account of this kind has none")
	}
	if !isNew {
		config := make(map[string]any)
		_ = json.Unmarshal(a.Config, &config) // a registered config is an object
		for _, f := range [][2]string{{"user", r.User}, {"host", r.Host}} {
			if _, has := wanted[f[0]]; has && f[1] != "" && config[f[0]] != f[1] {
				faults.Add(f[0], "the account exists and has another one: leave it out, or change the account first")
			}
		}
		delete(config, "password")
		config["oauth"] = refTo(a.ID)
		text, err := json.Marshal(config)
		a.Config = text
		return errors.Join(err, faults.Err())
	}
	if theirs := at.Hosts(r.Provider); r.Host == "" && len(theirs) > 0 {
		wanted = at.Config(r.User, theirs[0])
	}
	a.Cadence = cmp.Or(a.Cadence, at.Cadence)
	wanted["oauth"] = refTo(a.ID)
	var err error
	if a.Config, err = json.Marshal(wanted); err != nil {
		return err
	}
	record, err := json.Marshal(a)
	if err != nil {
		return err
	}
	var more accounts.Faults
	if _, err = registry.Read(ctx, "", record); err != nil && !errors.As(err, &more) {
		return err
	}
	for _, f := range more {
		faults.Add(strings.TrimPrefix(f.Field, "config."), f.Reason)
	}
	return faults.Err()
}

// mayReturn reports whether a browser may be sent to an address with a code: over https, or to its own
// machine.
func mayReturn(redirect string) bool {
	u, err := url.Parse(redirect)
	if err != nil || len(redirect) > maxRedirect || u.Fragment != "" || u.User != nil || u.Host == "" {
		return false
	}
	switch host := u.Hostname(); u.Scheme {
	case "https":
		return true
	case "http":
		return host == "127.0.0.1" || host == "::1" || host == "localhost"
	}
	return false
}

// refTo returns the config's reference to an account's secret.
func refTo(id string) map[string]string { return map[string]string{"secret": SecretOf(id)} }

// checkFree returns ErrTaken if the sign-in's secret would replace one that is not the account's.
func (d *Desk) checkFree(ctx context.Context, registry *accounts.Registry, k *kept) error {
	taken, err := d.Stored(ctx, SecretOf(k.ID))
	if err != nil || !taken || k.MayReplace {
		return err
	}
	ours, err := login.Uses(ctx, registry, k.ID, k.Kind, "oauth", SecretOf(k.ID))
	if err == nil && !ours {
		return ErrTaken
	}
	return err
}

func (k *kept) login(name string) *Login {
	l := &Login{Name: name, Account: k.ID, State: k.State, Page: k.Pending.Page, UserCode: k.Pending.UserCode, Trouble: k.Trouble, Until: k.Until}
	if k.over() {
		l.Page, l.UserCode = "", ""
	}
	return l
}

// over reports whether nothing more happens.
func (k *kept) over() bool { return k.State == Done || k.State == Refused }

// get returns a sign-in, or login.ErrNone.
func (d *Desk) get(ctx context.Context, name string) (*kept, error) {
	k := &kept{}
	var err error
	if k.sealed, err = d.book().Get(ctx, name, k); err != nil {
		return nil, err
	}
	return k, nil
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

// update changes a sign-in and stores it, whatever others change meanwhile. change returns false if
// there is nothing to change any more.
func (d *Desk) update(ctx context.Context, name string, change func(*kept) bool) (*kept, error) {
	for range 10 {
		k, err := d.get(ctx, name)
		if err != nil || !change(k) {
			return k, err
		}
		if err = d.replace(ctx, name, k); !errors.Is(err, document.ErrChanged) {
			return k, err
		}
	}
	return nil, errors.New("the sign-in changes all the time")
}
