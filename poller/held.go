package poller

import (
	"context"
	"sync"
)

// held is what a check holds until its result is written, such as the memory of the result.
type held struct {
	mu    sync.Mutex
	ended bool
	done  []func()
}

type heldKey struct{}

// WhenWritten calls done once, when what a check has found so far is written to the ring or
// dropped. Ctx is the context of Checker.Check, or derived from it. If ctx does not come from
// a pool, WhenWritten returns false and never calls done.
func WhenWritten(ctx context.Context, done func()) bool {
	h, ok := ctx.Value(heldKey{}).(*held)
	if ok && !h.add(done) {
		done() // a part of the check outlived it
	}
	return ok
}

func (h *held) add(done func()) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.ended {
		h.done = append(h.done, done)
	}
	return !h.ended
}

// whenWritten returns the function to call once the check's result is written, or nil if
// nothing is held.
func (h *held) whenWritten() func() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.done) == 0 {
		h.ended = true
		return nil
	}
	return h.end
}

// free releases what is held. The check may go on.
func (h *held) free() { h.release(false) }

// end is free for a check that is over.
func (h *held) end() { h.release(true) }

func (h *held) release(ended bool) {
	h.mu.Lock()
	done := h.done
	h.done, h.ended = nil, h.ended || ended
	h.mu.Unlock()
	for _, f := range done {
		f()
	}
}
