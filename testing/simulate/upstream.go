package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/testing/simulate/replicas"
)

// upstream is the third party of all accounts. It numbers what it returns: the messages
// of an account are life.line.1, life.line.2 and so on. A line begins with each check
// that has no cursor, and a life with each registration. The cursor is the last message.
type upstream struct {
	seed  uint64
	sends *ledger

	mu      sync.Mutex
	rough   bool   // checks are slow, fail, panic and hang
	network bool   // nobody can be reached
	down    string // the host that answers nobody; empty: none
	slow    float64
	lines   int
	dropped map[string]int // life -> cursors refused
	running map[string][]time.Time
	byLane  map[string]int // checks by priority
	last    map[string]time.Time
	ok      map[string]int // account -> checks that succeeded
	counts  struct{ checks, ok, failed, panics, hangs, overlaps, messages int }
	overlap func(account string, since time.Time)
}

func newUpstream(seed uint64) *upstream {
	return &upstream{seed: seed, sends: newLedger(), dropped: make(map[string]int), running: make(map[string][]time.Time),
		byLane: make(map[string]int), last: make(map[string]time.Time), ok: make(map[string]int)}
}

func (u *upstream) set(change func()) {
	u.mu.Lock()
	defer u.mu.Unlock()
	change()
}

// checked returns how many checks of each account have succeeded.
func (u *upstream) checked() map[string]int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return maps.Clone(u.ok)
}

// hosts is the number of hosts that accounts share.
const hosts = 7

// checker is one replica's connection to the upstream.
type checker struct {
	*upstream
	link *replicas.Link
}

type settings struct {
	Life int    `json:"life"`
	Host string `json:"host"`
	Lane string `json:"lane"`

	Hold  float64 `json:"hold,omitempty"`  // in seconds; 0: calls are not held
	Again bool    `json:"again,omitempty"` // the last messages may come again

	Windowed bool   `json:"windowed,omitempty"` // each message allows answers to its sender
	Doubt    string `json:"doubt,omitempty"`
}

func (checker) Kind() string { return "sim" }

func (checker) Validate(config json.RawMessage) error {
	var s settings
	return json.Unmarshal(config, &s)
}

// Remembers has the accounts remember whose messages may come again: the last few, for longer than
// any account is out of circulation.
func (checker) Remembers(config json.RawMessage) poller.Remember {
	var s settings
	if json.Unmarshal(config, &s) != nil || !s.Again {
		return poller.Remember{}
	}
	return poller.Remember{Messages: 64, For: 30 * 24 * time.Hour}
}

func (checker) RateKey(config json.RawMessage) string {
	var s settings
	_ = json.Unmarshal(config, &s) // it was validated
	return s.Host
}

// Check makes a check. It stands still when its replica does.
func (c checker) Check(ctx context.Context, r poller.Request) (poller.Result, error) {
	c.link.WhilePaused()
	began := time.Now()
	var s settings
	if err := json.Unmarshal(r.Config, &s); err != nil {
		return poller.Result{}, &poller.CheckError{Kind: poller.ConfigInvalid, Code: "config", Message: err.Error()}
	}
	nth := c.begin(r.Account, s, began)
	defer c.end(r.Account, began)
	result, err := c.answer(ctx, r, s, nth)
	c.link.WhilePaused()
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.counts.failed++
		return poller.Result{}, err
	}
	c.counts.ok++
	c.counts.messages += len(result.Messages)
	c.last[r.Account] = time.Now()
	c.ok[r.Account]++
	return result, nil
}

func (u *upstream) begin(account string, s settings, now time.Time) (nth uint64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.counts.checks++
	u.byLane[s.Lane]++
	if others := u.running[account]; len(others) > 0 {
		u.counts.overlaps++
		if u.overlap != nil {
			u.overlap(account, others[0])
		}
	}
	u.running[account] = append(u.running[account], now)
	return replicas.Mix(u.seed, text(account), uint64(now.UnixMilli()))
}

func (u *upstream) end(account string, began time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	all := u.running[account]
	for i := range all {
		if all[i].Equal(began) {
			u.running[account] = append(all[:i:i], all[i+1:]...)
			break
		}
	}
	if len(u.running[account]) == 0 {
		delete(u.running, account)
	}
}

