package poller

import (
	"encoding/json"
	"time"

	"github.com/rounds-dev/rounds/circulate"
)

// Remember says how an account remembers the messages that it found. See circulate.Remember.
type Remember = circulate.Remember

// A Rememberer is a Checker whose third party may give a message again: under a new cursor, or
// after half an hour. The account then remembers its messages, and each is written once. A message
// is identified by its ID, and by its Content if that is set. See section Memory of package
// circulate for the rules.
type Rememberer interface {
	// Remembers returns how an account with this config remembers; the zero value: not at all. The pool
	// makes sure that it remembers two full pages at least.
	Remembers(config json.RawMessage) Remember
}

// UsualRemember is what most Rememberers return: 1,024 messages, for two days.
func UsualRemember() Remember { return Remember{Messages: 1024, For: 48 * time.Hour} }

// rememberOf asks a checker how an account remembers. See answer for panicked.
func rememberOf(c Checker, config json.RawMessage, panicked func(method string, reason any)) Remember {
	rememberer, ok := c.(Rememberer)
	if !ok {
		return Remember{}
	}
	return answer("Remembers", rememberer.Remembers, config, panicked)
}

// remember returns how the account remembers a page: at least this one and another full one, with
// the half of Remember.Messages that it retains in any case.
func (f *flight) remember(page []Message) Remember {
	r := f.record.remember
	if r.Messages > 0 {
		r.Messages = max(r.Messages, 4*max(f.flights.config.PageLimit, len(page)))
	}
	return r
}

// mayHaveLost reports whether a page of an earlier call may be lost: its replica may have died with
// the page in hand, or its answer was cut.
func (f *flight) mayHaveLost() bool {
	return f.cut || !f.answered && (f.claim.Strikes > 0 || f.claim.Failures > 0)
}
