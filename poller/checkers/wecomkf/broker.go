package wecomkf

import (
	"context"
	"strconv"
	"time"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/secrets"
	"github.com/rounds-dev/rounds/poller/token"
)

const (
	maxLife       = 24 * time.Hour
	expiryMargin  = 5 * time.Second // before a token expires: it is no longer used
	refreshMargin = 5 * time.Minute // before that: the next one is fetched
	refusedFor    = time.Hour       // as long as WeCom bans an address
	failedFor     = 10 * time.Second
	egressFor     = time.Minute
	pauseMemory   = 10 * time.Minute
	pauseTimeout  = 5 * time.Second
)

// issued is WeCom's answer to gettoken: a token or an errcode.
type issued struct {
	token  string
	life   time.Duration
	code   int
	errmsg string
}

// fetchToken fetches a token for all replicas.
func (c *Checker) fetchToken(ctx context.Context, g *grant) token.Fetched {
	got, failed := c.getToken(ctx, g)
	f := token.Fetched{For: failedFor}
	switch {
	case failed != nil:
		f.Failed, f.Reason = failed, failed.Code
		f.For = max(f.For, min(failed.RetryAfter, time.Hour))
	case got.token != "":
		f.Token = got.token
		f.Use, f.Refresh = lifeOf(got.life)
	default:
		f.Failed, f.Reason = g.failure(got.code, got.errmsg), strconv.Itoa(got.code)
		switch got.code {
		case codeBadSecret, codeBadCorp, codeSecretType:
			f.Refused, f.For = true, refusedFor
		case codeBadIP:
			f.For = egressFor
		case codeRate:
			writing, cancel := context.WithTimeout(context.WithoutCancel(ctx), pauseTimeout)
			defer cancel()
			f.Failed = c.pause(writing, g)
		}
	}
	return f
}

// lifeOf returns how long a token is used, and after what time the next one is fetched.
// WeCom returns the same token until it expires, so a short life is not divided
// further.
func lifeOf(life time.Duration) (use, refresh time.Duration) {
	use = max(life-expiryMargin, time.Second)
	if use < 2*time.Minute {
		return use, use
	}
	return use, use - min(refreshMargin, use/4)
}

// pause makes all of the corporation's accounts wait, and returns the reason.
func (c *Checker) pause(ctx context.Context, g *grant) *poller.CheckError {
	e := codeError(codeRate)
	e.RetryAfter = c.broker.Pause(ctx, g, strconv.Itoa(codeRate), pauseMemory, time.Minute, 5*time.Minute, time.Hour)
	return e
}

// grant is what it takes to fetch an access token, for this corp and base URL alone.
type grant struct {
	*token.Key
	base, corp string
	secretName string // for people
	secret     string
	open       bool // requests are sent without TLS
}

func newGrant(c config, secret string) (*grant, error) {
	g := &grant{base: c.baseURL, corp: c.corp, secretName: c.secret.Name, secret: secret, open: secrets.ForURL(kind, c.baseURL).Open()}
	var err error
	g.Key, err = token.NewKey(secret, "rounds "+kind+" 1", kind+"|"+c.corp+"|"+c.baseURL)
	return g, err
}

// owner names the corporation at its base URL.
func (g *grant) owner() string { return g.Ref().Owner }

// Failure implements token.Grant.
func (g *grant) Failure(reason string, wait time.Duration) *poller.CheckError {
	code, err := strconv.Atoi(reason)
	if err != nil {
		return &poller.CheckError{
			Kind: poller.Transient, Scope: poller.ScopeRateKey, Code: "token_" + reason, RetryAfter: wait,
			Message: "no access token could be fetched a moment ago",
		}
	}
	e := g.failure(code, "")
	e.RetryAfter = max(e.RetryAfter, wait)
	return e
}

// Stays implements token.Grant.
func (g *grant) Stays() *poller.CheckError { return g.failure(codeBadToken, "") }
