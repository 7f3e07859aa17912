package poller

import (
	"fmt"

	"github.com/rounds-dev/rounds/circulate/limit"
)

// A DefaultLimiter is a Checker whose third party has known limits.
type DefaultLimiter interface {
	// DefaultLimit returns the limit of each of the kind's rate keys for which the
	// settings have no rule KIND/* or KIND/KEY. It is the part of a rule behind the
	// target, such as "concurrency=5". Empty: no limit.
	DefaultLimit() string
}

// withDefaults adds the default limits of checkers for which there is no other limit.
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
