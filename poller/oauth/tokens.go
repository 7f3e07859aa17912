package oauth

import (
	"context"
	"strings"
	"time"

	"golang.org/x/oauth2"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/internal/conceal"
	"github.com/rounds-dev/rounds/poller/secrets"
	"github.com/rounds-dev/rounds/poller/token"
)

const (
	callTimeout  = token.FetchTimeout
	writeTimeout = 10 * time.Second // with callTimeout and what settling takes, less than token.Lease
	writeAgain   = 100 * time.Millisecond

	usualLife = 10 * time.Minute // of a token whose answer does not say
	maxLife   = 24 * time.Hour

	refusedFor  = time.Hour // how long no replica tries a refused sign-in again
	failedFor   = 10 * time.Second
	pauseMemory = 10 * time.Minute
)

// Tokens has the access tokens of accounts that were signed in. It is safe for concurrent use.
type Tokens struct {
	client *Client
	source secrets.Source // of the stored grants
	broker *token.Broker[*grant]
	paces  paces
}

// NewTokens returns the access tokens of a client's kind. It finds the stored grants in source, and
// shares access tokens through store.
func NewTokens(client *Client, source secrets.Source, store token.Store) *Tokens {
	t := &Tokens{client: client, source: source}
	t.broker = token.NewBroker(store, t.fetch)
	return t
}

// Access is an access token.
type Access struct {
	Token string

	grant   *grant
	version int64
}

// SignIn identifies the sign-in that the token comes from: another one of the account has another
// text. It is no secret.
func (a *Access) SignIn() string { return a.grant.Ref().Name }

// grant is what it takes to get an account's access tokens.
type grant struct {
	*token.Key
	account string
	name    string // of the secret
	stored  Grant
}

// Token returns an access token for an account whose sign-in is stored under a name, for a use: the
// token is sent there. With refused it is another token than that.
func (t *Tokens) Token(ctx context.Context, account, name string, use secrets.Use, refused *Access) (*Access, *poller.CheckError) {
	text, err := t.source.Get(ctx, name, use)
	if err != nil {
		return nil, secrets.CheckError(err)
	}
	a, failed := t.token(ctx, account, name, text, refused)
	if failed == nil || failed.Kind != poller.AuthFailed {
		return a, failed
	}
	// This parks the account. Somebody may just have signed in again, and text is the copy of some
	// seconds ago.
	latest, _, err := t.source.Latest(ctx, name, use)
	if err != nil || latest == text {
		return nil, failed
	}
	return t.token(ctx, account, name, latest, refused)
}

// token is Token for the value of the secret.
func (t *Tokens) token(ctx context.Context, account, name, text string, refused *Access) (*Access, *poller.CheckError) {
	stored, err := parseGrant(text)
	if err != nil {
		return nil, &poller.CheckError{Kind: poller.AuthFailed, Final: true, Code: "oauth_grant", Message: "secret " + name + ": " + err.Error(), Err: err}
	}
	key, err := token.NewKey(stored.Key, "rounds oauth 1", ownerOf(t.client.kind, stored.Provider))
	if err != nil {
		return nil, &poller.CheckError{Kind: poller.Transient, Scope: poller.ScopeChecker, Code: "seal", Message: "the access token cannot be sealed", Err: err}
	}
	g := &grant{Key: key, account: account, name: name, stored: stored}
	var not int64
	if refused != nil {
		not = refused.version
	}
	got, failed := t.broker.Token(ctx, g, not)
	if failed != nil {
		return nil, failed
	}
	conceal.Note(ctx, got.Value, secrets.Scrub)
	return &Access{got.Value, g, got.Version}, nil
}

// Drop removes a token that its host refused, and reports whether another may be available.
func (t *Tokens) Drop(ctx context.Context, a *Access) bool {
	return t.broker.Drop(ctx, a.grant, a.version)
}

// Failure implements token.Grant.
func (g *grant) Failure(reason string, wait time.Duration) *poller.CheckError {
	if cut, ours := strings.CutPrefix(reason, "oauth_"); ours || reason == reasonPause {
		return reasonError(cut, wait)
	}
	return &poller.CheckError{
		Kind: poller.Transient, Scope: poller.ScopeRateKey, Code: "token_" + reason, RetryAfter: wait,
		Message: "no access token could be fetched a moment ago",
	}
}

// Stays implements token.Grant.
func (g *grant) Stays() *poller.CheckError {
	return &poller.CheckError{Kind: poller.AuthFailed, Code: "oauth_refused", Message: "the host refuses a new access token as well: sign in again, as the user of the config"}
}

