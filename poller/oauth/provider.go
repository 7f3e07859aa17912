package oauth

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/poller/secrets"
)

// The providers that are known by a name.
const (
	Google    = "google"
	Microsoft = "microsoft"
)

const (
	microsoftHost = "https://login.microsoftonline.com"

	maxAnswer    = 256 << 10 // bytes of a provider's answer
	describedFor = time.Hour
	mostIssuers  = 64
)

var (
	errProvider     = errors.New("must be google, microsoft, or the URL of an issuer")
	errRegistration = errors.New(`must be JSON such as {"client_id": "…", "client_secret": "…"}`)
	errIssuer       = errors.New("issuer: must be the provider's URL, because that says where the client's secret may go")
	tenant          = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9.-]{0,127}$`)
)

// ValidateProvider checks the name of a provider.
func (c *Client) ValidateProvider(name string) error {
	if name == Google || name == Microsoft {
		return nil
	}
	if !strings.HasPrefix(name, "https://") && !strings.HasPrefix(name, "http://") {
		return errProvider
	}
	if err := c.fetch.Validate(name); err != nil {
		return err
	}
	if u, err := url.Parse(name); err != nil || u.RawQuery != "" || u.Fragment != "" {
		return fetch.ErrQuery
	}
	return nil
}

// ClientName returns the name of the service's own secret with this service's registration at a
// provider: MAIL_GOOGLE, MAIL_MICROSOFT, or MAIL_ and the issuer's host in capitals, with _ for other
// characters than letters and digits.
func ClientName(provider string) string {
	host := provider
	if u, err := url.Parse(provider); err == nil && u.Host != "" {
		host = u.Host
	}
	name := "MAIL_" + strings.Map(func(c rune) rune {
		if c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' {
			return c
		}
		return '_'
	}, strings.ToUpper(host))
	if len(name) > 64 {
		sum := sha256.Sum256([]byte(host))
		name = "MAIL_" + hex.EncodeToString(sum[:16])
	}
	return name
}

// ownerOf returns the owner of a provider's access tokens, in the form in which kinds name owners:
// KIND|NAME|URL.
func ownerOf(kind, provider string) string {
	name, at := provider, provider
	switch u, err := url.Parse(provider); {
	case provider == Google:
		at = "https://accounts.google.com"
	case provider == Microsoft:
		at = microsoftHost
	case err == nil:
		name = u.Host
	}
	return kind + "|" + name + "|" + at
}

// kindGraph is the kind of accounts that are reached over Microsoft Graph. An access token of Microsoft
// is for one of its services only.
const kindGraph = "graph"

// microsoftScopes returns what to ask Microsoft for.
func microsoftScopes(kind string) []string {
	if kind == kindGraph {
		return []string{"https://graph.microsoft.com/Mail.Read", "https://graph.microsoft.com/Mail.Send", oidc.ScopeOfflineAccess}
	}
	return []string{"https://outlook.office.com/IMAP.AccessAsUser.All", "https://outlook.office.com/SMTP.Send", oidc.ScopeOfflineAccess}
}

// registration is the JSON of the service's own secret for a provider.
type registration struct {
	ClientID     string   `json:"client_id"`
	ClientSecret string   `json:"client_secret"`
	Tenant       string   `json:"tenant"`
	Issuer       string   `json:"issuer"`
	Scopes       []string `json:"scopes"`
}

// app is this service as a client of a provider.
type app struct {
	provider string
	secret   string // the name of the registration
	config   oauth2.Config
	code     []oauth2.AuthCodeOption // further parameters of a request for consent
}

// Client makes the requests of this package. It is safe for concurrent use.
type Client struct {
	kind    string
	fetch   *fetch.Client
	secrets secrets.Source // the service's own

	mu     sync.Mutex
	issuer map[string]described
}

// described is what an issuer says of itself.
type described struct {
	endpoint oauth2.Endpoint
	at       time.Time
}

// NewClient returns a client for accounts of a kind. It calls through client, and finds this
// service's registrations among its own secrets in source.
func NewClient(kind string, client *fetch.Client, source secrets.Source) *Client {
	return &Client{kind: kind, fetch: client, secrets: source.Service(), issuer: make(map[string]described)}
}

// app returns this service as a client of a provider.
func (c *Client) app(ctx context.Context, provider string) (*app, *poller.CheckError) {
	if err := c.ValidateProvider(provider); err != nil {
		return nil, &poller.CheckError{Kind: poller.Transient, Code: "oauth_provider", Message: "the provider " + err.Error(), Err: err}
	}
	a := &app{provider: provider, secret: ClientName(provider)}
	switch provider {
	case Google:
		a.config.Endpoint = oauth2.Endpoint{AuthURL: "https://accounts.google.com/o/oauth2/v2/auth", TokenURL: "https://oauth2.googleapis.com/token"}
		a.config.Scopes = []string{"https://mail.google.com/"}
		// Without them Google issues a refresh token only at a person's first consent.
		a.code = []oauth2.AuthCodeOption{oauth2.AccessTypeOffline, oauth2.SetAuthURLParam("prompt", "consent")}
	case Microsoft:
		a.config.Endpoint.TokenURL = microsoftHost // until the tenant is known
		a.config.Scopes = microsoftScopes(c.kind)
	default:
		var failed *poller.CheckError
		if a.config.Endpoint, failed = c.describe(ctx, provider); failed != nil {
			return nil, failed
		}
		a.config.Scopes = []string{oidc.ScopeOpenID, "email", oidc.ScopeOfflineAccess}
	}
	text, err := c.secrets.Get(ctx, a.secret, secrets.ForURL(c.kind, a.config.Endpoint.TokenURL))
	if err != nil {
		return nil, ownError(secrets.CheckError(err))
	}
	if err := a.register(text); err != nil {
		return nil, &poller.CheckError{Kind: poller.Transient, Scope: poller.ScopeChecker, Code: "oauth_client",
			Message: "the service's own secret " + a.secret + ": " + err.Error(), Err: err}
	}
	return a, nil
}

// ownError returns an error of one of the service's own secrets. No account is to blame for it.
func ownError(e *poller.CheckError) *poller.CheckError {
	if e.Scope == poller.ScopeAccount {
		e.Scope = poller.ScopeChecker
	}
	e.Message = "the service's own secret: " + e.Message
	return e
}

// register takes the client's part of a registration.
func (a *app) register(text string) error {
	var r registration
	switch err := json.Unmarshal([]byte(text), &r); {
	case err != nil:
		return errRegistration
	case r.ClientID == "":
		return errors.New("client_id: missing")
	case a.provider == Microsoft:
		at := cmp.Or(r.Tenant, "common")
		if !tenant.MatchString(at) {
			return errors.New("tenant: must be a tenant's name or id")
		}
		base := microsoftHost + "/" + at + "/oauth2/v2.0/"
		a.config.Endpoint = oauth2.Endpoint{AuthURL: base + "authorize", DeviceAuthURL: base + "devicecode", TokenURL: base + "token"}
	case a.provider != Google && r.Issuer != a.provider:
		return errIssuer
	}
	if a.config.Endpoint.AuthStyle == oauth2.AuthStyleAutoDetect {
		a.config.Endpoint.AuthStyle = oauth2.AuthStyleInParams
	}
	a.config.ClientID, a.config.ClientSecret = r.ClientID, r.ClientSecret
	if len(r.Scopes) > 0 {
		a.config.Scopes = r.Scopes
	}
	return nil
}

// describe asks an issuer for its endpoints, at most once an hour.
func (c *Client) describe(ctx context.Context, issuer string) (oauth2.Endpoint, *poller.CheckError) {
	c.mu.Lock()
	known, ok := c.issuer[issuer]
	c.mu.Unlock()
	if ok && time.Since(known.at) < describedFor {
		return known.endpoint, nil
	}
	provider, err := oidc.NewProvider(oidc.ClientContext(ctx, c.http()), issuer)
	if err != nil {
		return oauth2.Endpoint{}, failure(err, "the issuer does not describe itself at /.well-known/openid-configuration")
	}
	var more struct {
		Methods []string `json:"token_endpoint_auth_methods_supported"`
	}
	endpoint := provider.Endpoint()
	endpoint.AuthStyle = oauth2.AuthStyleInHeader // the default of RFC 8414
	if provider.Claims(&more) == nil && (slices.Contains(more.Methods, "client_secret_post") || slices.Contains(more.Methods, "none")) {
		endpoint.AuthStyle = oauth2.AuthStyleInParams
	}
	for _, at := range []string{endpoint.TokenURL, endpoint.AuthURL, cmp.Or(endpoint.DeviceAuthURL, endpoint.TokenURL)} {
		if err := c.fetch.Validate(at); err != nil {
			return oauth2.Endpoint{}, failure(nil, "an endpoint of the issuer "+err.Error())
		}
		if strings.HasPrefix(issuer, "https:") && !strings.HasPrefix(at, "https:") {
			return oauth2.Endpoint{}, failure(nil, "an endpoint of the issuer must be https, as the issuer is")
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.issuer) >= mostIssuers {
		clear(c.issuer)
	}
	c.issuer[issuer] = described{endpoint, time.Now()}
	return endpoint, nil
}

// http returns an http.Client whose requests are calls of fetch.Client, under its rules and bounds.
// It follows no redirects, so that secrets go only to the provider.
func (c *Client) http() *http.Client {
	return &http.Client{Transport: transport{c.fetch}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

type transport struct{ client *fetch.Client }

// RoundTrip implements http.RoundTripper.
func (t transport) RoundTrip(request *http.Request) (*http.Response, error) {
	call := fetch.Call{Method: request.Method, URL: request.URL.String(), Header: request.Header.Clone(), MaxBody: maxAnswer, Confined: request.URL.Scheme != "https"}
	if request.Body != nil {
		defer request.Body.Close()
		body, err := io.ReadAll(io.LimitReader(request.Body, maxAnswer))
		if err != nil {
			return nil, err
		}
		call.Body = body
	}
	answer, err := t.client.Do(request.Context(), call)
	if err != nil {
		return nil, err
	}
	return &http.Response{
		Status: http.StatusText(answer.Status), StatusCode: answer.Status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: answer.Header, Body: io.NopCloser(bytes.NewReader(answer.Body)), ContentLength: int64(len(answer.Body)), Request: request,
	}, nil
}
