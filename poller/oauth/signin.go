package oauth

import (
	"context"
	"crypto/rand"
	"errors"
	"net/url"
	"time"

	"golang.org/x/oauth2"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/secrets"
)

// grantDevice is the grant type of RFC 8628.
const grantDevice = "urn:ietf:params:oauth:grant-type:device_code"

const (
	usualInterval = 5 * time.Second
	maxInterval   = time.Minute
	maxShown      = 2 << 10 // bytes of a text that a provider sends to be shown
)

// The reasons why a sign-in does not go on.
var (
	ErrNoRedirect = errors.New("the provider has no device code, so the sign-in needs an address to which the browser comes back")
	ErrState      = errors.New("the browser brings another sign-in back than the one that was begun")
	ErrRefused    = errors.New("the provider refused the sign-in, or nobody consented in time: begin again")
	ErrNoRefresh  = errors.New("the provider gave no refresh token: allow this service offline access there")
)

// Pending is a sign-in to which a person has not consented yet. Its JSON holds secrets.
type Pending struct {
	Provider string   `json:"provider"`
	Hosts    []string `json:"hosts"` // see Grant.Hosts

	// With a device code: what to show, and when to ask.
	DeviceCode string        `json:"device_code,omitempty"`
	UserCode   string        `json:"user_code,omitempty"`
	Interval   time.Duration `json:"interval,omitempty"`
	// Page is where a person goes: the page where the user code is typed in, or the page that asks
	// for consent and then sends the browser to Redirect.
	Page  string    `json:"page"`
	Until time.Time `json:"until,omitzero"` // when the device code expires

	Redirect string `json:"redirect,omitempty"`
	State    string `json:"state,omitempty"`
	Verifier string `json:"verifier,omitempty"`
}

// Begin begins a sign-in. user is the mailbox' user, as a hint for the provider's page. redirect is
// where the browser shall come back to, if the provider has no device code; without it such a
// provider is refused with ErrNoRedirect.
func (c *Client) Begin(ctx context.Context, provider, user, redirect string) (*Pending, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	a, failed := c.app(ctx, provider)
	if failed != nil {
		return nil, failed
	}
	p := &Pending{Provider: provider, Hosts: []string{hostOf(a.config.Endpoint.TokenURL)}}
	if a.config.Endpoint.DeviceAuthURL == "" {
		if redirect == "" {
			return nil, ErrNoRedirect
		}
		p.Redirect, p.State, p.Verifier = redirect, rand.Text(), oauth2.GenerateVerifier()
		a.config.RedirectURL = redirect
		options := append(a.code, oauth2.S256ChallengeOption(p.Verifier))
		if user != "" {
			options = append(options, oauth2.SetAuthURLParam("login_hint", user))
		}
		p.Page = a.config.AuthCodeURL(p.State, options...)
		return p, nil
	}
	var options []oauth2.AuthCodeOption
	if a.config.Endpoint.AuthStyle == oauth2.AuthStyleInParams && a.config.ClientSecret != "" { // RFC 8628, section 3.1
		options = append(options, oauth2.SetAuthURLParam("client_secret", a.config.ClientSecret))
	}
	answer, err := a.config.DeviceAuth(context.WithValue(ctx, oauth2.HTTPClient, c.http()), options...)
	if err != nil {
		return nil, failure(err, "is not the expected JSON")
	}
	page := answer.VerificationURI
	if u, err := url.Parse(page); err != nil || u.Scheme != "https" && u.Scheme != "http" || len(page) > maxShown || !isToken(answer.UserCode, maxShown) || !isToken(answer.DeviceCode, maxRefresh) {
		return nil, failure(nil, "device_code, user_code or verification_uri: is not usable")
	}
	p.DeviceCode, p.UserCode, p.Page, p.Until = answer.DeviceCode, answer.UserCode, page, answer.Expiry
	p.Interval = min(max(time.Duration(min(answer.Interval, 3600))*time.Second, 0), maxInterval)
	if p.Interval == 0 {
		p.Interval = usualInterval
	}
	return p, nil
}

// Poll asks once what became of a sign-in by a device code. Without a grant and an error, the person
// has not consented yet; slower says that the provider wants to be asked less often. It must not be
// called more often than each Pending.Interval.
func (c *Client) Poll(ctx context.Context, p *Pending) (g *Grant, slower bool, err error) {
	a, failed := c.app(ctx, p.Provider)
	if failed != nil {
		return nil, false, failed
	}
	pending := ""
	got, failed := c.exchange(ctx, a, func(ctx context.Context) (*oauth2.Token, error) {
		got, err := a.config.Exchange(ctx, "", oauth2.SetAuthURLParam("grant_type", grantDevice), oauth2.SetAuthURLParam("device_code", p.DeviceCode))
		for _, reason := range []string{reasonPending, reasonSlow} {
			if isReason(err, reason) {
				pending = reason
			}
		}
		return got, err
	})
	switch {
	case pending != "":
		return nil, pending == reasonSlow, nil
	case failed != nil:
		return nil, false, ended(failed)
	}
	g, err = grantOf(a, p, got)
	return g, false, err
}

// Exchange ends a sign-in with what the browser brings back: the state, the code, and the issuer if
// the provider has named itself (RFC 9207).
func (c *Client) Exchange(ctx context.Context, p *Pending, state, code, issuer string) (*Grant, error) {
	if p.State == "" || state != p.State {
		return nil, ErrState
	}
	if issuer != "" && issuer != p.Provider && p.Provider != Google && p.Provider != Microsoft {
		return nil, ErrState
	}
	a, failed := c.app(ctx, p.Provider)
	if failed != nil {
		return nil, failed
	}
	a.config.RedirectURL = p.Redirect
	got, failed := c.exchange(ctx, a, func(ctx context.Context) (*oauth2.Token, error) {
		return a.config.Exchange(ctx, code, oauth2.VerifierOption(p.Verifier))
	})
	if failed != nil {
		return nil, ended(failed)
	}
	return grantOf(a, p, got)
}

// ended returns the error for a sign-in that the provider has refused.
func ended(failed *poller.CheckError) error {
	switch failed.Code {
	case "oauth_" + reasonDenied, "oauth_" + reasonExpired, "oauth_" + reasonGrant:
		return ErrRefused
	}
	return failed
}

// grantOf returns the grant of a sign-in to which somebody has consented.
func grantOf(a *app, p *Pending, got *oauth2.Token) (*Grant, error) {
	if got.RefreshToken == "" {
		return nil, ErrNoRefresh
	}
	return &Grant{
		Provider: p.Provider, ClientID: a.config.ClientID, Refresh: got.RefreshToken, Scopes: a.config.Scopes,
		Key: rand.Text() + rand.Text(), Hosts: p.Hosts,
	}, nil
}

// hostOf returns the host of a URL as HOST:PORT.
func hostOf(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return ""
	}
	return secrets.HostOf(u)
}
