// Package fields reads the config of an account record field by field and
// collects every fault, each naming its field, instead of stopping at the first.
//
// Faults never quote what they found: a config may hold what should have been a
// secret.
package fields

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// A Reader takes fields out of one config. A field that nobody took is a fault:
// a misspelt name must not pass for a default.
type Reader struct {
	values map[string]json.RawMessage
	faults []error
	broken bool // not an object: nothing can be said about single fields
}

// New reads a config, which must be a JSON object; an empty one counts as {}.
func New(config json.RawMessage) *Reader {
	r := &Reader{}
	if len(config) == 0 {
		return r
	}
	if err := json.Unmarshal(config, &r.values); err != nil {
		r.broken = true
		r.faults = append(r.faults, errors.New("config: must be a JSON object"))
	}
	return r
}

// Take gives a field's raw value and marks it as known. It is nil if the field
// is missing or null.
func (r *Reader) Take(name string) json.RawMessage {
	raw, ok := r.values[name]
	delete(r.values, name)
	if !ok || string(raw) == "null" {
		return nil
	}
	return raw
}

// Text takes a field that must be a string and must not be missing or empty.
func (r *Reader) Text(name string) string {
	raw := r.Take(name)
	if raw == nil {
		r.Fault(name, "missing")
		return ""
	}
	var text string
	if json.Unmarshal(raw, &text) != nil {
		r.Fault(name, "must be a string")
		return ""
	}
	if text == "" {
		r.Fault(name, "missing")
	}
	return text
}

// Fault adds a fault of the named field.
func (r *Reader) Fault(name, text string) {
	if !r.broken {
		r.faults = append(r.faults, fmt.Errorf("config.%s: %s", name, text))
	}
}

// Err joins all faults, those of unknown fields last; nil if there are none.
func (r *Reader) Err() error {
	unknown := make([]string, 0, len(r.values))
	for name := range r.values {
		unknown = append(unknown, name)
	}
	slices.Sort(unknown)
	faults := slices.Clone(r.faults)
	for _, name := range unknown {
		faults = append(faults, fmt.Errorf("config.%s: unknown field", Printable(name)))
	}
	return errors.Join(faults...)
}

// Printable gives a field's name in a form that is safe in one line of text,
// cut after 64 bytes.
func Printable(name string) string {
	const most = 64
	clean := make([]rune, 0, len(name))
	for i, char := range name {
		if i >= most {
			return string(clean) + "…"
		}
		if char < ' ' || char == 0x7f {
			char = '?'
		}
		clean = append(clean, char)
	}
	return string(clean)
}
