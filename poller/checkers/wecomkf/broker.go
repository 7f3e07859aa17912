package wecomkf

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strconv"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/rounds-dev/rounds/circulate/credential"
	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/internal/copies"
	"github.com/rounds-dev/rounds/poller/secrets"
)

const (
	fetchLease    = 30 * time.Second      // longer than it takes to fetch a token and store the outcome
	obtainTimeout = 25 * time.Second      // of a check that waits for another replica
	obtainPoll    = 25 * time.Millisecond // doubled each time, to obtainPollMax
	obtainPollMax = 400 * time.Millisecond

	// freshFor is how long a process uses a token before it asks the store again whether
	// the token was dropped or the corporation is paused.
	freshFor   = time.Second
	mostCopies = 4096 // tokens in a process
)

// token is an access token; version names it for drop.
type token struct {
	value   string
	version int64
}

// broker gets tokens from the store that replicas share, or from WeCom for all of
// them.
type broker struct {
	store   Tokens
	fetch   func(context.Context, *grant) (issued, *poller.CheckError)
	flights singleflight.Group
	copies  *copies.Copies[credential.Ref, tokenCopy]
}

// tokenCopy is this process' copy of a token.
type tokenCopy struct {
	token
	fresh, expires time.Time // until when the token is so
}

func newBroker(store Tokens, fetch func(context.Context, *grant) (issued, *poller.CheckError)) *broker {
	return &broker{store: store, fetch: fetch, copies: copies.New[credential.Ref, tokenCopy](mostCopies, 0, nil)}
}

// obtained is the outcome of a flight.
type obtained struct {
	token  token
	failed *poller.CheckError
}

// token returns a token of another version than not. Concurrent callers share one
// request. A caller that stops waiting does not stop the others.
func (b *broker) token(ctx context.Context, g *grant, not int64) (token, *poller.CheckError) {
	if h, ok := b.copies.Get(g.ref); ok && h.version != not && time.Now().Before(h.fresh) {
		return h.token, nil
	}
	key := g.ref.Owner + "|" + g.ref.Name + "|" + strconv.FormatInt(not, 10)
	flight := b.flights.DoChan(key, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), obtainTimeout)
		defer cancel()
		t, failed := b.obtain(ctx, g, not)
		return obtained{t, failed}, nil
	})
	select {
	case <-ctx.Done():
		return token{}, waited(ctx.Err())
	case done := <-flight:
		o := done.Val.(obtained)
		if o.failed != nil {
			copied := *o.failed // one copy for each check
			return token{}, &copied
		}
		return o.token, nil
	}
}

func waited(cause error) *poller.CheckError {
	e := &poller.CheckError{Kind: poller.Transient, Scope: poller.ScopeRateKey, Code: "timeout", Message: "no access token in time", Err: cause}
	if errors.Is(cause, context.Canceled) {
		e.Scope, e.Code = poller.ScopeEgress, "canceled"
	}
	return e
}

// obtain asks the store until it has a token or a reason why there is none. It
// fetches a token itself when the store gives it the lease.
func (b *broker) obtain(ctx context.Context, g *grant, not int64) (token, *poller.CheckError) {
	for poll := obtainPoll; ; poll = min(2*poll, obtainPollMax) {
		wait := time.Duration(0) // before the store is asked again
		c, err := b.store.Take(ctx, g.ref, fetchLease)
		if err != nil {
			return b.withoutStore(g, not, err)
		}
		var failed *poller.CheckError
		if c.Fence != 0 {
			var t token
			if t, failed = b.fetchFor(ctx, g, c.Fence); failed == nil {
				return t, nil
			}
		}
		switch {
		case c.Paused > 0:
			return token{}, paused(c.Paused)
		case c.Value != nil && c.Version != not:
			value, err := g.unseal(c.Value)
			if err == nil {
				t := token{value, c.Version}
				b.copy(g.ref, t, c.Expires)
				return t, nil
			}
			if !b.drop(ctx, g, c.Version) {
				return token{}, &poller.CheckError{Kind: poller.Transient, Scope: poller.ScopeChecker, Code: "seal",
					Message: "the access token's seal is broken: something else writes to Redis", Err: err}
			}
			wait = poll // the refused token may still be there: the outcome of the drop may be unknown
		case failed != nil:
			return token{}, failed
		case c.Refused > 0:
			return token{}, g.reasonError(c.Reason, 0)
		case c.Failed > 0:
			return token{}, g.reasonError(c.Reason, c.Failed)
		case c.Value != nil:
			return token{}, g.failure(codeBadToken, "") // the store still has the token that WeCom refused
		}
		if !sleep(ctx, max(time.Millisecond, wait, min(c.Wait, poll))) {
			return token{}, waited(ctx.Err())
		}
	}
}

