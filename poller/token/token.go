// Package token shares access tokens among the checkers of all replicas: one of them fetches a
// token for all, and it is replaced before it expires. It knows no third party. A Grant says how
// a token is sealed and what its failures mean, and a function fetches it.
package token

import (
	"context"
	"errors"
	"strconv"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/rounds-dev/rounds/circulate/credential"
	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/internal/copies"
)

const (
	// Lease is how long one replica alone may fetch a token. It is longer than FetchTimeout and
	// what it takes to store the outcome.
	Lease = 30 * time.Second
	// FetchTimeout is the time-out of a fetch.
	FetchTimeout = 10 * time.Second
	// ObtainTimeout is the longest that a check waits for a token, which another replica may be
	// fetching.
	ObtainTimeout = 25 * time.Second
	// FreshFor is how long a process uses a token before it asks the store again whether the
	// token was dropped or its owner is paused.
	FreshFor = time.Second

	obtainPoll    = 25 * time.Millisecond // doubled each time, to obtainPollMax
	obtainPollMax = 400 * time.Millisecond
	settleTimeout = 5 * time.Second
	mostCopies    = 4096 // tokens in a process
)

// Grant is what it takes to fetch and seal one access token. A Key has the methods that need no
// third party.
type Grant interface {
	// Ref names the token for all replicas.
	Ref() credential.Ref
	Seal(token string) []byte
	Unseal(sealed []byte) (string, error)
	// Failure returns the error for a reason that another replica stored: Fetched.Reason, or the
	// reason of a pause. No replica tries again within wait.
	Failure(reason string, wait time.Duration) *poller.CheckError
	// Stays returns the error for a refused token that the store still has, because the one before
	// it was refused a moment ago too.
	Stays() *poller.CheckError
}

// Fetched is what became of a request for a token.
type Fetched struct {
	Token        string        // empty: there is none
	Use, Refresh time.Duration // how long the token is used, and after what time the next one is fetched

	Failed  *poller.CheckError // why there is no token
	Reason  string             // the same for the other replicas, in short and without secrets
	For     time.Duration      // how long no replica tries again
	Refused bool               // the third party refuses the secret
}

// Token is an access token. Its version names it for Drop.
type Token struct {
	Value   string
	Version int64
}

// Broker gets tokens from the store that replicas share, or from the third party for all of them.
// It is safe for concurrent use.
type Broker[G Grant] struct {
	store   Store
	fetch   func(context.Context, G) Fetched
	flights singleflight.Group
	copies  *copies.Copies[credential.Ref, held]
}

// held is this process' copy of a token.
type held struct {
	Token
	fresh, expires time.Time // until when the token is so
}

// NewBroker returns a broker of the tokens in store. It calls fetch for a token that is missing or
// due to be replaced, in one process at a time.
func NewBroker[G Grant](store Store, fetch func(context.Context, G) Fetched) *Broker[G] {
	return &Broker[G]{store: store, fetch: fetch, copies: copies.New[credential.Ref, held](mostCopies, 0, nil)}
}

// obtained is the outcome of a flight.
type obtained struct {
	token  Token
	failed *poller.CheckError
}

