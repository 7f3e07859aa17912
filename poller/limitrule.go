package poller

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/circulate/limit"
)

// parseLimit reads the limits of a rule.
func parseLimit(words []string) (*limit.Limit, []error) {
	l, perSecond := &limit.Limit{}, 0.0
	var faults []error
	given := make(map[string]bool)
	for _, word := range words {
		name, value, _ := strings.Cut(word, "=")
		if given[name] {
			faults = append(faults, fmt.Errorf("%s: is given twice", name))
			continue
		}
		given[name] = true
		var err error
		switch name {
		case "rate":
			l.Every, perSecond, err = parseRate(value)
		case "burst":
			l.Burst, err = parseCount(value)
		case "concurrency":
			l.Concurrency, err = parseCount(value)
		default:
			err = errors.New("is not known; a rule may have rate=, burst= and concurrency=")
		}
		if err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", name, err))
		}
	}
	if !given["rate"] && !given["concurrency"] {
		faults = append(faults, errors.New("rate= or concurrency= is missing"))
	}
	if given["burst"] && !given["rate"] {
		faults = append(faults, errors.New("burst: needs a rate"))
	}
	if given["rate"] && !given["burst"] {
		l.Burst = max(1, int(math.Ceil(perSecond)))
	}
	if len(faults) == 0 {
		check := *l
		check.Name, check.Lease = "any", time.Minute
		if err := check.Validate(); err != nil {
			faults = append(faults, err)
		}
	}
	return l, faults
}

var ratePattern = regexp.MustCompile(`^([0-9]{1,9}(?:\.[0-9]{1,9})?)/([smh])$`)

// parseRate returns the emission interval, in whole µs and never too short.
func parseRate(text string) (every time.Duration, perSecond float64, err error) {
	parts := ratePattern.FindStringSubmatch(text)
	if parts == nil {
		return 0, 0, fmt.Errorf("must be a number and /s, /m or /h, as 10/s, is %q", text)
	}
	per := map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour}[parts[2]]
	n, err := strconv.ParseFloat(parts[1], 64)
	if err != nil {
		return 0, 0, fmt.Errorf("must be a number and /s, /m or /h, as 10/s, is %q", text)
	}
	µs := float64(per.Microseconds()) / n
	if µs < 1 || µs > float64((30*24*time.Hour).Microseconds()) {
		return 0, 0, fmt.Errorf("must be between one in 30 days and 1000000/s, is %q", text)
	}
	return time.Duration(math.Ceil(µs)) * time.Microsecond, n / per.Seconds(), nil
}

func parseCount(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > 1_000_000 {
		return 0, fmt.Errorf("must be a number from 1 to 1000000, is %q", text)
	}
	return n, nil
}
