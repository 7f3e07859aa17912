package poller

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rounds-dev/rounds/circulate"
)

func TestCleanupsOutsideAPool(t *testing.T) {
	if WhenWritten(t.Context(), func() { t.Error("called") }) {
		t.Error("kept where there is no pool")
	}
}

// A part of a check may outlive the check. Its cleanups run all the same.
func TestCleanupsAfterTheEnd(t *testing.T) {
	var c cleanups
	ctx := context.WithValue(t.Context(), cleanupsKey{}, &c)
	calls := 0
	done := func() { calls++ }
	if !WhenWritten(ctx, done) || calls != 0 {
		t.Fatalf("%d calls at once", calls)
	}
	c.call()
	if !WhenWritten(ctx, done) || calls != 1 {
		t.Fatalf("%d calls after a page", calls)
	}
	c.end()
	c.end()
	if !WhenWritten(ctx, done) || calls != 3 {
		t.Errorf("%d calls after the end", calls)
	}
}

// The memory of a result is freed once it is written, not when it is handed to the committer.
func TestCleanupsAreCalledOnceWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var called atomic.Int32
		c := newCommitter(always(time.Second), 10, func(_ int, items []circulate.Return) {
			if called.Load() != 0 {
				t.Error("called before it was written")
			}
		})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			c.run(ctx)
		}()
		c.submitWith(circulate.Return{Claim: &circulate.Claim{}}, func() { called.Add(1) })
		c.submit(circulate.Return{Claim: &circulate.Claim{}})
		synctest.Wait()
		if called.Load() != 0 {
			t.Error("called at once")
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if called.Load() != 1 || len(c.then) != 0 {
			t.Errorf("called %d times, %d are left", called.Load(), len(c.then))
		}
		cancel()
		<-done
	})
}
