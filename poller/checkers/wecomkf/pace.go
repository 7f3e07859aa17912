package wecomkf

import (
	"sync"
	"time"

	"github.com/rounds-dev/rounds/poller"
)

const (
	paceCalls  = 10 // calls that WeCom allows an account without a callback's token …
	paceWindow = time.Minute
	paceSpare  = 2     // calls kept for the next check, not for further pages
	pacedMost  = 10000 // accounts, before idle ones are forgotten
)

// paces keep each account below what WeCom allows without a callback's token.
// Otherwise an account with a long backlog would pause its whole corporation.
// They count only the calls of this process. These are nearly all of them, because
// an account stays with a replica as long as the set of replicas does not change.
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
	// This is not done with each call: if more accounts than that are busy, none can be
	// forgotten.
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
