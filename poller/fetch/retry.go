package fetch

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// The limits within which an upstream's Retry-After is honoured.
const (
	MinRetryAfter = time.Second
	MaxRetryAfter = 24 * time.Hour
)

// RetryAfter reads a Retry-After header, seconds or a date, clamped to between
// MinRetryAfter and MaxRetryAfter; 0 if there is none or it cannot be read. A
// date counts from the answer's own Date, so that a wrong clock on either side
// does not matter, or else from now.
func RetryAfter(header http.Header, now time.Time) time.Duration {
	value := strings.TrimSpace(header.Get("Retry-After"))
	if value == "" {
		return 0
	}
	if digits(value) {
		seconds, err := strconv.ParseUint(value, 10, 32)
		if err != nil {
			return MaxRetryAfter // more than 32 bits of seconds
		}
		return ClampRetryAfter(time.Duration(seconds) * time.Second)
	}
	until, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	if date, err := http.ParseTime(header.Get("Date")); err == nil {
		now = date
	}
	return ClampRetryAfter(until.Sub(now))
}

// ClampRetryAfter brings a wait into the limits.
func ClampRetryAfter(wait time.Duration) time.Duration {
	return min(max(wait, MinRetryAfter), MaxRetryAfter)
}

func digits(text string) bool {
	for _, char := range []byte(text) {
		if char < '0' || char > '9' {
			return false
		}
	}
	return true
}
