package poller

import (
	"fmt"

	"github.com/rounds-dev/rounds/circulate/limit"
)

// A DefaultLimiter is a Checker whose third party has limits that are known.
type DefaultLimiter interface {
	// DefaultLimit is what holds for each of the kind's rate keys where the
	// settings have no rule KIND/* or KIND/KEY: the part of a rule behind its
	// target, such as "concurrency=5". Empty: none.
	DefaultLimit() string
}

// withDefaults adds the default limits of checkers where there is no other.
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
			with.kinds[kind] = &of
		}
	}
	return with, nil
}
