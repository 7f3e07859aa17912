package cadence

import (
	"errors"
	"fmt"
	"hash/fnv"
	"strings"
	"time"
)

const (
	// MinInterval is the shortest interval but 0.
	MinInterval = time.Second
	// MaxInterval is the longest interval.
	MaxInterval = 366 * 24 * time.Hour
	// Default is what an account has that names no cadence.
	Default = "every 1m"
)

// Cadence is how often an account is to be checked.
type Cadence struct {
	interval time.Duration
}

// Every is the cadence of an interval; 0 is the tight ring, again at once.
func Every(interval time.Duration) (Cadence, error) {
	switch {
	case interval == 0:
	case interval < MinInterval:
		return Cadence{}, fmt.Errorf("an interval must be 0 or at least %v, is %v", MinInterval, interval)
	case interval > MaxInterval:
		return Cadence{}, fmt.Errorf("an interval must be at most %v, is %v", MaxInterval, interval)
	case interval%time.Millisecond != 0:
		return Cadence{}, fmt.Errorf("an interval must be whole milliseconds, is %v", interval)
	}
	return Cadence{interval}, nil
}

// Parse reads a cadence: "every 1m", "every 0". Empty means Default.
func Parse(text string) (Cadence, error) {
	if strings.TrimSpace(text) == "" {
		text = Default
	}
	word, rest, _ := strings.Cut(strings.TrimSpace(text), " ")
	rest = strings.TrimSpace(rest)
	if word != "every" {
		return Cadence{}, fmt.Errorf("%q is not a cadence: it begins with \"every\", as in \"every 1m\"", text)
	}
	if rest == "" {
		return Cadence{}, errors.New(`"every" wants a duration, as in "every 1m"`)
	}
	interval, err := time.ParseDuration(rest)
	if err != nil {
		return Cadence{}, fmt.Errorf("%q is not a duration, such as 90s, 1m or 1h30m", rest)
	}
	return Every(interval)
}

// String gives the cadence as Parse reads it.
func (c Cadence) String() string {
	if c.interval == 0 {
		return "every 0"
	}
	text := c.interval.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return "every " + text
}

// Interval is the time between two checks; 0 in the tight ring.
func (c Cadence) Interval() time.Duration { return c.interval }

// After is the first slot of an account after now: the first time t > now with
// t = phase (mod interval), the phase being the id's hash modulo the interval.
// The tight ring has no slots: it is now.
func (c Cadence) After(id string, now time.Time) time.Time {
	if c.interval == 0 {
		return now
	}
	interval := c.interval.Milliseconds()
	phase := int64(hash(id) % uint64(interval))
	ms := now.UnixMilli()
	next := ms - mod(ms-phase, interval) + interval
	return time.UnixMilli(next)
}

func mod(a, b int64) int64 { return ((a % b) + b) % b }

// hash is FNV-1a, whose low bits are mixed once more: ids that differ in a last
// digit must not get phases that differ by little.
func hash(id string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(id))
	x := h.Sum64()
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd // the finalizer of MurmurHash3
	x ^= x >> 33
	return x
}
