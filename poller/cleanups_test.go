package poller

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rounds-dev/rounds/circulate"
)

func TestWhatIsHeldOutsideAPool(t *testing.T) {
	if WhenWritten(t.Context(), func() { t.Error("called") }) {
		t.Error("kept where there is no pool")
	}
}

// What a part of a check holds is freed even if that part outlives the check.
func TestWhatIsHeldAfterTheEnd(t *testing.T) {
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

// A result holds its memory until it is written, not only until it is handed to the committer.
func TestWhatIsHeldIsLetGoOnceWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var letGo atomic.Int32
		c := newCommitter(always(time.Second), 10, func(_ int, items []circulate.Return) {
			if letGo.Load() != 0 {
				t.Error("let go before it was written")
			}
		})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			c.run(ctx)
		}()
		c.submitHeld(circulate.Return{Claim: &circulate.Claim{}}, func() { letGo.Add(1) })
		c.submit(circulate.Return{Claim: &circulate.Claim{}})
		synctest.Wait()
		if letGo.Load() != 0 {
			t.Error("let go at once")
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if letGo.Load() != 1 || len(c.held) != 0 {
			t.Errorf("let go %d times, %d are held", letGo.Load(), len(c.held))
		}
		cancel()
		<-done
	})
}
