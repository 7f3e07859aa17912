package signin

import (
	"cmp"
	"context"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"
	"unicode"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
	"golang.org/x/sync/singleflight"

	"github.com/rounds-dev/rounds/accounts/access"
)

const (
	// within is how long somebody may take to sign in at the provider.
	within = 10 * time.Minute
	// leeway is how far the clocks of the provider and of other processes may be ahead.
	leeway = time.Minute
)

var (
	// errAway reports a provider that could not be reached, or whose answer was wrong.
	errAway = errors.New("idp: the identity provider cannot be used now")
	// errStale reports a sign-in that this browser did not begin, or that took too long.
	errStale = errors.New("idp: the browser has no such sign-in under way")
	// errRefused reports a provider's answer that does not prove who came back.
	errRefused = errors.New("idp: the answer of the identity provider is invalid")
	// errNoGrant reports a person none of whose groups has a grant.
	errNoGrant = errors.New("idp: none of the person's groups is granted a role")
)

// ProviderConfig says which provider to use and what its groups may do.
type ProviderConfig struct {
	Issuer, ClientID, ClientSecret string
	RedirectURL                    string // where the provider sends people back to
	GroupsClaim                    string // empty: the claim "groups"
	Grants                         []Grant

	Timeout time.Duration // the time-out of one request to the provider; 0: 10 s
}

// ProviderFault is a fault of one field of a config.
type ProviderFault struct{ Field, Reason string }

// Faults returns all faults of the config.
func (c ProviderConfig) Faults() []ProviderFault {
	var faults []ProviderFault
	fault := func(field, reason string) { faults = append(faults, ProviderFault{field, reason}) }
	if err := checkURL(c.Issuer); err != nil {
		fault("Issuer", err.Error())
	} else if u, _ := url.Parse(c.Issuer); u.RawQuery != "" {
		fault("Issuer", "must have no query")
	}
	if err := checkURL(c.RedirectURL); err != nil {
		fault("RedirectURL", err.Error())
	} else if u, _ := url.Parse(c.RedirectURL); u.Path != CallbackPath || u.RawQuery != "" {
		fault("RedirectURL", "must have the path "+CallbackPath+" and no query")
	}
	if c.ClientID == "" {
		fault("ClientID", "must be set")
	}
	if c.ClientSecret == "" {
		fault("ClientSecret", "must be set")
	}
	if len(c.Grants) == 0 {
		fault("Grants", "must grant a role to at least one group")
	}
	return faults
}

// CallbackPath is the path to which the provider sends people back.
const CallbackPath = "/signin/callback"

// Provider is an identity provider. It is safe for concurrent use.
type Provider struct {
	config ProviderConfig
	client *http.Client
	sealer Sealer

	asking singleflight.Group
	known  atomic.Pointer[known]
	failed atomic.Pointer[failure]
}

// failure is why the provider could not be asked.
type failure struct {
	err error
	at  time.Time
}

// Sealer returns the cipher that seals sign-ins under way. All processes must have the same.
// Its error is one of Redis.
type Sealer func(context.Context) (cipher.AEAD, error)

// NewProvider returns the provider of a config, which must have no Faults. It makes no request.
func NewProvider(config ProviderConfig, sealer Sealer) *Provider {
	config.GroupsClaim = cmp.Or(config.GroupsClaim, "groups")
	return &Provider{config: config, client: newClient(cmp.Or(config.Timeout, answerTime)), sealer: sealer}
}

// ProviderStart is a sign-in that has begun.
type ProviderStart struct {
	Address string // where to send the browser
	State   string // identifies the sign-in; the provider sends it back with the browser
	Sealed  string // what the browser must bring back too; it fits into a cookie
}

// under is the sealed part of a sign-in under way.
type under struct {
	Nonce    string    `json:"nonce"`
	Verifier string    `json:"verifier"`
	Next     string    `json:"next"`
	Began    time.Time `json:"began"`
}

// Begin begins a sign-in. It keeps nothing of it, so there is no limit that others could
// exhaust. [Provider.End] returns next unchanged. The error is errAway or one of Redis.
func (p *Provider) Begin(ctx context.Context, next string) (ProviderStart, error) {
	k, err := p.described(ctx)
	if err != nil {
		return ProviderStart{}, err
	}
	state := rand.Text()
	u := under{Nonce: rand.Text(), Verifier: oauth2.GenerateVerifier(), Next: next, Began: time.Now()}
	sealed, err := p.seal(ctx, state, u)
	if err != nil {
		return ProviderStart{}, err
	}
	address := k.config.AuthCodeURL(state, oidc.Nonce(u.Nonce), oauth2.S256ChallengeOption(u.Verifier))
	if k.push != "" {
		to, err := url.Parse(address)
		if err != nil {
			return ProviderStart{}, fmt.Errorf("idp: %w", err)
		}
		if address, err = p.pushed(ctx, k, to.Query()); err != nil {
			return ProviderStart{}, err
		}
	}
	return ProviderStart{address, state, sealed}, nil
}