// Token returns a token of another version than not. Concurrent callers share one request. A caller
// that stops waiting does not stop the others.
func (b *Broker[G]) Token(ctx context.Context, g G, not int64) (Token, *poller.CheckError) {
	ref := g.Ref()
	if h, ok := b.copies.Get(ref); ok && h.Version != not && time.Now().Before(h.fresh) {
		return h.Token, nil
	}
	key := ref.Owner + "|" + ref.Name + "|" + strconv.FormatInt(not, 10)
	flight := b.flights.DoChan(key, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), ObtainTimeout)
		defer cancel()
		t, failed := b.obtain(ctx, g, not)
		return obtained{t, failed}, nil
	})
	select {
	case <-ctx.Done():
		return Token{}, waited(ctx.Err())
	case done := <-flight:
		o := done.Val.(obtained)
		if o.failed != nil {
			copied := *o.failed // one copy for each check
			return Token{}, &copied
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
func (b *Broker[G]) obtain(ctx context.Context, g G, not int64) (Token, *poller.CheckError) {
	ref := g.Ref()
	for poll := obtainPoll; ; poll = min(2*poll, obtainPollMax) {
		wait := time.Duration(0) // before the store is asked again
		c, err := b.store.Take(ctx, ref, Lease)
		if err != nil {
			return b.withoutStore(ref, not, err)
		}
		var failed *poller.CheckError
		if c.Fence != 0 {
			var t Token
			if t, failed = b.fetchFor(ctx, g, c.Fence); failed == nil {
				return t, nil
			}
		}
		switch {
		case c.Paused > 0:
			return Token{}, g.Failure(c.PauseReason, c.Paused)
		case c.Value != nil && c.Version != not:
			value, err := g.Unseal(c.Value)
			if err == nil {
				t := Token{value, c.Version}
				b.copy(ref, t, c.Expires)
				return t, nil
			}
			if !b.Drop(ctx, g, c.Version) {
				return Token{}, &poller.CheckError{Kind: poller.Transient, Scope: poller.ScopeChecker, Code: "seal",
					Message: "the access token's seal is broken: something else writes to Redis", Err: err}
			}
			wait = poll // the refused token may still be there: the outcome of the drop may be unknown
		case failed != nil:
			return Token{}, failed
		case c.Refused > 0:
			return Token{}, g.Failure(c.Reason, 0)
		case c.Failed > 0:
			return Token{}, g.Failure(c.Reason, c.Failed)
		case c.Value != nil:
			return Token{}, g.Stays()
		}
		if !sleep(ctx, max(time.Millisecond, wait, min(c.Wait, poll))) {
			return Token{}, waited(ctx.Err())
		}
	}
}

// withoutStore returns the token of this process while Redis is unreachable.
func (b *Broker[G]) withoutStore(ref credential.Ref, not int64, err error) (Token, *poller.CheckError) {
	if h, ok := b.copies.Get(ref); ok && h.Version != not && time.Now().Before(h.expires) {
		return h.Token, nil
	}
	return Token{}, &poller.CheckError{
		Kind: poller.Transient, Scope: poller.ScopeEgress, Code: "token_store", Message: "the store of the shared access tokens is unreachable", Err: err,
	}
}

// Drop removes the token of a version for all replicas, because the third party refused it. It
// reports whether another may be available.
func (b *Broker[G]) Drop(ctx context.Context, g G, version int64) bool {
	b.copies.Drop(g.Ref(), func(h held) bool { return h.Version == version })
	dropped, err := b.store.Drop(ctx, g.Ref(), version)
	return dropped || err != nil // after an error nobody knows: the next request for a token will show
}

// copy makes this process' copy of a token.
func (b *Broker[G]) copy(ref credential.Ref, t Token, life time.Duration) {
	now := time.Now()
	b.copies.Put(ref, held{t, now.Add(min(FreshFor, life)), now.Add(life)})
}

// fetchFor fetches a token for all replicas. It stores the outcome even if ctx has
// ended by then.
func (b *Broker[G]) fetchFor(ctx context.Context, g G, fence int64) (Token, *poller.CheckError) {
	// The call has a time-out of its own. Little of ctx may be left, and then all replicas
	// would get the time-out as the outcome.
	calling, cancel := context.WithTimeout(context.WithoutCancel(ctx), FetchTimeout)
	defer cancel()
	got := b.fetch(calling, g)
	writing, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
	defer cancel()
	s := credential.Settlement{As: credential.Failed, Reason: got.Reason, For: got.For}
	switch {
	case got.Token != "":
		s = credential.Settlement{As: credential.Fetched, Value: g.Seal(got.Token), For: got.Use, Refresh: got.Refresh}
	case got.Refused:
		s.As = credential.Refused
	}
	// If the outcome was not written, or may not have been, the lease expires by itself.
	// The token is valid either way.
	ours, err := b.store.Settle(writing, g.Ref(), fence, s)
	if got.Token == "" {
		return Token{}, got.Failed
	}
	t := Token{got.Token, fence}
	if err == nil && ours {
		b.copy(g.Ref(), t, s.For)
	}
	return t, nil
}

// Pause makes all checks of the grant's owner wait, as the third party asked, and returns how long:
// the first of steps, and if it happens again within memory the next one. See
// credential.Store.PauseOwner.
func (b *Broker[G]) Pause(ctx context.Context, g G, reason string, memory time.Duration, steps ...time.Duration) time.Duration {
	wait, err := b.store.PauseOwner(ctx, g.Ref().Owner, reason, memory, steps...)
	if err != nil {
		wait = steps[0]
	}
	b.copies.Drop(g.Ref(), func(held) bool { return true })
	return wait
}

// sleep waits, and reports false if ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
