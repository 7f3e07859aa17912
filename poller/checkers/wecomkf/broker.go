package wecomkf

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/rounds-dev/rounds/circulate/credential"
	"github.com/rounds-dev/rounds/poller"
)

const (
	fetchLease    = 30 * time.Second      // more than fetching and telling of it take
	obtainTimeout = 25 * time.Second      // of a check that waits for another replica
	obtainPoll    = 25 * time.Millisecond // doubled each time, to obtainPollMax
	obtainPollMax = 400 * time.Millisecond

	// freshFor is how long a process uses a token before it asks the store again
	// whether the token was dropped or the corporation is paused.
	freshFor = time.Second
	heldMost = 4096 // tokens in a process
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

	mu   sync.Mutex
	held map[credential.Ref]held
}

type held struct {
	token
	fresh, expires time.Time // until when it is
}

func newBroker(store Tokens, fetch func(context.Context, *grant) (issued, *poller.CheckError)) *broker {
	return &broker{store: store, fetch: fetch, held: make(map[credential.Ref]held)}
}

// obtained is the outcome of a flight.
type obtained struct {
	token  token
	failed *poller.CheckError
}

// token returns a token of another version than not. Concurrent callers share one
// request. A caller that stops waiting does not stop the others.
func (b *broker) token(ctx context.Context, g *grant, not int64) (token, *poller.CheckError) {
	if h, ok := b.known(g.ref); ok && h.version != not && time.Now().Before(h.fresh) {
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
				b.hold(g.ref, t, c.Expires)
				return t, nil
			}
			if !b.drop(ctx, g, c.Version) {
				return token{}, &poller.CheckError{Kind: poller.Transient, Scope: poller.ScopeChecker, Code: "seal",
					Message: "the access token's seal is broken: something else writes to Redis", Err: err}
			}
			wait = poll // it may be there still: what became of the drop may be unknown
		case failed != nil:
			return token{}, failed
		case c.Refused > 0:
			return token{}, g.reasonError(c.Reason, 0)
		case c.Failed > 0:
			return token{}, g.reasonError(c.Reason, c.Failed)
		case c.Value != nil:
			return token{}, g.failure(codeBadToken, "") // the store keeps the token that WeCom refused
		}
		if !sleep(ctx, max(time.Millisecond, wait, min(c.Wait, poll))) {
			return token{}, waited(ctx.Err())
		}
	}
}

// withoutStore returns the token of this process while Redis is unreachable.
func (b *broker) withoutStore(g *grant, not int64, err error) (token, *poller.CheckError) {
	if h, ok := b.known(g.ref); ok && h.version != not && time.Now().Before(h.expires) {
		return h.token, nil
	}
	return token{}, &poller.CheckError{
		Kind: poller.Transient, Scope: poller.ScopeEgress, Code: "token_store", Message: "the store of the shared access tokens is unreachable", Err: err,
	}
}

// drop removes the token of a version for all replicas, and reports whether another
// may be available.
func (b *broker) drop(ctx context.Context, g *grant, version int64) bool {
	b.mu.Lock()
	if b.held[g.ref].version == version {
		delete(b.held, g.ref)
	}
	b.mu.Unlock()
	dropped, err := b.store.Drop(ctx, g.ref, version)
	return dropped || err != nil // unknown after an error: the next request for a token will tell
}

func (b *broker) known(ref credential.Ref) (held, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	h, ok := b.held[ref]
	return h, ok
}

func (b *broker) hold(ref credential.Ref, t token, life time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.held) >= heldMost {
		clear(b.held) // it is only a copy
	}
	now := time.Now()
	b.held[ref] = held{t, now.Add(min(freshFor, life)), now.Add(life)}
}