// bound returns what a sealed sign-in is bound to. The cipher has other uses too.
func (p *Provider) bound(state string) []byte {
	return []byte(strings.Join([]string{"sign-in", p.config.Issuer, p.config.ClientID, state}, "\n"))
}

func (p *Provider) seal(ctx context.Context, state string, u under) (string, error) {
	text, err := json.Marshal(u)
	if err != nil {
		return "", fmt.Errorf("idp: %w", err)
	}
	sealer, err := p.sealer(ctx)
	if err != nil {
		return "", err
	}
	return base64.RawURLEncoding.EncodeToString(sealer.Seal(nil, nil, text, p.bound(state))), nil
}

// open opens what seal sealed for the same state. It returns errStale for anything else, and
// for a sign-in that took too long.
func (p *Provider) open(ctx context.Context, state, sealed string) (under, error) {
	var u under
	text, err := base64.RawURLEncoding.DecodeString(sealed)
	if err != nil {
		return u, errStale
	}
	sealer, err := p.sealer(ctx)
	if err != nil {
		return u, err
	}
	if text, err = sealer.Open(nil, nil, text, p.bound(state)); err != nil || json.Unmarshal(text, &u) != nil {
		return u, errStale
	}
	if age := time.Since(u.Began); age > within || age < -leeway {
		return u, errStale
	}
	return u, nil
}

// Person is a person who has signed in.
type Person struct {
	Holder
	Principal access.Principal
	Next      string // the argument of Begin
	IDToken   string // for SignOut
}

// End ends a sign-in with what the browser brings back: the state, what Begin sealed, and the
// code and the issuer that the provider added. It returns errStale, errRefused, errNoGrant or
// errAway, or an error of Redis. With errNoGrant the person has a name.
//
// The provider takes a code once, so a sign-in can be ended once.
func (p *Provider) End(ctx context.Context, state, sealed, code, issuer string) (Person, error) {
	u, err := p.open(ctx, state, sealed)
	if err != nil {
		return Person{}, err
	}
	if issuer != "" && issuer != p.config.Issuer {
		return Person{}, fmt.Errorf("%w: it is another issuer's", errRefused)
	}
	k, err := p.described(ctx)
	if err != nil {
		return Person{}, err
	}
	ctx = oidc.ClientContext(ctx, p.client)
	token, err := k.config.Exchange(ctx, code, oauth2.VerifierOption(u.Verifier))
	if err != nil {
		if refused, ok := errors.AsType[*oauth2.RetrieveError](err); ok && refused.Response != nil && refused.Response.StatusCode/100 == 4 {
			return Person{}, fmt.Errorf("%w: the code was refused: %s", errRefused, p.told(err))
		}
		return Person{}, p.away("the code", err)
	}
	claims, err := p.read(ctx, k, token, u.Nonce)
	if err != nil {
		return Person{}, err
	}
	who, err := p.person(claims, u.Next)
	who.IDToken, _ = token.Extra("id_token").(string) // read has found one
	return who, err
}

// claims is what the provider says about a person.
type claims struct {
	Subject  string  `json:"sub"`
	Username string  `json:"preferred_username"`
	Email    string  `json:"email"`
	Verified any     `json:"email_verified"` // some providers write it as text
	Party    string  `json:"azp"`
	From     float64 `json:"nbf"`
	groups   []string
}

