package accounts

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/rounds-dev/rounds/accounts/cadence"
	"github.com/rounds-dev/rounds/accounts/strict"
)

const (
	// MaxHint is the most bytes that the hint of a nudge may have.
	MaxHint = 16 << 10
	// HintLife is how long a hint may be used unless the nudge says otherwise.
	HintLife = 10 * time.Minute
	// MaxHintLife is the longest life that a nudge may set.
	MaxHintLife = 24 * time.Hour
)

// Nudge asks for a check before an account is due.
type Nudge struct {
	Within time.Duration   // how soon, at the latest; 0 means now. It never delays a check
	Hint   json.RawMessage // any JSON value for the checker, for one check; nil: none
	Lives  time.Duration   // how long the hint may be used; 0 means HintLife
}

// DecodeNudge reads a nudge strictly:
//
//	{"within": "10s", "hint": {"token": "…"}, "lives": "10m"}
//
// Each field may be left out, and so may the whole text. It returns every fault at
// once, as Faults.
func DecodeNudge(text []byte) (Nudge, error) {
	var n Nudge
	if len(bytes.TrimSpace(text)) == 0 {
		return n, nil
	}
	fields, err := strict.Object(text)
	if err != nil {
		return n, err
	}
	var faults Faults
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		value := fields[name]
		switch name {
		case "within":
			faults = readDuration(faults, name, value, &n.Within)
		case "lives":
			faults = readDuration(faults, name, value, &n.Lives)
		case "hint":
			if !strict.IsNull(value) {
				n.Hint = value
			}
		default:
			faults.Add(name, "is not a field of a nudge; its fields are within, hint and lives")
		}
	}
	var more Faults
	if err := n.Validate(); errors.As(err, &more) {
		faults = append(faults, more...)
	}
	if len(faults) > 0 {
		return n, faults
	}
	return n, nil
}

func readDuration(faults Faults, name string, value json.RawMessage, d *time.Duration) Faults {
	var text string
	err := json.Unmarshal(value, &text)
	if err == nil && !strict.IsNull(value) {
		*d, err = time.ParseDuration(text)
	}
	if err != nil {
		return append(faults, Fault{Field: name, Reason: `must be a duration, such as "10s" or "5m"`})
	}
	return faults
}

// Validate returns every fault of the nudge as Faults, or nil.
func (n Nudge) Validate() error {
	var faults Faults
	if n.Within < 0 || n.Within > cadence.MaxInterval {
		faults.Add("within", fmt.Sprintf("must be 0 to %v, is %v", cadence.MaxInterval, n.Within))
	}
	if n.Lives < 0 || n.Lives > MaxHintLife {
		faults.Add("lives", fmt.Sprintf("must be 0 to %v, is %v", MaxHintLife, n.Lives))
	}
	if len(n.Hint) > MaxHint {
		faults.Add("hint", fmt.Sprintf("must be at most %d bytes, has %d", MaxHint, len(n.Hint)))
	}
	if len(faults) == 0 {
		return nil
	}
	return faults
}
