package signin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
)

const (
	answerTime = 10 * time.Second // the time-out of one request to the provider
	maxAnswer  = 1 << 20          // bytes
	// atOnce is how many requests to the provider may be under way. Others wait, so that
	// strangers who begin sign-ins do not flood the provider.
	atOnce = 16
	// askAgain is the wait before a provider is asked again that could not be reached.
	askAgain = 5 * time.Second
)

// newClient returns the client of all requests to the provider. It keeps no connections,
// because sign-ins are rare. It follows no redirects, so that secrets go only to the
// provider.
func newClient(within time.Duration) *http.Client {
	return &http.Client{
		Timeout:       within,
		Transport:     bounded{&http.Transport{DisableKeepAlives: true, MaxConnsPerHost: atOnce, ForceAttemptHTTP2: true, MaxResponseHeaderBytes: 64 << 10}},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// bounded limits the size of answers' bodies.
type bounded struct{ next http.RoundTripper }

// RoundTrip makes the request and limits the body of the answer to maxAnswer.
func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := b.next.RoundTrip(r)
	if err == nil {
		answer.Body = &boundedBody{answer.Body, maxAnswer}
	}
	return answer, err
}

type boundedBody struct {
	io.ReadCloser
	left int
}

var errTooLarge = errors.New("idp: the answer is larger than 1 MiB")

// Read reads the body, and returns errTooLarge at the limit.
func (b *boundedBody) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errTooLarge
	}
	n, err := b.ReadCloser.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

// known is what a provider's description said.
type known struct {
	verifier *oidc.IDTokenVerifier
	provider *oidc.Provider
	config   oauth2.Config
	push     string // where sign-ins must be pushed to; empty: they need not
	signOut  string // where people sign out; empty: nowhere
}

// described returns the provider's description, and asks for it if it is not known yet. All
// callers that wait share one answer. A failure is remembered for askAgain.
func (p *Provider) described(ctx context.Context) (*known, error) {
	if k := p.known.Load(); k != nil {
		return k, nil
	}
	done := p.asking.DoChan("", func() (any, error) {
		if k := p.known.Load(); k != nil {
			return k, nil
		}
		if failed := p.failed.Load(); failed != nil && time.Since(failed.at) < askAgain {
			return nil, failed.err
		}
		k, err := p.ask(context.WithoutCancel(ctx))
		if err != nil {
			err = p.away("its description", err)
			p.failed.Store(&failure{err, time.Now()})
			return nil, err
		}
		p.known.Store(k)
		return k, nil
	})
	select {
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case came := <-done:
		if came.Err != nil {
			return nil, came.Err
		}
		return came.Val.(*known), nil
	}
}

// ask reads the provider's metadata, and returns what sign-ins need of it. It refuses endpoints
// without TLS, except on loopback.
func (p *Provider) ask(ctx context.Context) (*known, error) {
	provider, err := oidc.NewProvider(oidc.ClientContext(ctx, p.client), p.config.Issuer)
	if err != nil {
		return nil, err
	}
	var about struct {
		Scopes  []string `json:"scopes_supported"`
		Methods []string `json:"token_endpoint_auth_methods_supported"`
		Auth    string   `json:"authorization_endpoint"`
		Token   string   `json:"token_endpoint"`
		Keys    string   `json:"jwks_uri"`
		Info    string   `json:"userinfo_endpoint"`
		Push    string   `json:"pushed_authorization_request_endpoint"`
		Pushed  bool     `json:"require_pushed_authorization_requests"`
		SignOut string   `json:"end_session_endpoint"`
	}
	if err := provider.Claims(&about); err != nil {
		return nil, err
	}
	if !about.Pushed {
		about.Push = ""
	}
	for _, one := range []struct {
		name, at string
		needed   bool
	}{
		{"authorization_endpoint", about.Auth, true}, {"token_endpoint", about.Token, true}, {"jwks_uri", about.Keys, true},
		{"userinfo_endpoint", about.Info, false}, {"end_session_endpoint", about.SignOut, false},
		{"pushed_authorization_request_endpoint", about.Push, about.Pushed},
	} {
		if one.at == "" && !one.needed {
			continue
		}
		if err := checkURL(one.at); err != nil {
			return nil, fmt.Errorf("%s: %w", one.name, err)
		}
	}
	endpoint := provider.Endpoint()
	// The style must be set, because trying both would send the code twice, and a code can be
	// used only once.
	endpoint.AuthStyle = oauth2.AuthStyleInHeader
	if len(about.Methods) > 0 && !slices.Contains(about.Methods, "client_secret_basic") {
		endpoint.AuthStyle = oauth2.AuthStyleInParams
	}
	scopes := []string{oidc.ScopeOpenID}
	for _, scope := range []string{"profile", "email", "groups"} {
		if slices.Contains(about.Scopes, scope) {
			scopes = append(scopes, scope)
		}
	}
	return &known{
		provider: provider,
		verifier: provider.Verifier(&oidc.Config{ClientID: p.config.ClientID}),
		config: oauth2.Config{ClientID: p.config.ClientID, ClientSecret: p.config.ClientSecret, Endpoint: endpoint,
			RedirectURL: p.config.RedirectURL, Scopes: scopes},
		push: about.Push, signOut: about.SignOut,
	}, nil
}

