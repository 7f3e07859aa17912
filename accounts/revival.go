package accounts

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

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

// Revival selects parked accounts that are to circulate again: those with the ids, or those
// that match every other field. It selects paused accounts only by their
// ids, or by a reason that begins with "paused".
type Revival struct {
	IDs    []string
	Reason string   // the beginning of the reason; empty: any
	Kind   string   // empty: any
	Cause  string   // the name of what went wrong, as in a Selector; empty: any
	Host   string   // the host or corporation in the config; empty: any
	Except []string // those that WhereOf must not return
	Rate   float64  // accounts that are due in a second; 0 means ReviveRate
	DryRun bool     // only count
	Cursor string   // Next of the call before; empty: begin
}

// Validate returns every fault of the revival as Faults, or nil.
func (v Revival) Validate() error {
	var faults Faults
	selects := v.Reason != "" || v.Kind != "" || v.Cause != "" || v.Host != "" || len(v.Except) > 0
	switch {
	case len(v.IDs) > 0 && selects:
		faults.Add("ids", "must not be given together with what else selects accounts")
	case len(v.IDs) == 0 && !selects:
		faults.Add("ids", "must be given, or else reason, kind, cause or host")
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
	errors.As(Selector{Except: v.Except}.Validate(), &chosen) // it returns nothing else
	faults = append(faults, chosen...)
	if v.Rate != 0 && !(v.Rate >= MinReviveRate && v.Rate <= MaxReviveRate) {
		faults = append(faults, rateFault)
	}
	if len(faults) == 0 {
		return nil
	}
	return faults
}

var rateFault = Fault{Field: "rate", Reason: fmt.Sprintf("must be more than 0: %v to %v accounts a second", MinReviveRate, MaxReviveRate)}

// DecodeRevival reads a revival strictly:
//
//	{"ids": ["a", "b"]} or {"reason": "auth", "kind": "feed", "host": "news.example", "rate": 10}
//
// It returns every fault at once, as Faults.
func DecodeRevival(text []byte) (Revival, error) {
	var v Revival
	fields, err := strict.Object(text)
	if err != nil {
		return v, err
	}
	var faults Faults
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		value := fields[name]
		switch name {
		case "ids":
			faults.Texts(name, value, &v.IDs)
		case "reason":
			faults.Text(name, value, &v.Reason)
		case "kind":
			faults.Text(name, value, &v.Kind)
		case "cause":
			faults.Text(name, value, &v.Cause)
		case "host":
			faults.Text(name, value, &v.Host)
			v.Host = comparedHost(v.Host)
		case "except_host":
			faults.Texts(name, value, &v.Except)
			v.Except = comparedHosts(v.Except)
		case "cursor":
			faults.Text(name, value, &v.Cursor)
		case "rate":
			// Once read, 0 and a missing field would be the same.
			if !strict.IsNull(value) && (json.Unmarshal(value, &v.Rate) != nil || v.Rate == 0) {
				v.Rate = 0
				faults = append(faults, rateFault)
			}
		case "dry_run":
			if json.Unmarshal(value, &v.DryRun) != nil {
				faults.Add(name, "must be true or false")
			}
		default:
			faults.Add(name, "is not a field of a revival; its fields are ids, reason, kind, cause, host, except_host, rate, dry_run and cursor")
		}
	}
	var more Faults
	if err := v.Validate(); errors.As(err, &more) {
		for _, f := range more {
			if !slices.ContainsFunc(faults, func(g Fault) bool { return g.Field == f.Field }) {
				faults = append(faults, f)
			}
		}
	}
	if len(faults) > 0 {
		return v, faults
	}
	return v, nil
}
