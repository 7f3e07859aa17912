package delivery

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// Control is through what others see what waits at a consumer that runs, and have it
// tried sooner. The zero Control is ready; it is for one consumer at a time, and safe for
// concurrent use.
type Control struct {
	mu     sync.Mutex
	member *member // nil: none runs
}

// Standing is what waits at a consumer in this process: messages that its handler did not
// take, and those behind them.
type Standing struct {
	Accounts int       // that have messages waiting
	Messages int       // of them
	First    []Waiting // the first message of each account, what is tried next first
}

// Waiting is the first of an account's messages that wait.
type Waiting struct {
	Account  string
	Shard    int
	Position string    // in the shard's stream
	Failed   int       // deliveries of it that failed; 0: it was put off
	Behind   int       // messages of the account that wait behind it
	Next     time.Time // when it is delivered again; past: it is being delivered, or about to be
	Err      error     // what it failed with last; nil: that is not known
}

func (c *Control) steer(g *member) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.member = g
}

// sessions are those of the consumer, if one runs that holds something.
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

// Standing tells what waits.
func (c *Control) Standing() (all Standing) {
	for _, s := range c.sessions() {
		s.held.look(s.shard, &all)
	}
	slices.SortFunc(all.First, func(a, b Waiting) int { return cmp.Or(a.Next.Compare(b.Next), cmp.Compare(a.Account, b.Account)) })
	return all
}

// Hasten has messages tried at once that wait to be tried again: those of an account, or
// of all where it is empty. Their order stays, and so does how often each was tried. It
// returns for how many accounts it holds.
func (c *Control) Hasten(account string) (n int) {
	for _, s := range c.sessions() {
		hastened := s.held.hasten(account, time.Now())
		if n += hastened; hastened == 0 {
			continue
		}
		select {
		case s.hurry <- struct{}{}:
		default: // it is told already
		}
	}
	return n
}
