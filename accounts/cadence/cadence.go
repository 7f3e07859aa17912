package cadence

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

const (
	// MinInterval is the shortest interval but 0.
	MinInterval = time.Second
	// MaxInterval is the longest interval.
	MaxInterval = 366 * 24 * time.Hour
	// MaxText is the most bytes that a cadence may have as text.
	MaxText = 256
	// Default is what an account has that names no cadence.
	Default = "every 1m"
)

// Cadence is how often an account is to be checked, or when. The zero value is
// "every 0".
type Cadence struct {
	form form
}

// form is one of the cadences.
type form interface {
	// String returns it as Parse reads it.
	String() string
	// rule names it.
	rule() string
	// after is the first time later than now, whole milliseconds or now itself.
	// It is false if there is none.
	after(id string, now time.Time, s State) (time.Time, bool)
	// longest is the longest interval; 0 where there is none.
	longest() time.Duration
}

// Parse reads a cadence, in one of the forms of the package's doc. Empty means
// Default. The error says what is wrong with it, and of what never fires that it
// does not. A time that is past is no error here: see After.
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
		err = fmt.Errorf(`%q is not a cadence: it begins with "every", "adaptive", "cron" or "at", as in "every 1m"`, text)
	}
	if err != nil {
		return Cadence{}, err
	}
	return Cadence{form}, nil
}

func parseEvery(rest string) (Cadence, error) {
	if rest == "" {
		return Cadence{}, errors.New(`"every" wants a duration, as in "every 1m"`)
	}
	interval, err := parseDuration(rest)
	if err != nil {
		return Cadence{}, err
	}
	return Every(interval)
}

// get is the form, of the zero value too.
func (c Cadence) get() form {
	if c.form == nil {
		return interval(0)
	}
	return c.form
}

// String returns the cadence as Parse reads it.
func (c Cadence) String() string { return c.get().String() }

// Interval is the time between two checks where that is always the same; 0 in
// the tight ring and for the other cadences.
func (c Cadence) Interval() time.Duration {
	every, _ := c.get().(interval)
	return time.Duration(every)
}

// After is the account's first slot later than now, given what earlier checks
// left. It is false if there is none: the cadence was one time and that has
// come. The tight ring has no slots: it is now.
func (c Cadence) After(id string, now time.Time, s State) (time.Time, bool) {
	return c.get().after(id, now, s)
}

// Longest is the longest time between two checks that succeed; 0 in the tight ring and
// where the cadence names times by the clock.
func (c Cadence) Longest() time.Duration { return c.get().longest() }

// Timed reports whether the cadence names times by the clock: an account with it
// waits for its first slot when it is registered, while any other one is due at
// once.
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

// brief writes a duration without the zeros that time.Duration puts behind it.
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
