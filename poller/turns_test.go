package poller_test

import (
	"testing"
	"time"

	"github.com/rounds-dev/rounds/poller"
)

// Who has waited for longer than usual looks for a place more often. Nobody looks all the time.
func TestTurns(t *testing.T) {
	var turns poller.Turns
	for range 100 {
		turns.Took(time.Minute)
	}
	for waited, want := range map[time.Duration][2]time.Duration{
		-time.Second:       {5 * time.Second, 10 * time.Second}, // a clock went back
		0:                  {5 * time.Second, 10 * time.Second},
		time.Minute:        {5 * time.Second, 10 * time.Second},
		80 * time.Second:   {time.Second / 2, time.Second},
		1000 * time.Hour:   {time.Second / 2, time.Second},
		1 << 62:            {time.Second / 2, time.Second}, // it has no history
		-(1 << 62):         {5 * time.Second, 10 * time.Second},
		70 * time.Second:   {5 * time.Second, 10 * time.Second},
		24 * 3 * time.Hour: {time.Second / 2, time.Second},
	} {
		if least, most := turns.Pause(waited, 0), turns.Pause(waited, 0.999); least != want[0] || most > want[1] || most <= least {
			t.Errorf("after %v: %v to %v, want %v", waited, least, most, want)
		}
	}
	// If all wait for longer, that becomes usual.
	for range 100 {
		turns.Took(time.Hour)
	}
	if got := turns.Pause(time.Hour, 0); got != 5*time.Second {
		t.Errorf("after an hour, which is usual: %v", got)
	}
}
