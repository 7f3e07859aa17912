package delivery_test

import (
	"testing"
	"time"

	"github.com/rounds-dev/rounds/poller/delivery"
)

// TestForgottenAcknowledgement makes Redis forget acknowledgements, like a Redis that lost its last
// writes. The messages must not stay pending: a shard with pending messages is not trimmed behind
// them, and a reshard cannot drain it.
func TestForgottenAcknowledgement(t *testing.T) {
	inFakeTime(t, 1, func(w *world) {
		w.add(6, "a", "b")
		c := w.start(delivery.Consumer{Handler: w.effect(time.Hour), Batch: 8})
		time.Sleep(10 * time.Second)
		w.nothingLeft()
		stream := w.Ring.Tag(0) + ":messages"
		entries := w.Do("XRANGE", stream, "-", "+").([]any)
		for _, i := range []int{0, 3} {
			id := string(entries[i].([]any)[0].([]byte))
			w.Do("XCLAIM", stream, "g", "somebody", 0, id, "FORCE", "JUSTID")
		}
		time.Sleep(2 * time.Minute)
		w.nothingLeft()
		w.appliedOnce()
		c.stop(t)
	})
}
