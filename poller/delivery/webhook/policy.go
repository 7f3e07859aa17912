package webhook

import (
	"math/rand/v2"
	"time"
)

// These constants say how often and when a refused message is delivered again. The guide and the
// package's doc say the same; a test compares them.
const (
	// MaxDeliveries is the number of failed deliveries after which a message is a dead
	// letter. With these pauses that takes about a day.
	MaxDeliveries = 34
	// FirstPause is how long a message waits after its first failed delivery. Each further
	// pause is twice as long.
	FirstPause = 5 * time.Second
	// LongestPause is the longest pause.
	LongestPause = time.Hour
)

// Backoff returns how long a message waits after the given number of failed deliveries, minus a
// random part of up to a tenth. It is for a [delivery.Consumer], together with MaxDeliveries.
func Backoff(deliveries int) time.Duration {
	pause := min(LongestPause, FirstPause<<min(max(deliveries-1, 0), 16))
	return pause - rand.N(pause/10)
}
