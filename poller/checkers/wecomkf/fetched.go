package wecomkf

import (
	"context"
	"strconv"
	"time"

	"github.com/rounds-dev/rounds/circulate/credential"
	"github.com/rounds-dev/rounds/poller"
)

const (
	fetchTimeout  = 10 * time.Second
	settleTimeout = 5 * time.Second

	maxLife       = 24 * time.Hour
	expiryMargin  = 5 * time.Second // before a token expires: it is no longer used
	refreshMargin = 5 * time.Minute // before that: the next one is fetched
	refusedFor    = time.Hour       // WeCom's ban on an address lasts as long
	failedFor     = 10 * time.Second
	egressFor     = time.Minute
	pauseMemory   = 10 * time.Minute
)

// issued is WeCom's answer to gettoken: a token or an errcode.
type issued struct {
	token  string
	life   time.Duration
	code   int
	errmsg string
}

// fetchFor fetches a token for all replicas. It stores the outcome even if ctx has
// ended by then.
func (b *broker) fetchFor(ctx context.Context, g *grant, fence int64) (token, *poller.CheckError) {
	// The call has a time-out of its own. The rest of ctx may be a moment, and then all
	// replicas would be told of a time-out.
	calling, cancel := context.WithTimeout(context.WithoutCancel(ctx), fetchTimeout)
	defer cancel()
	got, failed := b.fetch(calling, g)
	writing, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
	defer cancel()
	s := credential.Settlement{As: credential.Failed, For: failedFor}
	switch {
	case failed != nil:
		s.Reason = failed.Code
		s.For = max(s.For, min(failed.RetryAfter, time.Hour))
	case got.token != "":
		s.As, s.Value = credential.Fetched, g.seal(got.token)
		s.For, s.Refresh = lifeOf(got.life)
	default:
		s.Reason = strconv.Itoa(got.code)
		failed = g.failure(got.code, got.errmsg)
		switch got.code {
		case codeBadSecret, codeBadCorp, codeSecretType:
			s.As, s.For = credential.Refused, refusedFor
		case codeBadIP:
			s.For = egressFor
		case codeRate:
			failed = b.pause(writing, g)
		}
	}
	// If the outcome was not written, or that is unknown, the lease expires by itself.
	// The token is valid either way.
	held, err := b.store.Settle(writing, g.ref, fence, s)
	if failed != nil {
		return token{}, failed
	}
	t := token{got.token, fence}
	if err == nil && held {
		b.hold(g.ref, t, s.For)
	}
	return t, nil
}

// lifeOf returns how long a token is used, and after what time the next is fetched.
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
func (b *broker) pause(ctx context.Context, g *grant) *poller.CheckError {
	wait, err := b.store.PauseOwner(ctx, g.ref.Owner, strconv.Itoa(codeRate), pauseMemory, time.Minute, 5*time.Minute, time.Hour)
	if err != nil {
		wait = time.Minute
	}
	b.mu.Lock()
	delete(b.held, g.ref)
	b.mu.Unlock()
	return paused(wait)
}

func paused(wait time.Duration) *poller.CheckError {
	e := codeError(codeRate)
	e.RetryAfter = wait
	return e
}

// reasonError returns the failure that another replica stored.
func (g *grant) reasonError(reason string, wait time.Duration) *poller.CheckError {
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
