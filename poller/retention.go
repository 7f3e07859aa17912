package poller

import (
	"encoding/json"
	"slices"
	"time"
)

// A Retainer is a Checker whose third party forgets messages after a while, as
// WeCom does after three days: an account that is not checked for so long loses
// what came before. The monitor warns well before that.
type Retainer interface {
	// Retention is for how long the third party keeps messages of an account with
	// this config; zero where that is not known. It should be an hour at least:
	// accounts that were checked within the last hour are not looked at.
	Retention(config json.RawMessage) time.Duration
}

// Retaining returns the kinds whose checkers are Retainers, in alphabetical order.
func (c Checkers) Retaining() []string {
	var kinds []string
	for kind, checker := range c {
		if _, ok := checker.(Retainer); ok {
			kinds = append(kinds, kind)
		}
	}
	slices.Sort(kinds)
	return kinds
}

// Retention is the Retainer's of that kind; zero where it is none. A Retainer
// that panics knows nothing.
func (c Checkers) Retention(kind string, config json.RawMessage) (keeps time.Duration) {
	retainer, ok := c[kind].(Retainer)
	if !ok {
		return 0
	}
	defer func() {
		if recover() != nil {
			keeps = 0
		}
	}()
	return max(0, retainer.Retention(orEmpty(config)))
}
