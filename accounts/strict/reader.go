package strict

import (
	"encoding/json"
	"maps"
	"slices"
)

// Reader takes the fields of an object one by one, and collects every fault instead of
// stopping at the first. Of one field only the first fault is kept: others follow from it. A
// field that nobody took is a fault, for a misspelt name must not pass for a default.
//
// No fault quotes a value: a configuration may hold what should have been a secret.
type Reader struct {
	within string                     // stands before each field: "config."
	fields map[string]json.RawMessage // that nobody took yet
	broken bool                       // not an object: nothing can be said about single fields
	found  *findings                  // shared with the readers of objects within
}

type findings struct {
	faults Faults
	fields map[string]bool // that have a fault
}

// NewReader reads an object that was taken apart. The reader keeps the fields and takes them
// out.
func NewReader(fields map[string]json.RawMessage) *Reader {
	return &Reader{fields: fields, found: &findings{fields: make(map[string]bool)}}
}

// ReadConfig reads the config of an account's record, which must be an object; an empty one
// and null count as {}. Faults name fields as in config.url.
func ReadConfig(config json.RawMessage) *Reader {
	r := NewReader(nil)
	if len(config) > 0 && json.Unmarshal(config, &r.fields) != nil {
		r.Fault("config", "must be a JSON object")
		r.broken = true
	}
	r.within = "config."
	return r
}

// In returns a reader of an object that is, or is within, a field of this one. Its faults
// are found here, and name fields as in endpoints[0].url.
func (r *Reader) In(field string, fields map[string]json.RawMessage) *Reader {
	return &Reader{within: r.within + field + ".", fields: fields, found: r.found}
}

// Has reports whether a field is there that nobody took yet.
func (r *Reader) Has(name string) bool {
	_, ok := r.fields[name]
	return ok
}

// Given returns a field as it is, and marks it as known. It is false where the field is
// missing.
func (r *Reader) Given(name string) (json.RawMessage, bool) {
	raw, ok := r.fields[name]
	delete(r.fields, name)
	return raw, ok
}

// Take returns a field and marks it as known. It is nil where the field is missing or null.
func (r *Reader) Take(name string) json.RawMessage {
	raw, ok := r.Given(name)
	if !ok || IsNull(raw) {
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

// Optional takes a field and decodes it, unless it is missing or null. What says what it
// must be: "a list of strings".
func (r *Reader) Optional(name, what string, to any) {
	if raw := r.Take(name); raw != nil && json.Unmarshal(raw, to) != nil {
		r.Fault(name, "must be "+what)
	}
}

// Fault adds a fault of the named field.
func (r *Reader) Fault(name, reason string) {
	field := r.within + name
	if r.broken || r.found.fields[field] {
		return
	}
	r.found.fields[field] = true
	r.found.faults = append(r.found.faults, Fault{field, reason})
}

// Unknown adds the fields that nobody took, in their order.
func (r *Reader) Unknown() {
	for _, name := range slices.Sorted(maps.Keys(r.fields)) {
		r.Fault(Printable(name), "unknown field")
	}
	r.fields = nil
}

// Err returns all that was found as Faults, and with it the fields that nobody took; nil if
// there is nothing.
func (r *Reader) Err() error {
	r.Unknown()
	if len(r.found.faults) == 0 {
		return nil
	}
	return r.found.faults
}
