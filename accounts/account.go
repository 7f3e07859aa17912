package accounts

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/accounts/cadence"
	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/circulate"
)

const (
	// MaxConfig is the most bytes that an account's config may have.
	MaxConfig = 64 << 10
	// MaxLabels is the most labels that an account may have.
	MaxLabels = 64
	// MaxLabel is the most bytes of a label's name or value.
	MaxLabel = 256
)

// Account is a thing to check, as it is registered.
type Account struct {
	ID      string            `json:"id" strict:"id"`
	Kind    string            `json:"kind" strict:"kind"`
	Config  json.RawMessage   `json:"config,omitempty" strict:"config"`
	Cadence string            `json:"cadence,omitempty" strict:"cadence"` // as cadence.Parse reads it; empty: cadence.Default, or "every 0" if the third party holds calls
	Labels  map[string]string `json:"labels,omitempty" strict:"labels"`

	// Priority is one of the Priority words; empty means PriorityNormal.
	Priority string `json:"priority,omitempty" strict:"priority,given"`

	// RetryBudget is the number of failures in a row that parks the account; 0 means
	// cadence.RetryBudget.
	RetryBudget int `json:"retry_budget,omitempty" strict:"retry_budget,given"`

	// OnUnknown says what becomes of a send whose end nobody knows: OnUnknownHold or
	// OnUnknownRetry. Empty means OnUnknownHold.
	OnUnknown string `json:"on_unknown,omitempty" strict:"on_unknown,given"`
}

// What becomes of a send of which nobody knows whether the third party has it.
const (
	OnUnknownHold  = "hold"  // it waits until somebody resolves it
	OnUnknownRetry = "retry" // it is sent again, and may arrive twice
)

var onUnknownFault = Fault{Field: "on_unknown", Reason: `must be "hold" or "retry"`}

// Kinds judges configs. It knows the kinds whose checkers this process has.
type Kinds interface {
	// Validate returns every fault of a config at once, each with its field, or an
	// error that says that the kind is unknown.
	Validate(kind string, config json.RawMessage) error
}

// holders may be implemented by Kinds whose third parties hold calls until something comes.
type holders interface {
	// Hold returns for how long the third party holds a call; zero: not at all.
	Hold(kind string, config json.RawMessage) time.Duration
}

// paced returns the account with the cadence of its kind, if it names none and its third party
// holds calls: one call follows the other at once.
func (a Account) paced(kinds Kinds) Account {
	if h, ok := kinds.(holders); ok && a.Cadence == "" && h.Hold(a.Kind, a.Config) > 0 {
		a.Cadence = cadence.Cadence{}.String()
	}
	return a
}

type (
	// Fault is what is wrong with one field of a record or a request.
	Fault = strict.Fault
	// Faults is everything that is wrong with a record or a request.
	Faults = strict.Faults
)

// Encode returns the account's record as it is stored: one line of JSON, and always the
// same bytes for the same account. It returns Faults for a config that is not JSON.
func (a Account) Encode() ([]byte, error) {
	if len(a.Config) > 0 {
		var compact bytes.Buffer
		if err := json.Compact(&compact, a.Config); err != nil {
			return nil, Faults{{Field: "config", Reason: err.Error()}}
		}
		a.Config = compact.Bytes()
	}
	if a.Priority == PriorityNormal {
		a.Priority = "" // the default is never written, so that naming it changes nothing
	}
	if a.OnUnknown == OnUnknownHold {
		a.OnUnknown = ""
	}
	return encodeJSON(a)
}

// encodeJSON returns a value as one line of JSON, in which an address with & stays readable.
func encodeJSON(value any) ([]byte, error) {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	err := e.Encode(value)
	return bytes.TrimSuffix(text.Bytes(), []byte("\n")), err
}