// maxReference is the most bytes of the reference to a sign-in that was pushed.
const maxReference = 2 << 10

// pushed pushes the parameters of a sign-in to the provider, and returns the address with its
// reference to them (RFC 9126).
func (p *Provider) pushed(ctx context.Context, k *known, parameters url.Values) (string, error) {
	inHeader := k.config.Endpoint.AuthStyle == oauth2.AuthStyleInHeader
	if !inHeader {
		parameters.Set("client_secret", p.config.ClientSecret)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, k.push, strings.NewReader(parameters.Encode()))
	if err != nil {
		return "", fmt.Errorf("idp: %w", err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if inHeader {
		r.SetBasicAuth(url.QueryEscape(p.config.ClientID), url.QueryEscape(p.config.ClientSecret))
	}
	answer, err := p.client.Do(r)
	if err != nil {
		return "", p.away("the sign-in that it wants pushed", err)
	}
	defer func() { _ = answer.Body.Close() }() // it was only read
	var said struct {
		Reference string `json:"request_uri"`
		Error     string `json:"error"`
	}
	err = json.NewDecoder(answer.Body).Decode(&said)
	switch {
	case answer.StatusCode/100 != 2:
		err = errors.New(answer.Status + " " + said.Error)
	case err == nil && (said.Reference == "" || len(said.Reference) > maxReference):
		err = fmt.Errorf("request_uri: must have 1 to %d bytes, has %d", maxReference, len(said.Reference))
	}
	if err != nil {
		return "", p.away("the sign-in that it wants pushed", err)
	}
	return withQuery(k.config.Endpoint.AuthURL, url.Values{"client_id": {p.config.ClientID}, "request_uri": {said.Reference}})
}

// withQuery returns an address with parameters besides those that it has.
func withQuery(address string, parameters url.Values) (string, error) {
	u, err := url.Parse(address)
	if err != nil {
		return "", fmt.Errorf("idp: %w", err)
	}
	q := u.Query()
	maps.Copy(q, parameters)
	u.RawQuery = q.Encode()
	return u.String(), nil
}

// SignOut returns the address at which a person signs out of the provider too, which then
// sends the browser to home (OpenID Connect RP-Initiated Logout 1.0). The ID token is the
// person's, or empty. The address is empty if the provider has none. The error is errAway.
func (p *Provider) SignOut(ctx context.Context, idToken, home string) (string, error) {
	k, err := p.described(ctx)
	if err != nil || k.signOut == "" {
		return "", err
	}
	q := url.Values{"client_id": {p.config.ClientID}, "post_logout_redirect_uri": {home}}
	if idToken != "" {
		q.Set("id_token_hint", idToken)
	}
	return withQuery(k.signOut, q)
}

// checkURL returns an error for an address to which secrets must not be sent. It must be
// https, or on loopback.
func checkURL(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.User != nil || u.Fragment != "" || u.Scheme != "https" && u.Scheme != "http" {
		return errors.New("must be a URL such as https://login.example.com")
	}
	if u.Scheme == "http" && !Loopback(u.Host) {
		return errors.New("must be https, but on loopback")
	}
	return nil
}

// away returns errAway with the reason in a form that can be logged: without the client's
// secret, and with a limited part of what the provider said.
func (p *Provider) away(doing string, err error) error {
	return fmt.Errorf("%w: %s: %s", errAway, doing, p.told(err))
}

func (p *Provider) told(err error) string {
	var refused *oauth2.RetrieveError
	text := err.Error()
	if errors.As(err, &refused) && refused.Response != nil {
		text = refused.Response.Status + " " + refused.ErrorCode
	}
	if p.config.ClientSecret != "" {
		text = strings.ReplaceAll(text, p.config.ClientSecret, "…")
	}
	return oneLine(text, 200)
}

// oneLine returns a provider's text as one printable line of at most that many characters.
func oneLine(text string, most int) string {
	text = strings.ToValidUTF8(strings.Map(func(c rune) rune {
		if !unicode.IsPrint(c) {
			return ' '
		}
		return c
	}, text), "?")
	if runes := []rune(text); len(runes) > most {
		text = string(runes[:most]) + "…"
	}
	return strings.TrimSpace(text)
}
