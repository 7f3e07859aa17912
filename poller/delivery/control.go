package delivery

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// Control lets others see the waiting messages of a running consumer, and order a retry. The zero
// Control is ready to use. It serves one consumer at a time, and is safe for concurrent use.
type Control struct {
	mu     sync.Mutex
	member *member // nil: none runs
}

// Standing is the waiting messages of a consumer in this process: messages that its handler did not
// take, and the messages behind them.
type Standing struct {
	Accounts int       // accounts with waiting messages
	Messages int       // waiting messages
	First    []Waiting // the first message of each account, sorted by the time of the next try
}

// Waiting is the first waiting message of an account.
type Waiting struct {
	Account  string
	Shard    int
	Position string    // in the shard's stream
	Failed   int       // deliveries of it that failed; 0: it was put off
	Behind   int       // messages of the account that wait behind it
	Next     time.Time // when it is delivered again; in the past: it is being delivered, or will be soon
	Err      error     // its last failure; nil: unknown
}

func (c *Control) steer(g *member) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.member = g
}

// leave notes that a consumer has ended, unless another one has started since.
func (c *Control) leave(g *member) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.member == g {
		c.member = nil
	}
}

// sessions returns the sessions of the consumer, if one runs and has waiting messages.
func (c *Control) sessions() (all []*session) {
	c.mu.Lock()
	g := c.member
	c.mu.Unlock()
	if g == nil || g.waiting.Load() == 0 {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, s := range g.reading {
		all = append(all, s)
	}
	return all
}

// Standing returns the waiting messages.
func (c *Control) Standing() (all Standing) {
	for _, s := range c.sessions() {
		s.held.look(s.shard, &all)
	}
	slices.SortFunc(all.First, func(a, b Waiting) int { return cmp.Or(a.Next.Compare(b.Next), cmp.Compare(a.Account, b.Account)) })
	return all
}

// Hasten retries the waiting messages of an account at once, or of all accounts if account is
// empty. Their order and their numbers of deliveries stay the same. It returns the number of
// accounts that it found.
func (c *Control) Hasten(account string) (n int) {
	for _, s := range c.sessions() {
		hastened := s.held.hasten(account, time.Now())
		if n += hastened; hastened == 0 {
			continue
		}
		s.outages.hasten()
		s.hasten()
	}
	return n
}
