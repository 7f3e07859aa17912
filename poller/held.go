package poller

import (
	"context"
	"sync"
	"time"

	"github.com/rounds-dev/rounds/circulate"
)

// held is what a check holds until its result is written, such as the memory of the result.
type held struct {
	mu    sync.Mutex
	ended bool
	done  []func()
	begun func() // called when the call has reached the third party; nil: nobody waits for that
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

// Begun says that the call of a check has reached its third party, and only waits from now on. Ctx
// is the context of Checker.Check, or derived from it. A checker that does not say so is believed
// to have begun after two seconds.
func Begun(ctx context.Context) {
	if h, ok := ctx.Value(heldKey{}).(*held); ok && h.begun != nil {
		h.begun()
	}
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

const (
	asideBytes = 64 << 20  // of pages that are set aside; the writer waits with further ones
	asideLong  = time.Hour // for which a page is tried; its claim was lost long before
)

// aside holds pages that Redis does not take now, and that no third party gives again. It
// tries to write each until the outcome is known, beside the other writes.
type aside struct {
	mu    sync.Mutex
	bytes int
	tries sync.WaitGroup
}

// take takes over some bytes, unless that would be too many.
func (a *aside) take(bytes int) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.bytes > 0 && a.bytes+bytes > asideBytes {
		return false
	}
	a.bytes += bytes
	return true
}

func (a *aside) give(bytes int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.bytes -= bytes
}

// setAside takes the returns out of a batch that have messages which nobody gives again, and
// goes on trying to write them. It returns the others. Unknown says that an earlier try may
// have written them.
func (w *writer) setAside(shard int, items []circulate.Return, unknown bool) []circulate.Return {
	left := items[:0:0]
	for i := range items {
		bytes := size(&items[i])
		if len(items[i].Messages) == 0 || !w.once[items[i].Kind] || !w.aside.take(bytes) {
			left = append(left, items[i])
			continue
		}
		w.aside.tries.Go(func() {
			defer w.aside.give(bytes)
			w.tryOn(shard, items[i:i+1:i+1], unknown)
		})
	}
	return left
}

// tryOn writes a page that was set aside.
func (w *writer) tryOn(shard int, items []circulate.Return, unknown bool) {
	until, cancel := context.WithTimeout(w.writes, asideLong)
	defer cancel()
	for try := 0; sleep(until, min(commitRetryMax, commitRetry<<min(try, 6))); try++ {
		outcomes, err := w.ring.Return(w.writes, shard, items)
		if err == nil {
			w.committed(shard, items, outcomes, unknown)
			return
		}
		w.metrics.redisErrors.WithLabelValues("return").Inc()
		unknown = unknown || circulate.Unknown(err)
	}
	w.metrics.returns.WithLabelValues("given_up").Inc()
	w.holding.remove(items[0].Claim.ID)
	w.holding.lose(shard)
	w.log.Error("messages are lost: Redis did not take them, and the third party gives each once",
		"account", items[0].Claim.ID, "kind", items[0].Kind, "shard", shard, "messages", len(items[0].Messages))
}
