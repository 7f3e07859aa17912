package strict

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
)

// RecordField is the field of a Fault of the text as a whole: it is not JSON, or not an
// object.
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

// Unwrap returns the error that the fault was made of, or nil.
func (f Fault) Unwrap() error { return f.cause }

// Faults is everything that is wrong with a text.
type Faults []Fault

// Error returns them all, one a line.
func (f Faults) Error() string { return errors.Join(f.Unwrap()...).Error() }

// Unwrap returns each of them.
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

// Texts reads a field that must be an array of strings or null into texts, or adds a fault.
func (f *Faults) Texts(name string, value json.RawMessage, texts *[]string) {
	var read []*string // finds null, which is not a string
	if json.Unmarshal(value, &read) != nil || slices.Contains(read, nil) {
		f.Add(name, "must be an array of strings")
		return
	}
	for _, text := range read {
		*texts = append(*texts, *text)
	}
}

// Text reads a field that must be a string or null into text, or adds a fault. Null is "".
func (f *Faults) Text(name string, value json.RawMessage, text *string) {
	read, ok := Text(value)
	if !ok && !IsNull(value) {
		f.Add(name, "must be a string")
		return
	}
	*text = read
}
