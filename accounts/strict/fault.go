package strict

import (
	"errors"
	"slices"
	"strings"
)

// RecordField is the field of a Fault of the text as a whole: the text is not JSON, or
// not an object.
const RecordField = "record"

// The reasons of the faults that Check returns.
const (
	Twice     = "comes twice"
	Deep      = "must not be nested more than 64 deep"
	Surrogate = `must not have half of a surrogate pair, such as \ud800 alone`
)

// Fault is what is wrong with one field of a text.
type Fault struct {
	Field  string `json:"field"` // "cadence", "config.headers.x", "ids[3]"
	Reason string `json:"reason"`

	cause error // or nil
}

// Error returns field and reason.
func (f Fault) Error() string { return f.Field + ": " + f.Reason }

// Unwrap returns the error that the fault was made from, or nil.
func (f Fault) Unwrap() error { return f.cause }

// Faults is everything that is wrong with a text.
type Faults []Fault

// Error returns all faults, one a line.
func (f Faults) Error() string { return errors.Join(f.Unwrap()...).Error() }

// Unwrap returns each fault.
func (f Faults) Unwrap() []error {
	errs := make([]error, len(f))
	for i := range f {
		errs[i] = f[i]
	}
	return errs
}

// unknownField is the reason of a fault of a field that the reader does not know.
const unknownField = "unknown field"

// Unsupported reports whether a field is unknown. A later version may know it.
func (f Faults) Unsupported() bool {
	return slices.ContainsFunc(f, func(f Fault) bool { return strings.HasPrefix(f.Reason, unknownField) })
}

// Add adds a fault.
func (f *Faults) Add(field, reason string) { *f = append(*f, Fault{Field: field, Reason: reason}) }

// Err returns the faults as an error, which is nil if there are none.
func (f Faults) Err() error {
	if len(f) == 0 {
		return nil
	}
	return f
}

// And adds the faults of an error, which may be nil, and returns all as an error, or nil.
// A field that has a fault already gets no second one, and an unreadable text gets no
// faults of fields. And returns an error that is not Faults as it is.
func (f Faults) And(err error) error {
	var more Faults
	switch {
	case len(f) > 0 && f[0].Field == RecordField:
		return f
	case err != nil && !errors.As(err, &more):
		return err
	}
	all := slices.Clip(f)
	for _, fault := range more {
		if !slices.ContainsFunc(f, func(g Fault) bool { return g.Field == fault.Field }) {
			all = append(all, fault)
		}
	}
	return all.Err()
}