// fetch refreshes for all replicas. It has the lease.
func (t *Tokens) fetch(ctx context.Context, g *grant) token.Fetched {
	got, refresh, failed := t.refresh(ctx, g)
	if failed == nil {
		return token.Fetched{Token: got, Use: refresh.use, Refresh: refresh.next}
	}
	f := token.Fetched{Failed: failed, Reason: failed.Code, For: max(failedFor, min(failed.RetryAfter, time.Hour))}
	switch {
	case failed.Kind == poller.AuthFailed:
		f.Refused, f.For = true, refusedFor
	case failed.Code == "oauth_"+reasonCrowd:
		f.For = failed.RetryAfter
	case failed.Kind == poller.RateLimited:
		pausing, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
		defer cancel()
		first := max(time.Minute, min(failed.RetryAfter, time.Hour))
		failed.RetryAfter = t.broker.Pause(pausing, g, failed.Code, pauseMemory, first, max(first, 5*time.Minute), time.Hour)
	}
	return f
}

// lives is how long a token is used, and when the next one is fetched.
type lives struct{ use, next time.Duration }

// refresh exchanges the stored refresh token for an access token.
func (t *Tokens) refresh(ctx context.Context, g *grant) (access string, l lives, failed *poller.CheckError) {
	fail := func(e *poller.CheckError) (string, lives, *poller.CheckError) { return "", lives{}, e }
	a, failed := t.client.app(ctx, g.stored.Provider)
	if failed != nil {
		return fail(failed)
	}
	if wait, ok := t.paces.turn(a.config.Endpoint.TokenURL, time.Now()); !ok {
		return fail(reasonError(reasonCrowd, wait))
	} else if wait > 0 {
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return fail(reasonError(reasonCrowd, wait))
		}
	}
	// The copy that led here may be older than the last rotation.
	use := secrets.ForURL(t.client.kind, a.config.Endpoint.TokenURL)
	text, seen, err := t.source.Latest(ctx, g.name, use)
	if err != nil {
		return fail(secrets.CheckError(err))
	}
	stored, err := parseGrant(text)
	if err != nil || stored.Key != g.stored.Key {
		return fail(changed())
	}
	if stored.ClientID != a.config.ClientID {
		return fail(reasonError(reasonClient, 0))
	}
	got, failed := t.client.exchange(ctx, a, func(ctx context.Context) (*oauth2.Token, error) {
		return a.config.TokenSource(ctx, &oauth2.Token{RefreshToken: stored.Refresh}).Token()
	})
	if failed != nil {
		return fail(failed)
	}
	if got.RefreshToken != stored.Refresh {
		before := stored.Refresh
		stored.Refresh = got.RefreshToken
		if failed := t.rotate(ctx, g, use, before, stored, seen); failed != nil {
			return fail(failed)
		}
	}
	l.use, l.next = lifeOf(g.account, lifeIn(got))
	return got.AccessToken, l, nil
}

// lifeIn returns the life of a token that was issued just now.
func lifeIn(t *oauth2.Token) time.Duration {
	life := time.Duration(min(t.ExpiresIn, int64(maxLife/time.Second))) * time.Second
	if life <= 0 {
		return usualLife
	}
	return life
}

// exchange makes a request for tokens. It does not end with ctx, because the answer may have the only
// refresh token that is still valid.
func (c *Client) exchange(ctx context.Context, a *app, request func(context.Context) (*oauth2.Token, error)) (*oauth2.Token, *poller.CheckError) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
	defer cancel()
	got, err := request(context.WithValue(ctx, oauth2.HTTPClient, c.http()))
	if err != nil {
		return nil, failure(err, "is not the expected JSON")
	}
	if !isToken(got.AccessToken, maxAccess) || got.RefreshToken != "" && !isToken(got.RefreshToken, maxRefresh) || !strings.EqualFold(got.Type(), "bearer") {
		return nil, failure(nil, "access_token or refresh_token: is not a bearer token")
	}
	return got, nil
}

// rotate stores a rotated refresh token in place of the one before. Nobody uses the access token
// before that.
func (t *Tokens) rotate(ctx context.Context, g *grant, use secrets.Use, before string, stored Grant, seen secrets.Seen) *poller.CheckError {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	failed := &poller.CheckError{Kind: poller.Transient, Scope: poller.ScopeEgress, Code: "oauth_store", Message: "the rotated refresh token could not be stored"}
	text, err := stored.Text()
	for err == nil {
		done, wrong := t.source.Change(ctx, seen, text)
		if done {
			return nil
		}
		failed.Err = wrong
		// The outcome may be unknown, or the secret was sealed for another key meanwhile.
		if now, again, unread := t.source.Latest(ctx, g.name, use); unread == nil {
			switch there, _ := parseGrant(now); {
			case there.Key == stored.Key && there.Refresh == stored.Refresh:
				return nil
			case there.Key != stored.Key || there.Refresh != before:
				return changed()
			}
			seen = again
		}
		select {
		case <-ctx.Done():
			return failed
		case <-time.After(writeAgain):
		}
	}
	return failed
}

// changed returns the error for a stored sign-in that somebody else has replaced meanwhile.
func changed() *poller.CheckError {
	return &poller.CheckError{Kind: poller.Transient, Scope: poller.ScopeChecker, Code: "oauth_changed", Message: "somebody has signed the account in anew meanwhile"}
}
