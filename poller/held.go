package poller

import (
	"context"
	"sync"
)

// held is what a check holds until its result is written: the memory that the
// result takes up is not free before.
type held struct {
	mu    sync.Mutex
	ended bool
	done  []func()
}

type heldKey struct{}

// WhenWritten has done called, once, when what a check has found by now is
// written to the ring or dropped. Ctx is the one that Checker.Check got, or comes
// from it. It reports false, and forgets done, where ctx is no pool's.
func WhenWritten(ctx context.Context, done func()) bool {
	h, ok := ctx.Value(heldKey{}).(*held)
	if ok && !h.add(done) {
		done() // something of the check outlived it
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

// whenWritten returns what is to be called once the check's result is written; nil:
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

// free lets go of what is held; the check may go on.
func (h *held) free() { h.release(false) }

// end is free of a check that is over.
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
