package poller

import (
	"encoding/json"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/accounts/activity"
	"github.com/rounds-dev/rounds/accounts/cadence"
	"github.com/rounds-dev/rounds/circulate/limit"
	"github.com/rounds-dev/rounds/poller/egress"
	"github.com/rounds-dev/rounds/poller/internal/panics"
)

// The reasons for which a check does not start, or does not count, because this version does not
// know something.
const (
	reasonKind    = "unknown_kind"
	reasonCadence = "unknown_cadence"
	reasonField   = "unknown_field" // of the record or the config
)

// record is an account's record, decoded once and remembered.
type record struct {
	account  accounts.Account
	cadence  cadence.Cadence
	checker  Checker       // nil: no checker of this process knows the kind
	rateKey  string        // the checker's; empty: it shares no limit
	tight    bool          // the cadence is "every 0"
	hold     time.Duration // how long its calls are held, by what the checker knows; zero: not at all
	remember Remember      // how the account remembers its messages
	subject  activity.Subject
	pace     pace         // of its held calls, across claims
	told     atomic.Int64 // how long the third party last said that it will hold the next call; 0: it did not say
	limits   atomic.Pointer[recordLimits]
	egress   egress.Account
	way      string // by which its calls go; empty: by none that has a name
	via      string // see reaches
	fault    string // why the record cannot be used; empty: it can
	unknown  string // what this version does not know, but a newer one may; empty: nothing
	reason   string // the reason for which it is then returned
}

// recordLimits are the limits of an account's checks under one configuration.
type recordLimits struct {
	config *Limits
	check  limitsOfCheck
}

// limitsOf returns the current limits of an account's checks, and remembers them with its record
// until the configuration changes.
func (l *limiter) limitsOf(r *record) limitsOfCheck {
	if r.checker == nil {
		return limitsOfCheck{}
	}
	limits := l.limits.Load()
	if known := r.limits.Load(); known != nil && known.config == limits {
		return known.check
	}
	now := &recordLimits{limits, limits.of(r.account.Kind, r.rateKey, r.way)}
	r.limits.Store(now)
	return now.check
}

// decode reads a record as far as it can.
func (c *claimer) decode(id string, text []byte) *record {
	if text == nil {
		return &record{fault: "the record is missing"}
	}
	// This is less strict than registration: a newer version may have written fields that
	// this one does not know.
	account, unknown, err := accounts.ReadStored(text)
	if err != nil {
		return &record{fault: fmt.Sprintf("the record cannot be read: %v", err)}
	}
	if account.ID != id {
		return &record{fault: fmt.Sprintf("the record is that of %q", account.ID)}
	}
	every, err := cadence.Parse(c.cadenceOf(&account))
	if err != nil {
		return &record{account: account, subject: subjectOf(&account), unknown: fmt.Sprintf("this version cannot read the cadence: %v", err), reason: reasonCadence}
	}
	r := &record{account: account, subject: subjectOf(&account), egress: egressOf(&account), cadence: every, tight: isTight(every.String()), checker: c.checkers[account.Kind]}
	switch {
	case r.checker == nil:
		r.unknown, r.reason = fmt.Sprintf("no checker here knows the kind %q", account.Kind), reasonKind
	case len(unknown) > 0:
		r.unknown, r.reason = fmt.Sprintf("this version does not know the record's %s", strings.Join(unknown, ", ")), reasonField
	default:
		panicked := c.panicked(account.Kind)
		r.way, _ = c.config.Ways.Choose(&r.egress) // if it names a way that there is not, its calls fail
		r.rateKey = answer("RateKey", r.checker.RateKey, account.Config, panicked)
		if r.rateKey != "" && len(c.config.Ways.All()) > 0 {
			r.via = limit.Via(r.shared(), r.way)
		}
		if r.tight || !pollable(r.checker) {
			r.hold = min(holdOf(r.checker, account.Config, panicked), c.config.longestHold())
		}
		r.remember = rememberOf(r.checker, account.Config, panicked)
	}
	return r
}

// subjectOf returns what checks of an account count for.
func subjectOf(a *accounts.Account) activity.Subject {
	s := activity.Subject{Kind: a.Kind, Host: accounts.WhereConfig(a.Config)}
	for _, name := range slices.Sorted(maps.Keys(a.Labels)) {
		s.Labels = append(s.Labels, name+"="+a.Labels[name])
	}
	return s
}

// egressOf returns what the choice of an account's way out depends on.
func egressOf(a *accounts.Account) egress.Account {
	return egress.Account{ID: a.ID, Kind: a.Kind, Labels: a.Labels}
}

// isTight reports whether a cadence is "every 0".
func isTight(every string) bool { return every == cadence.Cadence{}.String() }

// cadenceOf returns an account's cadence as text. An account whose third party holds calls may name
// none, if it was registered before the API knew such kinds. A Pollable's was polled then, and still is.
func (c *claimer) cadenceOf(a *accounts.Account) string {
	if a.Cadence == "" && !pollable(c.checkers[a.Kind]) && c.checkers.Hold(a.Kind, a.Config) > 0 {
		return cadence.Cadence{}.String()
	}
	return a.Cadence
}

// answer asks a method of a checker, which is somebody else's code, about a config. If it panics,
// answer returns zero and passes the panic to panicked, unless that is nil.
func answer[T any](method string, ask func(json.RawMessage) T, config json.RawMessage, panicked func(method string, reason any)) (_ T) {
	defer func() {
		if reason := recover(); reason != nil && panicked != nil {
			panicked(method, reason)
		}
	}()
	return ask(orEmpty(config))
}

// panicked returns a function for panics of a checker that was asked about a config. It counts
// each, and logs it once for each kind and method, because all accounts of the kind may cause it.
func (c *claimer) panicked(kind string) func(method string, reason any) {
	return func(method string, reason any) {
		c.metrics.panics.WithLabelValues(kind).Inc()
		if _, told := c.panics.LoadOrStore(kind+" "+method, true); !told {
			c.log.Error("a checker panicked", "kind", kind, "method", method, "panic", panics.Type(reason), "stack", string(debug.Stack()))
		}
	}
}

func orEmpty(config json.RawMessage) json.RawMessage {
	if len(config) == 0 {
		return json.RawMessage("{}")
	}
	return config
}
