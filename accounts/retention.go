package accounts

import (
	"encoding/json"
	"time"
)

// Retentions says for how long third parties keep messages. Kinds may be
// Retentions as well.
type Retentions interface {
	// Retaining returns the kinds of which that may be known.
	Retaining() []string
	// Retention is for how long messages of an account of this kind and config are
	// kept; zero where that is not known.
	Retention(kind string, config json.RawMessage) time.Duration
}

// Headroom is, for the accounts of one kind, how long until the third party
// forgets messages that no check has fetched: what it keeps less how long ago a
// check last succeeded completely. Parked and paused accounts count. Those that
// were checked within the last hour are not looked at.
type Headroom struct {
	Kind    string  `json:"kind"`
	Least   float64 `json:"least_seconds" doc:"That of the account that has least; negative where messages may be lost already."`
	Account string  `json:"account" doc:"Its id."`

	Low      int `json:"low" doc:"Accounts with less than half of what is kept left."`
	Critical int `json:"critical" doc:"Of these, those with less than a quarter left."`
	Past     int `json:"past" doc:"Of these, those with nothing left: messages may be lost."`
	Parked   int `json:"parked" doc:"Accounts with less than half left that are parked or paused."`
}

// Add counts an account.
func (h *Headroom) Add(id string, keeps, age time.Duration, parked bool) {
	left := keeps - age
	if h.Account == "" || left.Seconds() < h.Least {
		h.Account, h.Least = id, left.Seconds()
	}
	if left >= keeps/2 {
		return
	}
	h.Low++
	if parked {
		h.Parked++
	}
	if left < keeps/4 {
		h.Critical++
	}
	if left <= 0 {
		h.Past++
	}
}

// readRetention tells for how long the third party keeps this account's
// messages.
func (e *Explanation) readRetention(kinds Kinds) {
	if known, ok := kinds.(Retentions); ok && e.View.Fault == "" {
		e.Retention = known.Retention(e.Kind, e.Config)
	}
}

// Headroom is how long until the third party forgets messages that no check has
// fetched, negative if that is past. It is false where that is not known.
func (e *Explanation) Headroom() (time.Duration, bool) {
	stale, ok := e.Staleness()
	if !ok || e.Retention <= 0 {
		return 0, false
	}
	return e.Retention - stale, true
}
