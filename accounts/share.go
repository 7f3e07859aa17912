package accounts

import (
	"strconv"
	"strings"
	"time"
)

// shareLetter begins the word that WithUsed puts into what an account's cadence keeps.
const shareLetter = "b"

// WithUsed notes, in front of what an account's cadence keeps, until when what the
// account brought uses up its share of bytes: a share that refills evenly is full
// again then. A zero time notes nothing. WithSkip goes in front of it.
func WithUsed(state string, until time.Time) string {
	if until.IsZero() {
		return state
	}
	used := shareLetter + strconv.FormatInt(until.UnixMilli(), 10)
	if state == "" {
		return used
	}
	return used + " " + state
}

// UsedUntil is the time that WithUsed put there, to the millisecond; zero where there
// is none.
func UsedUntil(state string) time.Time {
	for word := range strings.FieldsSeq(state) {
		digits, ok := strings.CutPrefix(word, shareLetter)
		if !ok {
			continue
		}
		if ms, err := strconv.ParseInt(digits, 10, 64); err == nil && ms > 0 && ms <= 1<<53 {
			return time.UnixMilli(ms)
		}
	}
	return time.Time{}
}
