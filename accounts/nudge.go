package accounts

import (
	"encoding/json"
	"fmt"
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
	Within time.Duration   `strict:"within"` // how soon, at the latest; 0 means now. It never delays a check
	Hint   json.RawMessage `strict:"hint"`   // any JSON value for the checker, for one check; nil: none
	Lives  time.Duration   `strict:"lives"`  // how long the hint may be used; 0 means HintLife
}

// DecodeNudge reads a nudge strictly:
//
//	{"within": "10s", "hint": {"token": "…"}, "lives": "10m"}
//
// Each field may be left out, and so may the whole text. It returns every fault at
// once, as Faults.
func DecodeNudge(text []byte) (Nudge, error) {
	n, faults := nudgeDecoder.Decode(strict.OrEmpty(text))
	return n, faults.And(n.Validate())
}

var nudgeDecoder = strict.NewDecoder[Nudge]("a nudge")

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
	return faults.Err()
}
