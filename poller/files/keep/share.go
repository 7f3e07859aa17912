package keep

import (
	"context"
	"sync"
	"time"
)

// hosts are third parties that cannot be reached, or want a pause, by kind and rate key.
type hosts struct {
	mu   sync.Mutex
	down map[string]*host
}

type host struct {
	until   time.Time // no file is fetched before
	pause   time.Duration
	probing bool // a file is on its way
	why     string
}

const (
	firstHostPause = 5 * time.Second
	longHostPause  = 5 * time.Minute
)

// enter returns how long to wait for a host, and why. If it is zero, the caller may ask the host;
// if the host was down, the others wait for what becomes of that.
func (h *hosts) enter(name string) (wait time.Duration, why string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	one := h.down[name]
	if one == nil {
		return 0, ""
	}
	if wait = time.Until(one.until); wait > 0 {
		return wait, one.why
	}
	if one.probing {
		return shortPause, one.why
	}
	one.probing = true
	return 0, ""
}

// leave takes back an enter after which the host was not asked.
func (h *hosts) leave(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if one := h.down[name]; one != nil {
		one.probing = false
	}
}

// failed notes that a host could not be reached, and how long it wants to be left alone.
func (h *hosts) failed(name string, after time.Duration, why string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.down == nil {
		h.down = make(map[string]*host)
	}
	one := h.down[name]
	switch {
	case one == nil:
		one = &host{pause: firstHostPause}
		h.down[name] = one
	case one.probing:
		one.pause = min(longHostPause, 2*one.pause)
	} // else the file was on its way when the host went down
	one.until, one.why, one.probing = time.Now().Add(max(one.pause, after)), why, false
}

// reached notes that a host answers.
func (h *hosts) reached(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.down, name)
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
