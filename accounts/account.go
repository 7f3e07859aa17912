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
	ID      string            `json:"id"`
	Kind    string            `json:"kind"`
	Config  json.RawMessage   `json:"config,omitempty"`
	Cadence string            `json:"cadence,omitempty"` // as cadence.Parse reads it; empty: cadence.Default
	Labels  map[string]string `json:"labels,omitempty"`

	// Priority is one of the Priority words; empty means PriorityNormal.
	Priority string `json:"priority,omitempty"`

	// RetryBudget is how many failures in a row park the account; 0 means
	// cadence.RetryBudget.
	RetryBudget int `json:"retry_budget,omitempty"`
}

// Kinds judges configs: it is what the checkers of this process know.
type Kinds interface {
	// Validate reports every fault of a config at once, each naming its field,
	// or that the kind is not known.
	Validate(kind string, config json.RawMessage) error
}

type (
	// Fault is what is wrong with one field of a record or a request.
	Fault = strict.Fault
	// Faults is all that is wrong with it.
	Faults = strict.Faults
)

// Encode writes a record as it is kept: the same account always returns the same
// bytes, and they are one line.
func (a Account) Encode() ([]byte, error) {
	if len(a.Config) > 0 {
		var compact bytes.Buffer
		if err := json.Compact(&compact, a.Config); err != nil {
			return nil, Faults{{Field: "config", Reason: err.Error()}}
		}
		a.Config = compact.Bytes()
	}
	if a.Priority == PriorityNormal {
		a.Priority = "" // one way to write it: to say what goes without saying is no change
	}
	var record bytes.Buffer
	e := json.NewEncoder(&record)
	e.SetEscapeHTML(false) // an address keeps its & and stays readable
	if err := e.Encode(a); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(record.Bytes(), []byte("\n")), nil
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
		faults = append(faults, flatten(err)...)
	}
	if len(faults) == 0 {
		return nil
	}
	return faults
}

var retryBudgetFault = Fault{Field: retryBudgetField, Reason: fmt.Sprintf("must be a whole number from 1 to %d", cadence.MaxRetryBudget)}

// Policy is what the account sets of how its failures are dealt with.
func (a Account) Policy() cadence.Policy { return cadence.Policy{RetryBudget: a.RetryBudget} }

// firstDue is when a valid account is first due once it is registered; the zero
// time is at once. It returns Faults if that would be never. The clock is asked
// only where the cadence names times by it.
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
		return time.Time{}, Faults{{Field: "cadence", Reason: fmt.Sprintf("%q is past: it is %s", c, now.UTC().Format(time.RFC3339))}}
	}
	return due, nil
}

// withPast adds to the faults of an account that its time is past, if it is: who
// mends them should not learn of it only then. A clock that cannot be asked
// leaves them as they are, for they are true without it.
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

// flatten makes faults of what a checker reports: errors that errors.Join put
// together, each "field: reason".
func flatten(err error) []Fault {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var faults []Fault
		for _, e := range joined.Unwrap() {
			faults = append(faults, flatten(e)...)
		}
		return faults
	}
	var one Fault
	if errors.As(err, &one) {
		return []Fault{one}
	}
	field, reason, ok := strings.Cut(err.Error(), ": ")
	if !ok || strings.ContainsAny(field, " \t") {
		return []Fault{{Field: "config", Reason: err.Error()}}
	}
	return []Fault{{Field: field, Reason: reason}}
}
