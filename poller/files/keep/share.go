package keep

import (
	"context"
	"maps"
	"sync"
	"time"
)

// gates are what all files of a Keeper need, by name: a third party, the store, a quota. While one of
// them is away, a single file at a time finds out whether it is back, and the others are put off before
// anybody is asked for them.
type gates struct {
	first, most time.Duration // the pause after the first failure, and the longest one
	patience    time.Duration // how long the others wait for a probe before they look again

	mu     sync.Mutex
	closed map[string]*gate
}

type gate struct {
	until time.Time // no file passes before
	pause time.Duration
	probe *probe // the file that finds out; nil: none does
	shut  bool   // it said so itself, and will say when it is back
	why   string
}

// probe is a file on its way through a closed gate. It has a field so that no two have one address.
type probe struct{ _ byte }

const (
	firstHostPause = 5 * time.Second
	longHostPause  = 5 * time.Minute

	// openLongAgo is the age from which a closed gate that nobody waits for is forgotten.
	openLongAgo = time.Hour
)

// enter returns how long to wait at a gate, and why. If it is zero, the caller may go on. If the gate
// was closed, the others wait for what becomes of that, or until leave. The caller always calls leave
// at its end.
func (g *gates) enter(name string) (leave func(), wait time.Duration, why string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	leave = func() {}
	one := g.closed[name]
	if one == nil {
		return leave, 0, ""
	}
	if wait = time.Until(one.until); wait > 0 {
		return leave, wait, one.why
	}
	if one.probe != nil {
		return leave, g.patience, one.why
	}
	mine := new(probe)
	one.probe = mine
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if one.probe == mine {
			one.probe = nil
		}
	}, 0, ""
}

// isClosed reports whether a gate is closed, or its probe on its way.
func (g *gates) isClosed(name string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.closed[name] != nil
}

// failed closes a gate because somebody was asked in vain, for at least some time. It returns for how long.
// The pause grows with each probe that fails.
func (g *gates) failed(name string, after time.Duration, why string) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	one := g.of(name)
	if one.probe != nil { // else the file was on its way when the gate was closed
		one.pause = min(g.most, 2*one.pause)
	}
	wait := max(one.pause, after)
	one.until, one.why, one.probe, one.shut = time.Now().Add(wait), why, nil, false
	return wait
}

// shut closes a gate for some time, because it says itself that it is away. Nobody was asked in vain, so
// the pause does not grow.
func (g *gates) shut(name string, wait time.Duration, why string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	one := g.of(name)
	one.until, one.why, one.probe, one.shut = time.Now().Add(wait), why, nil, true
}

// back opens a gate that said itself that it was away, and now says that it is not. It reports whether
// the gate is open.
func (g *gates) back(name string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if one := g.closed[name]; one != nil && one.shut {
		delete(g.closed, name)
	}
	return g.closed[name] == nil
}

// of returns a gate to close.
func (g *gates) of(name string) *gate {
	if g.closed == nil {
		g.closed = make(map[string]*gate)
	}
	now := time.Now()
	maps.DeleteFunc(g.closed, func(_ string, one *gate) bool { return one.probe == nil && now.Sub(one.until) > openLongAgo })
	one := g.closed[name]
	if one == nil {
		one = &gate{pause: g.first}
		g.closed[name] = one
	}
	return one
}

// reached opens a gate.
func (g *gates) reached(name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.closed, name)
}

// share bounds how many files of one account are fetched at once.
type share struct {
	most int

	mu   sync.Mutex
	busy map[string]*sharing // accounts with files under way, or that wait
}

type sharing struct {
	places chan struct{}
	users  int
}

// enter waits for one of the account's places.
func (s *share) enter(ctx context.Context, account string) (leave func(), err error) {
	s.mu.Lock()
	if s.busy == nil {
		s.busy = make(map[string]*sharing)
	}
	one := s.busy[account]
	if one == nil {
		one = &sharing{places: make(chan struct{}, s.most)}
		s.busy[account] = one
	}
	one.users++
	s.mu.Unlock()
	gone := func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if one.users--; one.users == 0 {
			delete(s.busy, account)
		}
	}
	select {
	case one.places <- struct{}{}:
		return func() { <-one.places; gone() }, nil
	case <-ctx.Done():
		gone()
		return nil, context.Cause(ctx)
	}
}

// enter waits for a place, first of the account and then of all.
func (k *Keeper) enter(ctx context.Context, account string) (leave func(), err error) {
	done, err := k.share.enter(ctx, account)
	if err != nil {
		return nil, err
	}
	select {
	case k.places <- struct{}{}:
		k.Metrics.fetching.Inc()
		return func() {
			k.Metrics.fetching.Dec()
			<-k.places
			done()
		}, nil
	case <-ctx.Done():
		done()
		return nil, context.Cause(ctx)
	}
}
