package command

import (
	"context"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
)

// haste tells a command that the process got a second signal, if it asks to be told.
type haste struct {
	asked  atomic.Bool
	hurry  chan struct{} // closed at the second signal
	listen func() (again context.Context, stop context.CancelFunc)
}

func newHaste() *haste {
	return &haste{hurry: make(chan struct{}), listen: func() (context.Context, context.CancelFunc) {
		return signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	}}
}

// channel is closed at the second signal, which then does not end the process by itself.
// Of no haste it is nil.
func (h *haste) channel() <-chan struct{} {
	if h == nil {
		return nil
	}
	h.asked.Store(true)
	return h.hurry
}

// follow waits, after the first signal, for a second one where the command asked for
// it; stop ends the wait for the first.
func (h *haste) follow(stop func()) {
	if !h.asked.Load() {
		stop()
		return
	}
	again, stopAgain := h.listen() // before stop, so that no signal finds nobody listening
	stop()
	<-again.Done()
	stopAgain()
	close(h.hurry)
}
