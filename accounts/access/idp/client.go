package idp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/rounds-dev/rounds/accounts/access/origin"
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
	}
	if err := provider.Claims(&about); err != nil {
		return nil, err
	}
	for name, at := range map[string]string{"authorization_endpoint": about.Auth, "token_endpoint": about.Token, "jwks_uri": about.Keys, "userinfo_endpoint": about.Info} {
		if at == "" && name == "userinfo_endpoint" {
			continue
		}
		if err := checkURL(at); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
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
	}, nil
}

// checkURL returns an error for an address to which secrets must not be sent. It must be
// https, or on loopback.
func checkURL(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.User != nil || u.Fragment != "" || u.Scheme != "https" && u.Scheme != "http" {
		return errors.New("must be a URL such as https://login.example.com")
	}
	if u.Scheme == "http" && !origin.Loopback(u.Host) {
		return errors.New("must be https, but on loopback")
	}
	return nil
}

// away returns ErrAway with the reason in a form that can be logged: without the client's
// secret, and with a limited part of what the provider said.
func (p *Provider) away(doing string, err error) error {
	return fmt.Errorf("%w: %s: %s", ErrAway, doing, p.told(err))
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
	return OneLine(text, 200)
}

// OneLine returns a provider's text as one printable line of at most that many characters.
func OneLine(text string, most int) string {
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
