package poller

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/circulate/limit"
	"github.com/rounds-dev/rounds/poller/egress"
)

// Limits are the configured limits, by kind. The zero value limits nothing.
type Limits struct {
	kinds map[string]*limitsOfKind
}

type limitsOfKind struct {
	whole *limit.Limit              // of the kind as a whole; nil: none
	each  *limit.Limit              // of every rate key by itself, still without a name; nil: none
	takes func(rateKey string) bool // which rate keys each is for; nil: all
	keys  map[string]*limit.Limit   // of single rate keys, instead of each
}

// limitsOfCheck are the limits of a check: its rate key's, its kind's and its way's, nil if there is
// none. They are asked in this order, so that a check that its host's limit denies takes nothing from
// the kind's limit, nor from the way's.
type limitsOfCheck [3]*limit.Limit

// ParseLimits reads limits in the form of the setting: rules separated by semicolons or
// new lines,
//
//	http concurrency=200; http/* rate=10/m burst=3
//	http/api.example.com rate=2/s concurrency=2
//
// Each rule has a target and one or more limits:
//
//	KIND       the kind as a whole
//	KIND/*     each rate key of the kind by itself
//	KIND/KEY   one rate key, in place of KIND/*; write a space, a semicolon or a
//	           key "*" as %XX
//	egress/*   each way out by itself, whatever goes by it
//	egress/WAY one way out, in place of egress/*
//
//	rate=N/s, N/m, N/h   the number of checks that may start; N may have decimals
//	burst=N              how many of them may start at once after a pause; by default
//	                     the rate of one second, at least 1
//	concurrency=N        the number of checks that may run at once
//
// With a burst of 1, each start loses up to 125 ms until a denied account comes back. With a burst
// of 2, accounts that wait for the rate use it in full.
//
// kinds are the allowed kinds; nil allows any. The error has all faults, each with its rule.
func ParseLimits(text string, kinds []string) (Limits, error) {
	l := Limits{kinds: make(map[string]*limitsOfKind)}
	var errs []error
	n := 0
	for rule := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == ';' || r == '\n' }) {
		words := strings.Fields(rule)
		if len(words) == 0 {
			continue
		}
		n++
		for _, err := range l.add(words, kinds) {
			errs = append(errs, fmt.Errorf("limits: rule %d, %q: %w", n, strings.Join(words, " "), err))
		}
	}
	if len(errs) > 0 {
		return Limits{}, errors.Join(errs...)
	}
	return l, nil
}

// add takes a rule and returns its faults.
func (l *Limits) add(words, kinds []string) (faults []error) {
	kind, key, single := strings.Cut(words[0], "/")
	switch {
	case kind == "":
		faults = append(faults, errors.New("a kind is missing before the /"))
	case strings.Contains(kind, "="):
		faults = append(faults, errors.New("must begin with KIND, KIND/* or KIND/KEY"))
	case kind == egress.Target && !single:
		faults = append(faults, errors.New("must be egress/* for each way out, or egress/NAME for one"))
	case kind != egress.Target && kinds != nil && !slices.Contains(kinds, kind):
		faults = append(faults, fmt.Errorf("kind %q is not known; the kinds are %s", kind, strings.Join(kinds, ", ")))
	}
	if single && key == "" {
		faults = append(faults, errors.New("a rate key is missing behind the /"))
	}
	name := kind
	if single && key != "*" {
		decoded, err := url.PathUnescape(key)
		if err != nil {
			faults = append(faults, fmt.Errorf("rate key %q: %% must be followed by two hexadecimal digits", key))
		}
		key, name = decoded, keyLimitName(kind, decoded)
	}
	parsed, more := parseLimit(words[1:])
	if faults = append(faults, more...); len(faults) > 0 {
		return faults
	}
	parsed.Name = name

	of := l.kinds[kind]
	if of == nil {
		of = &limitsOfKind{keys: make(map[string]*limit.Limit)}
		l.kinds[kind] = of
	}
	twice := false
	switch {
	case !single:
		twice, of.whole = of.whole != nil, parsed
	case words[0] == kind+"/*":
		twice, of.each = of.each != nil, parsed
	default:
		twice, of.keys[key] = of.keys[key] != nil, parsed
	}
	if twice {
		return []error{fmt.Errorf("%s already has a rule", words[0])}
	}
	return nil
}

