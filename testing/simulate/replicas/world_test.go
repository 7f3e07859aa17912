package replicas

import (
	"testing"
	"time"
)

// A clock that jumps only between two commands of a world would test nothing.
func TestRedisGoesByTheWorldsClock(t *testing.T) {
	Run(t, Options{Shards: 1}, func(w *World) {
		for _, jump := range []time.Duration{0, 24 * time.Hour, -time.Hour} {
			w.Jump(jump)
			for range 2 { // each step is a separate round trip
				time.Sleep(time.Second)
				now, err := w.Ring().Now(w.Context(), 0)
				if err != nil {
					w.Fatal(err)
				}
				if off := now.Sub(w.Now()).Abs(); off > time.Second {
					w.Errorf("after a jump by %v Redis' clock is off by %v", jump, off)
				}
			}
		}
	})
}
