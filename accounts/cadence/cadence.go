package cadence

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

const (
	// MinInterval is the shortest interval besides 0.
	MinInterval = time.Second
	// MaxInterval is the longest interval.
	MaxInterval = 366 * 24 * time.Hour
	// MaxText is the most bytes that a cadence may have as text.
	MaxText = 256
	// Default is the cadence of an account that names none.
	Default = "every 1m"
)

// Cadence says how often, or when, an account is checked. The zero value is "every 0".
type Cadence struct {
	form form
}

// form is one of the cadences.
type form interface {
	// String returns the cadence as Parse reads it.
	String() string
	// rule returns the Rule constant of the cadence.
	rule() string
	// after returns the first slot later than now, in whole milliseconds, or now itself
	// in the tight ring. It returns false if there is none.
	after(id string, now time.Time, s State) (time.Time, bool)
	// longest returns the longest interval; 0 if there is none.
	longest() time.Duration
	// current returns the interval that a state leaves; 0 if there is none.
	current(s State) time.Duration
}

// Parse reads a cadence in one of the forms of the package's doc. An empty text means
// Default. The error says what is wrong with the text, for example that it never fires. A
// time that is past is not an error here: see After.
func Parse(text string) (Cadence, error) {
	if len(text) > MaxText {
		return Cadence{}, fmt.Errorf("a cadence must have at most %d bytes, has %d", MaxText, len(text))
	}
	text = strings.TrimSpace(text)
	if text == "" {
		text = Default
	}
	word, rest, _ := strings.Cut(text, " ")
	rest = strings.TrimSpace(rest)
	var form form
	var err error
	switch word {
	case "every":
		return parseEvery(rest)
	case "adaptive":
		form, err = parseAdaptive(rest)
	case "cron":
		form, err = parseCrontab(rest)
	case "at":
		form, err = parseFixed(rest)
	default:
		err = fmt.Errorf(`%q is not a cadence: a cadence begins with "every", "adaptive", "cron" or "at", as in "every 1m"`, text)
	}
	if err != nil {
		return Cadence{}, err
	}
	return Cadence{form}, nil
}

func parseEvery(rest string) (Cadence, error) {
	if rest == "" {
		return Cadence{}, errors.New(`"every" needs a duration, as in "every 1m"`)
	}
	interval, err := parseDuration(rest)
	if err != nil {
		return Cadence{}, err
	}
	return Every(interval)
}

// get returns the form, also for the zero value.
func (c Cadence) get() form {
	if c.form == nil {
		return interval(0)
	}
	return c.form
}

// String returns the cadence as Parse reads it.
func (c Cadence) String() string { return c.get().String() }

// Interval returns the time between two checks of an "every" cadence. It is 0 in the tight
// ring and for the other cadences.
func (c Cadence) Interval() time.Duration {
	every, _ := c.get().(interval)
	return time.Duration(every)
}

// After returns the account's first slot later than now, given the state that earlier checks
// left. It returns false if there is none: the cadence is one time, and that is past. The
// tight ring has no slots: it returns now.
func (c Cadence) After(id string, now time.Time, s State) (time.Time, bool) {
	return c.get().after(id, now, s)
}

// Longest returns the longest time between two checks that succeed. It is 0 in the tight
// ring and for a cadence that names times.
func (c Cadence) Longest() time.Duration { return c.get().longest() }

// Current returns the time between two checks, given the state that earlier checks left. It is
// 0 in the tight ring and for a cadence that names times.
func (c Cadence) Current(s State) time.Duration { return c.get().current(s) }

// FirstPause returns the pause after the first of several failures in a row, before a random part
// of up to a half is taken off: the current interval, but at least two seconds and at most half a
// minute, which is also the pause of a cadence that names times.
func (c Cadence) FirstPause(s State) time.Duration {
	if c.Timed() {
		return backoffMost
	}
	return min(backoffMost, max(backoffLeast, c.get().current(s)))
}

// Timed reports whether the cadence names times by the clock. A newly registered account
// with such a cadence waits for its first slot. Any other is due at once.
func (c Cadence) Timed() bool {
	switch c.get().(type) {
	case *crontab, fixed:
		return true
	}
	return false
}

func parseDuration(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf("%q is not a duration, such as 90s, 1m or 1h30m", text)
	}
	return d, nil
}

// brief returns a duration as text without the trailing zeros of time.Duration.
func brief(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