// answer is what the third party does with a check.
func (u *upstream) answer(ctx context.Context, r poller.Request, s settings, nth uint64) (poller.Result, error) {
	u.mu.Lock()
	rough, network, slow, down := u.rough, u.network, max(1, u.slow), u.down != "" && u.down == s.Host
	u.mu.Unlock()
	chance := func(what uint64) float64 { return replicas.Chance(nth, what) }
	takes := time.Duration(slow * (5 + 200*chance(1)*chance(1)) * float64(time.Millisecond))
	if network {
		if err := wait(ctx, takes); err != nil {
			return poller.Result{}, err
		}
		return poller.Result{}, &poller.CheckError{Kind: poller.Transient, Code: "unreachable", Message: "no route to host", Network: true}
	}
	if down {
		if err := wait(ctx, takes); err != nil {
			return poller.Result{}, err
		}
		failed := &poller.CheckError{Kind: poller.Transient, Scope: poller.ScopeRateKey, Code: "http_503", Message: "as simulated"}
		if chance(5) < 0.1 {
			failed.Kind, failed.Code, failed.RetryAfter = poller.RateLimited, "http_429", time.Duration(chance(6)*float64(time.Minute))
		}
		return poller.Result{}, failed
	}
	if rough {
		if err := u.misbehave(ctx, r, s, chance(2), &takes); err != nil {
			return poller.Result{}, err
		}
	}
	if r.Hold > 0 {
		return u.hold(ctx, r, s, chance)
	}
	if err := wait(ctx, takes); err != nil {
		return poller.Result{}, err
	}
	return u.found(r, s, int(4*chance(3)), chance(4) < 0.1)
}

// misbehave does what a bad checker may do.
func (u *upstream) misbehave(ctx context.Context, r poller.Request, s settings, p float64, takes *time.Duration) error {
	failed := func(kind poller.ErrorKind, after time.Duration) error {
		return &poller.CheckError{Kind: kind, RetryAfter: after, Code: string(kind), Message: "as simulated"}
	}
	switch {
	case p < 0.80:
	case p < 0.86: // slow, but in time
		*takes += time.Duration((p - 0.80) / 0.06 * float64(25*time.Second))
	case p < 0.88: // too slow: it obeys its context
		*takes += time.Minute
	case p < 0.89: // hangs: it obeys nothing
		u.set(func() { u.counts.hangs++ })
		time.Sleep(time.Minute + time.Duration((p-0.88)/0.01*float64(9*time.Minute)))
		return errors.New("too late")
	case p < 0.90:
		u.set(func() { u.counts.panics++ })
		panic("as simulated")
	case p < 0.94:
		return failed(poller.Transient, 0)
	case p < 0.96:
		return failed(poller.RateLimited, time.Duration((p-0.94)/0.02*float64(2*time.Minute)))
	case p < 0.965 && r.Cursor != nil:
		u.set(func() { u.dropped[life(r, s)]++ })
		return failed(poller.CursorInvalid, 0)
	case p < 0.970:
		return failed(poller.Gone, 0)
	}
	return nil
}

// found returns the next messages after the cursor.
func (u *upstream) found(r poller.Request, s settings, n int, more bool) (poller.Result, error) {
	line, last := string(r.Cursor), 0
	if r.Cursor == nil {
		u.mu.Lock()
		u.lines++
		line = fmt.Sprintf("%d.%d", s.Life, u.lines)
		u.mu.Unlock()
	} else {
		var l, k int
		if _, err := fmt.Sscanf(line, "%d.%d.%d", &l, &k, &last); err != nil {
			return poller.Result{}, &poller.CheckError{Kind: poller.Protocol, Code: "cursor", Message: err.Error()}
		}
		line = fmt.Sprintf("%d.%d", l, k)
	}
	result := poller.Result{HasMore: more}
	add := func(k int) {
		m := poller.Message{ID: fmt.Sprintf("%s.%d", line, k), Type: "text"}
		if s.Windowed {
			m.Answerable = u.sends.grants(r.Account, m.ID, k)
		}
		result.Messages = append(result.Messages, m)
	}
	if s.Again && n == 2 { // the third party repeats itself
		for k := max(1, last-2); k <= last; k++ {
			add(k)
		}
	}
	for i := range n {
		add(last + 1 + i)
	}
	if n > 0 {
		result.Cursor = fmt.Appendf(nil, "%s.%d", line, last+n)
	}
	return result, nil
}

// life returns the life of a check's line.
func life(r poller.Request, s settings) string {
	return fmt.Sprintf("%s %d", r.Account, s.Life)
}

func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

func text(s string) uint64 {
	h := uint64(0)
	for i := range len(s) {
		h = replicas.Mix(h, uint64(s[i]))
	}
	return h
}