// read verifies an ID token and reads it.
func (p *Provider) read(ctx context.Context, k *known, token *oauth2.Token, nonce string) (claims, error) {
	var c claims
	raw, ok := token.Extra("id_token").(string)
	if !ok {
		return c, fmt.Errorf("%w: there is no ID token", errRefused)
	}
	id, err := k.verifier.Verify(ctx, raw)
	if err != nil {
		if strings.Contains(err.Error(), "fetching keys") {
			return c, p.away("its keys", err)
		}
		return c, fmt.Errorf("%w: %s", errRefused, p.told(err))
	}
	all := make(map[string]json.RawMessage)
	if err := errors.Join(id.Claims(&c), id.Claims(&all)); err != nil {
		return c, fmt.Errorf("%w: the claims cannot be read", errRefused)
	}
	if wrong := p.wrong(id, c, nonce, time.Now()); wrong != "" {
		return c, fmt.Errorf("%w: ID token: %s", errRefused, wrong)
	}
	if c.Subject == "" || len(c.Subject) > 255 {
		return c, fmt.Errorf("%w: the subject must have 1 to 255 bytes", errRefused)
	}
	_, grouped := all[p.config.GroupsClaim]
	if (!grouped || c.name() == c.Subject) && k.provider.UserInfoEndpoint() != "" {
		info, err := k.provider.UserInfo(ctx, oauth2.StaticTokenSource(token))
		if err != nil {
			return c, p.away("its userinfo", err)
		}
		if info.Subject != c.Subject {
			return c, fmt.Errorf("%w: userinfo is about somebody else", errRefused)
		}
		var more claims
		others := make(map[string]json.RawMessage)
		if err := errors.Join(info.Claims(&more), info.Claims(&others)); err != nil {
			return c, fmt.Errorf("%w: the claims of userinfo cannot be read", errRefused)
		}
		if !grouped {
			all[p.config.GroupsClaim] = others[p.config.GroupsClaim]
		}
		if c.Email == "" {
			c.Email, c.Verified = more.Email, more.Verified // Verified vouches for Email
		}
		c.Username = cmp.Or(c.Username, more.Username)
	}
	c.groups = groupsOf(all[p.config.GroupsClaim])
	return c, nil
}

// wrong returns what is wrong with a verified ID token by the rules that package oidc leaves to
// its callers (OpenID Connect Core, 3.1.3.7), or nothing.
func (p *Provider) wrong(id *oidc.IDToken, c claims, nonce string, now time.Time) string {
	now = now.Add(leeway)
	switch {
	case id.Nonce != nonce:
		return "nonce: is of another sign-in"
	case c.Party == "" && len(id.Audience) > 1:
		return "azp: missing, although there are several audiences"
	case c.Party != "" && c.Party != p.config.ClientID:
		return "azp: the token was issued to another client"
	case id.IssuedAt.IsZero():
		return "iat: missing"
	case id.IssuedAt.After(now):
		return "iat: is in the future: compare the clocks"
	case c.From > float64(now.Unix()):
		return "nbf: is in the future: compare the clocks"
	}
	return ""
}

// groupsOf reads a claim of groups: a list of names, or one name.
func groupsOf(text json.RawMessage) (groups []string) {
	var one string
	if json.Unmarshal(text, &one) == nil {
		return []string{one}
	}
	var all []any
	if json.Unmarshal(text, &all) != nil {
		return nil
	}
	for _, group := range all {
		if name, ok := group.(string); ok {
			groups = append(groups, name)
		}
	}
	return groups
}

func (p *Provider) person(c claims, next string) (Person, error) {
	person := Person{Next: next, Holder: Holder{
		Via: access.ViaOIDC, Name: p.nameOf(c), Issuer: p.config.Issuer, Subject: c.Subject, Groups: granted(p.config.Grants, c.groups),
	}}
	var err error
	if person.Principal, err = p.Principal(person.Holder); err != nil {
		return person, errNoGrant
	}
	return person, nil
}

// name returns a mail address that the provider has verified, or else the person's user name,
// or else the subject.
func (c claims) name() string {
	switch verified := fmt.Sprint(c.Verified) == "true"; {
	case verified && isName(c.Email) && strings.Contains(c.Email, "@"):
		return c.Email
	case isName(c.Username):
		return c.Username
	}
	return c.Subject
}

// nameOf returns the name of a person, followed by @ and the provider's host. So nobody's name at a
// provider is taken for access.TokenName, access.LocalName or the name of a key.
func (p *Provider) nameOf(c claims) string {
	host := ""
	if u, err := url.Parse(p.config.Issuer); err == nil {
		host = u.Hostname()
	}
	return oneLine(c.name(), 128) + "@" + host
}

func isName(text string) bool {
	return text != "" && len(text) <= 128 && !strings.ContainsFunc(text, func(c rune) bool { return !unicode.IsPrint(c) || c == ' ' || c == unicode.ReplacementChar })
}

// Principal returns the principal that a session's holder is now. It uses the current grants,
// and the groups that the person had when signing in. It returns ErrWrong if no grant
// applies.
func (p *Provider) Principal(h Holder) (access.Principal, error) {
	grant, ok := grantOf(p.config.Grants, h.Groups)
	if !ok || h.Via != access.ViaOIDC || h.Issuer != p.config.Issuer {
		return access.Principal{}, ErrWrong
	}
	return access.Principal{Name: h.Name, Role: grant.Role, Labels: grant.Labels, Via: access.ViaOIDC}, nil
}
