package delivery_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/poller/delivery"
	"github.com/rounds-dev/rounds/testing/faketime"
)

// TestLostReadOfARewoundGroup rewinds a group while its consumer runs, and loses the reply to
// the first read after that. The messages of that reply come before all that the consumer has
// seen. They must not stay pending.
func TestLostReadOfARewoundGroup(t *testing.T) {
	inFakeTime(t, 1, func(w *world) {
		// The reply to one read that has messages is lost.
		var loses atomic.Bool
		lossy := &faketime.Faulty{Server: w.Redis}
		lossy.Set(func(s faketime.Step) faketime.Fate {
			values, _ := s.Reply.([]any)
			if s.At == faketime.Called && w.names.name(s.Command, s.Args) == "read" && len(values) > 4 && loses.CompareAndSwap(true, false) {
				return faketime.ReplyLost
			}
			return faketime.Healthy
		})
		w.Redis = lossy
		w.add(20, "a", "b")
		c := w.start(delivery.Consumer{Handler: w.effect(time.Hour), Batch: 8})
		time.Sleep(10 * time.Second)
		stream := w.Ring.Tag(0) + ":messages"
		loses.Store(true)
		w.Do("XGROUP", "DESTROY", stream, "g")
		w.Do("XGROUP", "CREATE", stream, "g", "0-0")
		time.Sleep(time.Minute)
		if loses.Load() {
			t.Error("no read was lost")
		}
		w.appliedOnce()
		w.nothingLeft()
		c.stop(t)
	})
}
