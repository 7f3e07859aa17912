package poller

import (
	"context"
	"sync"
)

// places counts a pool's free places for checks.
type places struct {
	mu   sync.Mutex
	free int
	more signal // has a value after places became free
}

func newPlaces(n int) *places {
	return &places{free: n, more: newSignal()}
}

// take waits for at least one free place and takes up to n. It takes none if ctx is done.
func (p *places) take(ctx context.Context, n int) int {
	return p.more.await(ctx, func() int { return p.tryTake(n) })
}

// tryTake takes up to n places that are free now.
func (p *places) tryTake(n int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	got := min(n, p.free)
	p.free -= got
	if got > 0 && p.free > 0 {
		p.more.give()
	}
	return got
}

// spare returns how many places are free.
func (p *places) spare() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.free
}

// give frees places.
func (p *places) give(n int) {
	if n == 0 {
		return
	}
	p.mu.Lock()
	p.free += n
	p.mu.Unlock()
	p.more.give()
}

// signal has a value after something has happened that a goroutine waits for.
type signal chan struct{}

func newSignal() signal { return make(signal, 1) }

func (s signal) give() {
	select {
	case s <- struct{}{}:
	default: // it has one
	}
}

// await returns what try returns as soon as that is more than 0. It tries again whenever the signal has
// a value, and returns 0 if ctx is done.
func (s signal) await(ctx context.Context, try func() int) int {
	for {
		if got := try(); got > 0 {
			return got
		}
		select {
		case <-ctx.Done():
			return 0
		case <-s:
		}
	}
}
