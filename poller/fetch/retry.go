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

// retryAfter returns the wait of a Retry-After header, in seconds or as a date, clamped
// to between MinRetryAfter and MaxRetryAfter. It is 0 if the header is missing or
// cannot be read. A date counts from the answer's own Date, so that a wrong clock on
// either side does not matter. An answer without a Date counts as made now.
func retryAfter(header http.Header, now time.Time) time.Duration {
	value := strings.TrimSpace(header.Get("Retry-After"))
	if value == "" {
		return 0
	}
	if digits(value) {
		seconds, err := strconv.ParseUint(value, 10, 32)
		if err != nil {
			return MaxRetryAfter // the number has more than 32 bits
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

// ClampRetryAfter limits a wait to between MinRetryAfter and MaxRetryAfter.
func ClampRetryAfter(wait time.Duration) time.Duration {
	return min(max(wait, MinRetryAfter), MaxRetryAfter)
}

func digits(text string) bool { return strings.Trim(text, "0123456789") == "" }
