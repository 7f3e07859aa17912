package accounts

import (
	"errors"
	"fmt"

	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/circulate"
)

const (
	// ReviveRate is the number of revived accounts that are due in a second unless the
	// caller asks otherwise.
	ReviveRate = 10
	// MinReviveRate is the lowest rate that a caller may ask for.
	MinReviveRate = 0.001
	// MaxReviveRate is the highest rate that a caller may ask for.
	MaxReviveRate = 10_000
	// MaxReviveIDs is the most accounts that a revival may name.
	MaxReviveIDs = circulate.MaxBatch
)

// Revival selects parked accounts that are to circulate again: the accounts with the ids,
// or the accounts that match every other field. It selects paused accounts only by their
// ids, or by a reason that begins with "paused".
type Revival struct {
	IDs    []string `strict:"ids"`
	Reason string   `strict:"reason"`      // the beginning of the reason; empty: any
	Kind   string   `strict:"kind"`        // empty: any
	Cause  string   `strict:"cause"`       // the name of what went wrong, as in a Selector; empty: any
	Host   string   `strict:"host"`        // the host or corporation in the config; empty: any
	Except []string `strict:"except_host"` // hosts that WhereOf must not return
	Rate   float64  `strict:"rate,given"`  // accounts that are due in a second; 0 means ReviveRate
	DryRun bool     `strict:"dry_run"`     // only count
	Cursor string   `strict:"cursor"`      // Next of the call before; empty: begin
}

// Validate returns every fault of the revival as Faults, or nil.
func (v Revival) Validate() error {
	var faults Faults
	selects := v.Reason != "" || v.Kind != "" || v.Cause != "" || v.Host != "" || len(v.Except) > 0
	switch {
	case len(v.IDs) > 0 && selects:
		faults.Add("ids", "must not be given together with other fields that select accounts")
	case len(v.IDs) == 0 && !selects:
		faults.Add("ids", "must be given, or one of reason, kind, cause and host")
	case len(v.IDs) > MaxReviveIDs:
		faults.Add("ids", fmt.Sprintf("must be at most %d, are %d", MaxReviveIDs, len(v.IDs)))
	case len(v.IDs) > 0 && v.Cursor != "":
		faults.Add("cursor", "must not be given together with ids")
	}
	for i, id := range v.IDs {
		if err := circulate.ValidateID(id); err != nil && i < MaxReviveIDs {
			faults.Add(fmt.Sprintf("ids[%d]", i), err.Error())
		}
	}
	var chosen Faults
	errors.As(Selector{Except: v.Except}.Validate(), &chosen) // it returns only Faults
	faults = append(faults, chosen...)
	if v.Rate != 0 && !(v.Rate >= MinReviveRate && v.Rate <= MaxReviveRate) {
		faults = append(faults, rateFault)
	}
	return faults.Err()
}

var rateFault = Fault{Field: "rate", Reason: fmt.Sprintf("must be more than 0: %v to %v accounts a second", MinReviveRate, MaxReviveRate)}

// DecodeRevival reads a revival strictly:
//
//	{"ids": ["a", "b"]} or {"reason": "auth", "kind": "feed", "host": "news.example", "rate": 10}
//
// It returns every fault at once, as Faults.
func DecodeRevival(text []byte) (Revival, error) {
	v, faults := revivalDecoder.Decode(text)
	v.Host, v.Except = comparedHost(v.Host), comparedHosts(v.Except)
	return v, faults.And(v.Validate())
}

var revivalDecoder = strict.NewDecoder[Revival]("a revival", rateFault)
