package webhook

import (
	"math/rand/v2"
	"time"
)

// How often and when a message is delivered again that an endpoint did not take. The
// guide and the package's doc state the same; a test compares.
const (
	// MaxDeliveries is after how many deliveries that failed a message becomes a dead
	// letter: with these pauses after about a day.
	MaxDeliveries = 34
	// FirstPause is how long a message waits after the first delivery that failed. Each
	// pause is twice the one before.
	FirstPause = 5 * time.Second
	// LongestPause is what no pause is longer than.
	LongestPause = time.Hour
)

// Backoff is how long a message waits after so many failed deliveries, less up to a
// tenth by chance. It is a [delivery.Consumer]'s, with MaxDeliveries.
func Backoff(deliveries int) time.Duration {
	pause := min(LongestPause, FirstPause<<min(max(deliveries-1, 0), 16))
	return pause - rand.N(pause/10)
}
