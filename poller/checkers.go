package poller

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Checkers are the checkers of a process, by kind.
type Checkers map[string]Checker

// NewCheckers returns checkers by their kind. It returns an error for two of one kind.
func NewCheckers(all ...Checker) (Checkers, error) {
	c := make(Checkers, len(all))
	for _, checker := range all {
		if _, twice := c[checker.Kind()]; twice {
			return nil, fmt.Errorf("poller: two checkers of kind %q", checker.Kind())
		}
		c[checker.Kind()] = checker
	}
	return c, nil
}

// Validate judges a config with its kind's checker. It returns that checker's error, or one
// that says that the kind is unknown.
func (c Checkers) Validate(kind string, config json.RawMessage) error {
	checker, ok := c[kind]
	if !ok {
		return fmt.Errorf("kind: %q is not known; the kinds are %s", kind, strings.Join(c.Kinds(), ", "))
	}
	if len(config) == 0 {
		config = json.RawMessage("{}")
	}
	return checker.Validate(config)
}

// Kinds returns the kinds in alphabetical order.
func (c Checkers) Kinds() []string {
	kinds := make([]string, 0, len(c))
	for kind := range c {
		kinds = append(kinds, kind)
	}
	slices.Sort(kinds)
	return kinds
}
