package wecomkf

import (
	"context"
	"sync"
	"time"

	"github.com/rounds-dev/rounds/poller"
)

const (
	paceCalls  = 10 // calls that WeCom allows an account without a callback's token …
	paceWindow = time.Minute
	paceSpare  = 2     // calls left for the next check, not for further pages
	pacedMost  = 10000 // accounts, before idle ones are forgotten
)

// paces limit each account to what WeCom allows without a callback's token. Otherwise
// an account with a long backlog would pause its whole corporation. They count only the
// calls of this process, which are nearly all of them: an account stays with a replica
// as long as the set of replicas does not change.
type paces struct {
	most  int // calls in a paceWindow
	mu    sync.Mutex
	calls map[string][]time.Time // by account, the oldest first
	swept time.Time              // when idle accounts were last forgotten
}

// call counts a call, or returns an error if it is one too many.
func (p *paces) call(account string) *poller.CheckError {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	calls := p.recent(account, now)
	if len(calls) >= p.most {
		return &poller.CheckError{
			Kind: poller.RateLimited, Code: "wecom_pace", RetryAfter: calls[0].Add(paceWindow).Sub(now),
			Message: "WeCom allows an account 10 calls a minute without a callback",
		}
	}
	if p.calls == nil {
		p.calls = make(map[string][]time.Time)
	}
	p.calls[account] = append(calls, now)
	return nil
}

// wait returns how long the account's next page should wait.
func (p *paces) wait(account string) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	calls := p.recent(account, now)
	if over := len(calls) - (p.most - paceSpare); over >= 0 {
		return calls[over].Add(paceWindow).Sub(now)
	}
	return 0
}

// recent returns the calls that still count.
func (p *paces) recent(account string, now time.Time) []time.Time {
	// This is not done at each call, because no account can be forgotten while more than
	// pacedMost are busy.
	if len(p.calls) > pacedMost && now.Sub(p.swept) >= paceWindow {
		p.swept = now
		for id, calls := range p.calls {
			if now.Sub(calls[len(calls)-1]) >= paceWindow {
				delete(p.calls, id)
			}
		}
	}
	calls := p.calls[account]
	for len(calls) > 0 && now.Sub(calls[0]) >= paceWindow {
		calls = calls[1:]
	}
	return calls
}

const (
	crowdGrowth = 30 * time.Second // time without a complaint after which one more call is allowed
	crowdWait   = time.Second      // how long a check waits for another one to end
	crowdPoll   = 20 * time.Millisecond
)

// crowds limit how many calls this process makes at once for each owner that WeCom
// complained about. The limit that all replicas share should be below what WeCom
// allows, but it does not count the corporation's other programs. A complaint halves
// the number of concurrent calls. Each crowdGrowth without one allows one more, until
// there is no limit again.
type crowds struct {
	mu sync.Mutex
	of map[string]*crowd // by owner
}

type crowd struct {
	inside int
	most   int // 0: any number
	since  time.Time
	peak   int // calls at once at the first complaint
}

// enter starts a call, after a short wait if there are too many. The caller must call
// done when the call has ended.
func (c *crowds) enter(ctx context.Context, owner string) (done func(), failed *poller.CheckError) {
	for began := time.Now(); !c.try(owner); {
		if time.Since(began) >= crowdWait || !sleep(ctx, crowdPoll) {
			return nil, codeError(codeConcurrency)
		}
	}
	return func() { c.leave(owner) }, nil
}

func (c *crowds) try(owner string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of == nil {
		c.of = make(map[string]*crowd)
	}
	if c.of[owner] == nil {
		c.of[owner] = &crowd{}
	}
	of := c.of[owner]
	if of.most > 0 {
		grown := int(time.Since(of.since) / crowdGrowth)
		of.most += grown
		of.since = of.since.Add(time.Duration(grown) * crowdGrowth)
		if of.most > of.peak {
			of.most = 0
		}
	}
	if of.most > 0 && of.inside >= of.most {
		return false
	}
	of.inside++
	return true
}

func (c *crowds) leave(owner string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	of := c.of[owner]
	if of.inside--; of.inside == 0 && of.most == 0 {
		delete(c.of, owner)
	}
}

// lower reduces how many calls are made at once. The caller's own call is under way.
func (c *crowds) lower(owner string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	of, now := c.of[owner], time.Now()
	if of.most == 0 {
		of.peak = of.inside
	} else if now.Sub(of.since) < crowdWait {
		return // calls that began before the last complaint report the same crowd
	}
	of.most, of.since = max(1, of.inside/2), now
}