// Validate returns every fault of the record as Faults, or nil.
func (a Account) Validate(kinds Kinds) error {
	var faults Faults
	if err := circulate.ValidateID(a.ID); err != nil {
		faults.Add("id", err.Error())
	}
	if _, err := cadence.Parse(a.Cadence); err != nil {
		faults.Add("cadence", err.Error())
	}
	if _, ok := priorities()[a.Priority]; !ok && a.Priority != "" {
		faults = append(faults, priorityFault)
	}
	if a.RetryBudget < 0 || a.RetryBudget > cadence.MaxRetryBudget {
		faults = append(faults, retryBudgetFault)
	}
	if a.OnUnknown != "" && a.OnUnknown != OnUnknownHold && a.OnUnknown != OnUnknownRetry {
		faults = append(faults, onUnknownFault)
	}
	if len(a.Config) > MaxConfig {
		faults.Add("config", fmt.Sprintf("must be at most %d bytes, has %d", MaxConfig, len(a.Config)))
	}
	if len(a.Labels) > MaxLabels {
		faults.Add("labels", fmt.Sprintf("must be at most %d, are %d", MaxLabels, len(a.Labels)))
	}
	for _, name := range slices.Sorted(maps.Keys(a.Labels)) {
		value := a.Labels[name]
		if name == "" || len(name) > MaxLabel || len(value) > MaxLabel {
			faults.Add("labels."+name, fmt.Sprintf("name and value must have at most %d bytes, the name at least one", MaxLabel))
		}
	}
	if a.Kind == "" {
		faults.Add("kind", "must not be empty")
	} else if err := kinds.Validate(a.Kind, a.Config); err != nil {
		faults = append(faults, flatten(err, "config")...)
	}
	return faults.Err()
}

var retryBudgetFault = Fault{Field: "retry_budget", Reason: fmt.Sprintf("must be a whole number from 1 to %d", cadence.MaxRetryBudget)}

// Policy returns the account's own settings for its failures.
func (a Account) Policy() cadence.Policy { return cadence.Policy{RetryBudget: a.RetryBudget} }

// firstDue returns when a valid account is due for its first check; the zero time means
// at once. It returns Faults if the account would never be due. It asks the clock only if
// the cadence names times.
func (a Account) firstDue(clock func() (time.Time, error)) (time.Time, error) {
	c, err := cadence.Parse(a.Cadence)
	if err != nil {
		return time.Time{}, Faults{{Field: "cadence", Reason: err.Error()}}
	}
	if !c.Timed() {
		return time.Time{}, nil
	}
	now, err := clock()
	if err != nil {
		return time.Time{}, err
	}
	due, ok := c.After(a.ID, now, cadence.State{})
	if !ok {
		return time.Time{}, Faults{{Field: "cadence", Reason: fmt.Sprintf("%q is past: it is now %s", c, now.UTC().Format(time.RFC3339))}}
	}
	return due, nil
}

// withPast adds the fault that the account's time is past, so that a caller sees it
// together with the others. If the clock cannot be asked, it returns the faults unchanged.
func (a Account) withPast(faults error, clock func() (time.Time, error)) error {
	var known, past Faults
	if !errors.As(faults, &known) || slices.ContainsFunc(known, func(f Fault) bool { return f.Field == "cadence" || f.Field == RecordField }) {
		return faults
	}
	if _, err := a.firstDue(clock); errors.As(err, &past) {
		return append(slices.Clip(known), past...)
	}
	return faults
}

// SendFaults returns what a kind finds wrong with a send as Faults: errors that errors.Join put
// together, each with the text "field: reason".
func SendFaults(err error) Faults { return flatten(err, "data") }

// flatten turns a checker's error into faults: errors that errors.Join put together, each
// with the text "field: reason". An error that names no field is about the whole.
func flatten(err error, whole string) []Fault {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var faults []Fault
		for _, e := range joined.Unwrap() {
			faults = append(faults, flatten(e, whole)...)
		}
		return faults
	}
	var one Fault
	if errors.As(err, &one) {
		return []Fault{one}
	}
	field, reason, ok := strings.Cut(err.Error(), ": ")
	if !ok || strings.ContainsAny(field, " \t") {
		return []Fault{{Field: whole, Reason: err.Error()}}
	}
	return []Fault{{Field: field, Reason: reason}}
}
