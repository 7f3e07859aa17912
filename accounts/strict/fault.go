package strict

import (
	"encoding/json"
	"errors"
	"slices"
)

// RecordField is the field of a Fault that is about a text as a whole: it is no
// JSON, or no object.
const RecordField = "record"

// The reasons that Check has.
const (
	Twice     = "comes twice"
	Deep      = "must not be nested more than 64 deep"
	Surrogate = `must not have half of a surrogate pair, such as \ud800 alone`
)

// Fault is what is wrong with one field of a text.
type Fault struct {
	Field  string `json:"field"` // "cadence", "config.headers.x", "ids[3]"
	Reason string `json:"reason"`
}

// Error returns field and reason.
func (f Fault) Error() string { return f.Field + ": " + f.Reason }

// Faults is all that is wrong with a text.
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

// Add adds a fault.
func (f *Faults) Add(field, reason string) { *f = append(*f, Fault{field, reason}) }

// Texts reads a field that must be an array of strings or null, or adds a fault.
func (f *Faults) Texts(name string, value json.RawMessage, texts *[]string) {
	var read []*string // null is no string
	if json.Unmarshal(value, &read) != nil || slices.Contains(read, nil) {
		f.Add(name, "must be an array of strings")
		return
	}
	for _, text := range read {
		*texts = append(*texts, *text)
	}
}

// Text reads a field that must be a string or null, or adds a fault. What is read goes to
// text; null is "".
func (f *Faults) Text(name string, value json.RawMessage, text *string) {
	read, ok := Text(value)
	if !ok && !IsNull(value) {
		f.Add(name, "must be a string")
		return
	}
	*text = read
}
