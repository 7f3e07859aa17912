package command

import (
	"context"
	"sync/atomic"
	"testing"
)

// A second signal ends the process, as usual, unless the command handles it.
func TestHaste(t *testing.T) {
	for name, asks := range map[string]bool{"a command that asks": true, "one that does not": false} {
		var stopped, stoppedAgain atomic.Bool
		again, signalled := context.WithCancel(context.Background())
		h := newHaste()
		h.listen = func() (context.Context, context.CancelFunc) {
			if stopped.Load() {
				t.Errorf("%s: nobody listened for a moment", name)
			}
			return again, func() { stoppedAgain.Store(true) }
		}
		var hurry <-chan struct{}
		if asks {
			hurry = h.channel()
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			h.follow(func() { stopped.Store(true) })
		}()
		if asks {
			select {
			case <-hurry:
				t.Errorf("%s: told at the first signal", name)
			default:
			}
			signalled()
			<-hurry
		}
		<-done
		if !stopped.Load() || stoppedAgain.Load() != asks {
			t.Errorf("%s: %t, %t", name, stopped.Load(), stoppedAgain.Load())
		}
		signalled()
	}
	var none *haste
	if none.channel() != nil {
		t.Error("no haste has a channel")
	}
}