// withoutStore returns the token of this process while Redis is unreachable.
func (b *broker) withoutStore(g *grant, not int64, err error) (token, *poller.CheckError) {
	if h, ok := b.copies.Get(g.ref); ok && h.version != not && time.Now().Before(h.expires) {
		return h.token, nil
	}
	return token{}, &poller.CheckError{
		Kind: poller.Transient, Scope: poller.ScopeEgress, Code: "token_store", Message: "the store of the shared access tokens is unreachable", Err: err,
	}
}

// drop removes the token of a version for all replicas, and reports whether another
// may be available.
func (b *broker) drop(ctx context.Context, g *grant, version int64) bool {
	b.copies.Drop(g.ref, func(t tokenCopy) bool { return t.version == version })
	dropped, err := b.store.Drop(ctx, g.ref, version)
	return dropped || err != nil // after an error nobody knows: the next request for a token will show
}

// copy makes this process' copy of a token.
func (b *broker) copy(ref credential.Ref, t token, life time.Duration) {
	now := time.Now()
	b.copies.Put(ref, tokenCopy{t, now.Add(min(freshFor, life)), now.Add(life)})
}

const (
	fetchTimeout  = 10 * time.Second
	settleTimeout = 5 * time.Second

	maxLife       = 24 * time.Hour
	expiryMargin  = 5 * time.Second // before a token expires: it is no longer used
	refreshMargin = 5 * time.Minute // before that: the next one is fetched
	refusedFor    = time.Hour       // as long as WeCom bans an address
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
	// The call has a time-out of its own. Little of ctx may be left, and then all replicas
	// would get the time-out as the outcome.
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
	// If the outcome was not written, or may not have been, the lease expires by itself.
	// The token is valid either way.
	ours, err := b.store.Settle(writing, g.ref, fence, s)
	if failed != nil {
		return token{}, failed
	}
	t := token{got.token, fence}
	if err == nil && ours {
		b.copy(g.ref, t, s.For)
	}
	return t, nil
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
func (b *broker) pause(ctx context.Context, g *grant) *poller.CheckError {
	wait, err := b.store.PauseOwner(ctx, g.ref.Owner, strconv.Itoa(codeRate), pauseMemory, time.Minute, 5*time.Minute, time.Hour)
	if err != nil {
		wait = time.Minute
	}
	b.copies.Drop(g.ref, func(tokenCopy) bool { return true })
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

// grant is what it takes to fetch an access token and to seal it.
//
// The key is derived from the secret by HKDF-SHA-256 (RFC 5869), for this corp and base
// URL alone. The seal is AES-256-GCM with a random nonce in front. Without the secret,
// a reader of Redis can neither read a token nor replace it. The credential's name is
// derived in the same way. It reveals nothing about the secret, and another secret has
// another credential.
type grant struct {
	base, corp string
	secretName string // for people
	secret     string
	open       bool // requests are sent without TLS
	ref        credential.Ref
	aead       cipher.AEAD
}

func newGrant(c config, secret string) (*grant, error) {
	g := &grant{base: c.baseURL, corp: c.corp, secretName: c.secret.Name, secret: secret, open: secrets.ForURL(kind, c.baseURL).Open()}
	g.ref.Owner = kind + "|" + c.corp + "|" + c.baseURL
	derive := func(use string) ([]byte, error) {
		return hkdf.Key(sha256.New, []byte(secret), []byte("rounds "+kind+" 1"), use+"|"+g.ref.Owner, 32)
	}
	name, err := derive("name")
	if err != nil {
		return nil, err
	}
	key, err := derive("seal")
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	if g.aead, err = cipher.NewGCM(block); err != nil {
		return nil, err
	}
	g.ref.Name = hex.EncodeToString(name)
	return g, nil
}

func (g *grant) seal(token string) []byte {
	nonce := make([]byte, g.aead.NonceSize(), g.aead.NonceSize()+len(token)+g.aead.Overhead())
	_, _ = rand.Read(nonce) // never fails
	return g.aead.Seal(nonce, nonce, []byte(token), []byte(g.ref.Name))
}

func (g *grant) unseal(sealed []byte) (string, error) {
	size := g.aead.NonceSize()
	if len(sealed) < size {
		return "", errors.New("too short to be sealed")
	}
	token, err := g.aead.Open(nil, sealed[:size], sealed[size:], []byte(g.ref.Name))
	return string(token), err
}
