package token

import (
	"context"
	"sync"
	"time"

	"github.com/rounds-dev/rounds/circulate/credential"
)

// Store has sealed access tokens and the pauses of their owners, for all checkers that share
// it. A credential.Store implements it for all replicas of a namespace, and documents the
// methods. NewMemory returns one for a single process.
type Store interface {
	Take(ctx context.Context, ref credential.Ref, lease time.Duration) (credential.Known, error)
	Settle(ctx context.Context, ref credential.Ref, fence int64, s credential.Settlement) (bool, error)
	Drop(ctx context.Context, ref credential.Ref, version int64) (bool, error)
	PauseOwner(ctx context.Context, owner, reason string, memory time.Duration, steps ...time.Duration) (time.Duration, error)
}

var _ Store = credential.Store{}

// Memory implements Store in the memory of one process. It is safe for concurrent
// use.
type Memory struct {
	mu          sync.Mutex
	fence       int64
	credentials map[credential.Ref]*remembered
	pauses      map[string]*pause // by owner
}

// remembered is what is known about one credential. Each part has a time at which it ends.
type remembered struct {
	value            []byte
	version, fence   int64
	fetching         bool // the fence was not settled
	expires, refresh time.Time
	lease            time.Time
	refused, failed  time.Time
	reason           string
	dropped          time.Time
}

type pause struct {
	until  time.Time
	step   int
	reason string
}

// NewMemory returns an empty Memory.
func NewMemory() *Memory {
	return &Memory{credentials: make(map[credential.Ref]*remembered), pauses: make(map[string]*pause)}
}

var _ Store = (*Memory)(nil)

// Take implements credential.Store.Take for this process. Its error is always nil.
func (m *Memory) Take(_ context.Context, ref credential.Ref, lease time.Duration) (credential.Known, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	left := func(until time.Time) time.Duration { return max(0, until.Sub(now)) }
	c := m.credentials[ref]
	if c == nil {
		c = &remembered{}
		m.credentials[ref] = c
	}
	known := credential.Known{
		Expires: left(c.expires), Wait: left(c.lease), Refused: left(c.refused), Failed: left(c.failed),
	}
	if known.Expires > 0 {
		known.Value, known.Version = c.value, c.version
	}
	if known.Refused > 0 || known.Failed > 0 {
		known.Reason = c.reason
	}
	if p := m.pauses[ref.Owner]; p != nil && left(p.until) > 0 {
		known.Paused, known.PauseReason = left(p.until), p.reason
	}
	idle := known.Paused == 0 && known.Wait == 0 && known.Refused == 0 && known.Failed == 0
	if idle && (known.Value == nil || left(c.refresh) == 0) {
		m.fence++
		c.fence, c.fetching, c.lease = m.fence, true, now.Add(lease)
		known.Fence = c.fence
	}
	return known, nil
}

// Settle implements credential.Store.Settle for this process. Its error is always nil.
func (m *Memory) Settle(_ context.Context, ref credential.Ref, fence int64, s credential.Settlement) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.credentials[ref]
	if c == nil || c.fence != fence || !c.fetching {
		return false, nil
	}
	until := time.Now().Add(s.For)
	c.fetching, c.lease = false, time.Time{}
	switch s.As {
	case credential.Fetched:
		c.value, c.version, c.expires, c.refresh = s.Value, fence, until, time.Now().Add(s.Refresh)
		c.refused, c.failed, c.reason = time.Time{}, time.Time{}, ""
	case credential.Refused:
		c.refused, c.reason = until, s.Reason
	case credential.Failed:
		c.failed, c.reason = until, s.Reason
	}
	return true, nil
}

// Drop implements credential.Store.Drop for this process. Its error is always nil.
func (m *Memory) Drop(_ context.Context, ref credential.Ref, version int64) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.credentials[ref]
	if c == nil || c.version != version {
		return true, nil
	}
	now := time.Now()
	if now.Sub(c.dropped) < credential.DropGuard {
		return false, nil
	}
	c.dropped, c.value, c.version, c.expires = now, nil, 0, time.Time{}
	return true, nil
}

// PauseOwner implements credential.Store.PauseOwner for this process. Its error is
// always nil.
func (m *Memory) PauseOwner(_ context.Context, owner, reason string, memory time.Duration, steps ...time.Duration) (time.Duration, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p, now := m.pauses[owner], time.Now()
	if p == nil {
		p = &pause{}
		m.pauses[owner] = p
	}
	if now.Before(p.until) {
		return p.until.Sub(now), nil
	}
	if now.Sub(p.until) > memory {
		p.step = 0
	}
	wait := steps[min(p.step, len(steps)-1)]
	p.step, p.until, p.reason = min(p.step+1, len(steps)), now.Add(wait), reason
	return wait, nil
}
