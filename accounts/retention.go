package accounts

import (
	"encoding/json"
	"time"
)

// Retentions says how long third parties retain messages. A Kinds may implement it.
type Retentions interface {
	// Retaining returns the kinds whose retention time may be known.
	Retaining() []string
	// Retention returns how long the third party retains the messages of an account of
	// this kind with this config; 0 means unknown.
	Retention(kind string, config json.RawMessage) time.Duration
}

// holds says how long third parties hold calls. A Kinds may implement it.
type holds interface {
	// HoldAt returns how long the third party of an account of this kind, with this config and
	// cadence, holds a call until something comes; 0 means not at all.
	HoldAt(kind string, config json.RawMessage, every string) time.Duration
}

// Headroom sums up, for the accounts of one kind, the time that is left until the third
// party forgets messages that no check has fetched. An account's headroom is its retention
// time minus its staleness. Parked and paused accounts count. Accounts that were checked
// with complete success within the last hour are left out.
type Headroom struct {
	Kind    string  `json:"kind"`
	Least   float64 `json:"least_seconds" doc:"The least headroom of an account; negative: messages may be lost already."`
	Account string  `json:"account" doc:"The id of that account."`

	Low      int `json:"low" doc:"Accounts whose headroom is less than half of the retention time."`
	Critical int `json:"critical" doc:"Accounts whose headroom is less than a quarter of the retention time."`
	Past     int `json:"past" doc:"Accounts without headroom: messages may be lost."`
	Parked   int `json:"parked" doc:"Accounts with low headroom that are parked or paused."`
}

// Add counts an account with the given retention time, whose staleness is age.
func (h *Headroom) Add(id string, retention, age time.Duration, parked bool) {
	left := retention - age
	if h.Account == "" || left.Seconds() < h.Least {
		h.Account, h.Least = id, left.Seconds()
	}
	if left >= retention/2 {
		return
	}
	h.Low++
	if parked {
		h.Parked++
	}
	if left < retention/4 {
		h.Critical++
	}
	if left <= 0 {
		h.Past++
	}
}

// readThirdParty sets how long the third party retains this account's messages, how long
// it holds a call, and what the account shares with others.
func (e *Explanation) readThirdParty(kinds Kinds) {
	if e.View.Fault != "" {
		return
	}
	if known, ok := kinds.(Retentions); ok {
		e.Retention = known.Retention(e.Kind, e.Config)
	}
	if known, ok := kinds.(sharers); ok {
		e.Shares = known.Shared(e.Kind, e.Config)
	}
	if known, ok := kinds.(holds); ok {
		e.Hold = known.HoldAt(e.Kind, e.Config, e.Cadence)
		e.Rule, e.Why = e.reason()
	}
}

// Headroom returns the retention time minus the staleness: the time that is left until the
// third party forgets messages that no check has fetched. It is negative if that time is
// past. Headroom returns false if either is unknown.
func (e *Explanation) Headroom() (time.Duration, bool) {
	stale, ok := e.Staleness()
	if !ok || e.Retention <= 0 {
		return 0, false
	}
	return e.Retention - stale, true
}
