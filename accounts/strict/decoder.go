package strict

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Decoder reads the objects that people and programs send into structs of type T. A field of T
// with the tag strict is a field of the object:
//
//	Limit int `strict:"limit,given"`
//
// It is a string, a bool, a number, a time.Duration, a []string, a map[string]string, or
// a json.RawMessage for any value. Null means the same as leaving the field out. With
// given, 0 and an empty string are faults.
type Decoder[T any] struct {
	fields  map[string]member
	unknown string // the reason of the fault of an unknown field
}

// member is a field of an object, and of the struct that it is read into.
type member struct {
	index  int
	given  bool
	reason string // the reason for refusing a value; empty: by its type
}

// NewDecoder returns the decoder for T. What names the object in faults of unknown
// fields: "a nudge". Reasons replace, for their fields, the reason by type for a value
// that cannot be read. NewDecoder panics if T has a tagged field of another type.
func NewDecoder[T any](what string, reasons ...Fault) *Decoder[T] {
	d := &Decoder[T]{fields: make(map[string]member)}
	var names []string
	for i, field := range reflect.VisibleFields(reflect.TypeFor[T]()) {
		tag, ok := field.Tag.Lookup("strict")
		if !ok {
			continue
		}
		name, option, _ := strings.Cut(tag, ",")
		if _, ok := reasonOf(field.Type); !ok || len(field.Index) > 1 || option != "" && option != "given" {
			panic(fmt.Sprintf("strict: field %s cannot be read", field.Name))
		}
		m := member{index: i, given: option == "given"}
		for _, fault := range reasons {
			if fault.Field == name {
				m.reason = fault.Reason
			}
		}
		d.fields[name] = m
		names = append(names, name)
	}
	if last := len(names) - 1; last == 0 {
		d.unknown = fmt.Sprintf("is not a field of %s; its field is %s", what, names[0])
	} else {
		d.unknown = fmt.Sprintf("is not a field of %s; its fields are %s and %s", what, strings.Join(names[:last], ", "), names[last])
	}
	return d
}

// Decode reads an object. It returns what it could read, and every fault, including the
// faults of Object.
func (d *Decoder[T]) Decode(text []byte) (T, Faults) {
	var to T
	fields, faults := object(text)
	if fields == nil {
		return to, faults
	}
	return to, append(faults, d.Read(fields, &to)...)
}

// Read reads an object's fields into to, and returns their faults, sorted by field.
func (d *Decoder[T]) Read(fields map[string]json.RawMessage, to *T) (faults Faults) {
	into := reflect.ValueOf(to).Elem()
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		m, ok := d.fields[name]
		switch {
		case !ok:
			faults.Add(Printable(name), d.unknown)
		case !IsNull(fields[name]):
			m.read(&faults, name, fields[name], into.Field(m.index))
		}
	}
	return faults
}

// Unknown returns a fault for each field that T does not have, sorted by name.
func (d *Decoder[T]) Unknown(fields map[string]json.RawMessage) (faults Faults) {
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if _, ok := d.fields[name]; !ok {
			faults.Add(Printable(name), d.unknown)
		}
	}
	return faults
}

// OrEmpty returns the text, or an empty object if the text is only white space. It is for
// the body of a request whose fields may all be left out.
func OrEmpty(text []byte) []byte {
	if len(bytes.TrimSpace(text)) == 0 {
		return []byte("{}")
	}
	return text
}

var (
	anyType      = reflect.TypeFor[json.RawMessage]()
	durationType = reflect.TypeFor[time.Duration]()
)

// reasonOf returns the reason for refusing a value that is not of the type, or false for
// a type that the decoder does not read.
func reasonOf(t reflect.Type) (string, bool) {
	switch {
	case t == anyType:
		return "", true
	case t == durationType:
		return `must be a duration, such as "10s" or "5m"`, true
	case t.Kind() == reflect.String:
		return "must be a string", true
	case t.Kind() == reflect.Bool:
		return "must be true or false", true
	case t.Kind() == reflect.Int:
		return "must be a whole number", true
	case t.Kind() == reflect.Float64:
		return "must be a number", true
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.String:
		return "must be an array of strings", true
	case t.Kind() == reflect.Map && t.Key().Kind() == reflect.String && t.Elem().Kind() == reflect.String:
		return "must be an object of strings", true
	}
	return "", false
}

// read reads a value that is not null.
func (m member) read(faults *Faults, name string, value json.RawMessage, into reflect.Value) {
	var ok bool
	switch {
	case into.Type() == anyType:
		into.SetBytes(bytes.Clone(value)) // the text may be the caller's
		return
	case into.Type() == durationType:
		var text string
		text, ok = Text(value)
		d, err := time.ParseDuration(text)
		if ok = ok && err == nil; ok {
			into.SetInt(int64(d))
		}
	case into.Kind() == reflect.String:
		var text string
		text, ok = Text(value)
		into.SetString(text)
	case into.Kind() == reflect.Slice:
		ok = setTexts(value, into)
	case into.Kind() == reflect.Map:
		ok = setMap(faults, name, value, into)
	default:
		ok = json.Unmarshal(value, into.Addr().Interface()) == nil
	}
	switch reason, _ := reasonOf(into.Type()); {
	case ok && !(m.given && into.IsZero()):
		return
	case m.reason != "":
		faults.Add(name, m.reason)
	case ok:
		faults.Add(name, "must not be empty")
	default:
		faults.Add(name, reason)
	}
	into.SetZero()
}

func setTexts(value json.RawMessage, into reflect.Value) bool {
	var texts []*string // finds null, which is not a string
	if json.Unmarshal(value, &texts) != nil || slices.Contains(texts, nil) {
		return false
	}
	for _, text := range texts {
		into.Set(reflect.Append(into, reflect.ValueOf(*text).Convert(into.Type().Elem())))
	}
	return true
}

// setMap reads an object of strings. An empty one is nil. It adds a fault for each member that
// is not a string, and reports whether the value is an object.
func setMap(faults *Faults, name string, value json.RawMessage, into reflect.Value) bool {
	members, ok := Members(value)
	if !ok || len(members) == 0 {
		return ok
	}
	texts := make(map[string]string, len(members))
	for _, key := range slices.Sorted(maps.Keys(members)) {
		text, ok := Text(members[key])
		if !ok {
			faults.Add(name+"."+key, "must be a string")
			continue
		}
		texts[key] = text
	}
	into.Set(reflect.ValueOf(texts).Convert(into.Type()))
	return true
}