// keyLimitName returns the name of a rate key's limit, which is never the name of a kind.
func keyLimitName(kind, rateKey string) string { return kind + "/" + rateKey }

// leased returns the same limits with another lease time.
func (l Limits) leased(lease time.Duration) Limits {
	set := func(l *limit.Limit) *limit.Limit {
		if l == nil {
			return nil
		}
		with := *l
		with.Lease = lease
		return &with
	}
	leased := Limits{kinds: make(map[string]*limitsOfKind, len(l.kinds))}
	for kind, of := range l.kinds {
		with := &limitsOfKind{whole: set(of.whole), each: set(of.each), takes: of.takes, keys: make(map[string]*limit.Limit, len(of.keys))}
		for key, one := range of.keys {
			with.keys[key] = set(one)
		}
		leased.kinds[kind] = with
	}
	return leased
}

// of returns the limits of an account's checks. An empty rate key or way is shared with nobody.
func (l Limits) of(kind, rateKey, way string) (limits limitsOfCheck) {
	if of := l.kinds[kind]; of != nil {
		limits[0], limits[1] = of.single(kind, rateKey), of.whole
	}
	if of := l.kinds[egress.Target]; of != nil {
		limits[2] = of.single(egress.Target, way)
	}
	return limits
}

// single returns the limit of one rate key, or nil.
func (of *limitsOfKind) single(kind, key string) *limit.Limit {
	if key == "" {
		return nil
	}
	if one, ok := of.keys[key]; ok {
		return one
	}
	if of.each == nil || of.takes != nil && !of.takes(key) {
		return nil
	}
	one := *of.each
	one.Name = keyLimitName(kind, key)
	return &one
}

// Ways returns the ways out that have a rule of their own, for callers who know which ways there are.
func (l Limits) Ways() []string {
	if of := l.kinds[egress.Target]; of != nil {
		return slices.Sorted(maps.Keys(of.keys))
	}
	return nil
}

// A DefaultLimiter is a Checker whose third party has known limits.
type DefaultLimiter interface {
	// DefaultLimit returns the limit of each of the kind's rate keys for which the
	// settings have no rule KIND/* or KIND/KEY. Its form is a rule without the target,
	// such as "concurrency=5". Empty: no limit.
	DefaultLimit() string
}

// A SelectiveLimiter is a DefaultLimiter whose default limit is not for all rate keys.
type SelectiveLimiter interface {
	DefaultLimiter

	// LimitsByDefault reports whether a rate key has the default limit.
	LimitsByDefault(rateKey string) bool
}

// withDefaults adds the default limits of checkers where the settings have no limit.
func (l Limits) withDefaults(checkers Checkers) (Limits, error) {
	with := Limits{kinds: make(map[string]*limitsOfKind, len(l.kinds))}
	for kind, of := range l.kinds {
		with.kinds[kind] = of
	}
	for kind, checker := range checkers {
		limiter, ok := checker.(DefaultLimiter)
		if !ok || limiter.DefaultLimit() == "" {
			continue
		}
		defaults, err := ParseLimits(kind+"/* "+limiter.DefaultLimit(), nil)
		if err != nil {
			return Limits{}, fmt.Errorf("the default of kind %q: %w", kind, err)
		}
		of := limitsOfKind{keys: make(map[string]*limit.Limit)}
		if configured := with.kinds[kind]; configured != nil {
			of = *configured
		}
		if of.each == nil {
			of.each = defaults.kinds[kind].each
			if selective, ok := checker.(SelectiveLimiter); ok {
				of.takes = selective.LimitsByDefault
			}
			with.kinds[kind] = &of
		}
	}
	return with, nil
}

// paced reports whether any of the limits has a rate, so that each call has to ask it.
func (l limitsOfCheck) paced() bool {
	return slices.ContainsFunc(l[:], func(one *limit.Limit) bool { return one != nil && one.Every > 0 })
}

// leased reports whether any of the limits has leases.
func (l limitsOfCheck) leased() bool {
	return slices.ContainsFunc(l[:], func(one *limit.Limit) bool { return one != nil && one.Concurrency > 0 })
}

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

// parseRate returns the emission interval, rounded up to whole µs.
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
