package strict

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
)

// Reader takes the fields of an object one by one, and collects every fault instead of
// stopping at the first. It collects only the first fault of a field: others follow from it. A
// field that was never taken is a fault: a misspelt name must not silently mean a default.
//
// No fault quotes a value: a configuration may contain a secret by mistake.
type Reader struct {
	within string                     // the prefix of each field: "config."
	fields map[string]json.RawMessage // the fields that have not been taken yet
	broken bool                       // the text is not an object: single fields have no faults
	found  *findings                  // shared with the readers of objects within

	elsewhere string // see Form: follows the reason of an unknown field
}

type findings struct {
	faults Faults
	fields map[string]bool // the fields that have a fault
}

// NewReader returns a reader of an object's fields. The reader owns the map and removes the
// fields from it.
func NewReader(fields map[string]json.RawMessage) *Reader {
	return &Reader{fields: fields, found: &findings{}}
}

// ReadConfig returns a reader of the config of an account's record, which must be an object.
// An empty config and null count as {}. Faults name fields such as config.url.
func ReadConfig(config json.RawMessage) *Reader {
	r := NewReader(nil)
	if fields, err := Stored(config); err == nil {
		r.fields = fields // takes a third of the time, and each check reads its config
	} else if len(config) > 0 && json.Unmarshal(config, &r.fields) != nil {
		r.Fault("config", "must be a JSON object")
		r.broken = true
	}
	r.within = "config."
	return r
}

// In returns a reader of an object that is, or is within, a field of this one. Its faults
// are collected here, and name fields such as endpoints[0].url.
func (r *Reader) In(field string, fields map[string]json.RawMessage) *Reader {
	return &Reader{within: r.within + field + ".", fields: fields, found: r.found}
}

// Has reports whether the object has a field that was not taken yet.
func (r *Reader) Has(name string) bool {
	_, ok := r.fields[name]
	return ok
}

// Given takes a field and returns it as it is. It returns false if the field is missing.
func (r *Reader) Given(name string) (json.RawMessage, bool) {
	raw, ok := r.fields[name]
	delete(r.fields, name)
	return raw, ok
}

// Take takes a field and returns it, or nil if the field is missing or null.
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
	if len(raw) == 0 {
		r.Fault(name, "missing")
		return ""
	}
	text, ok := Text(raw)
	switch {
	case !ok:
		r.Fault(name, "must be a string")
	case text == "":
		r.Fault(name, "missing")
	}
	return text
}

// Optional takes a field and decodes it into to, unless it is missing or null. What names
// the type for the fault, for example "a list of strings".
func (r *Reader) Optional(name, what string, to any) {
	if raw := r.Take(name); raw != nil && json.Unmarshal(raw, to) != nil {
		r.Fault(name, "must be "+what)
	}
}

// List takes a field that must be a list of at most most objects and must not be missing. It
// returns a reader for each object; their faults name fields such as endpoints[0].url.
func (r *Reader) List(name string, most int) []*Reader {
	var list []json.RawMessage
	switch raw := r.Take(name); {
	case raw == nil:
		r.Fault(name, "missing")
	case json.Unmarshal(raw, &list) != nil:
		r.Fault(name, "must be a list")
	case len(list) > most:
		r.Fault(name, "must be at most "+strconv.Itoa(most))
	}
	readers := make([]*Reader, 0, len(list))
	for i, raw := range list {
		at := name + "[" + strconv.Itoa(i) + "]"
		fields, ok := Members(raw)
		if !ok {
			r.Fault(at, "must be an object")
			continue
		}
		readers = append(readers, r.In(at, fields))
	}
	return readers
}

// Fault adds a fault of the named field.
func (r *Reader) Fault(name, reason string) { r.add(name, reason, nil) }

// Refuse adds a fault of the named field, which wraps the error.
func (r *Reader) Refuse(name string, err error) { r.add(name, err.Error(), err) }

func (r *Reader) add(name, reason string, cause error) {
	field := r.within + name
	if r.broken || r.found.fields[field] {
		return
	}
	if r.found.fields == nil {
		r.found.fields = make(map[string]bool)
	}
	r.found.fields[field] = true
	r.found.faults = append(r.found.faults, Fault{field, reason, cause})
}

// Unknown adds a fault for each field that was never taken, sorted by name.
func (r *Reader) Unknown() {
	for _, name := range slices.Sorted(maps.Keys(r.fields)) {
		r.Fault(Printable(name), unknownField+r.elsewhere)
	}
	r.fields = nil
}

// Known sets the names that the faults of unknown fields offer instead.
func (r *Reader) Known(names ...string) { r.elsewhere = knownFields(names) }

// Err calls Unknown and returns everything that was found as Faults, or nil.
func (r *Reader) Err() error {
	r.Unknown()
	return r.found.faults.Err()
}
