package strict

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// A Form has the fields of a kind's config: what people see when they fill it in, and how
// each field is read. A checker that embeds its kind's form has the methods Fields and
// Validate. The config of a kind without declared fields is filled in as JSON.

// Type is the type of a field's value, and so how people fill it in.
type Type string

// The types.
const (
	TextType   Type = "text"    // one line
	Texts      Type = "texts"   // a list of texts of one line
	URL        Type = "url"     // an http or https address
	Number     Type = "number"  // a whole number
	Choice     Type = "choice"  // one of the field's Choices
	Secret     Type = "secret"  // a reference: {"secret": "NAME"}
	Login      Type = "login"   // {"user": "…", "password": {"secret": "NAME"}}
	Headers    Type = "headers" // header name → text, or {"secret": "NAME"}
	ObjectType Type = "object"  // any JSON object
)

// types returns all types.
func types() []Type {
	return []Type{TextType, Texts, URL, Number, Choice, Secret, Login, Headers, ObjectType}
}

// Words is a text in the languages of the pages.
type Words struct {
	EN string `json:"en"`
	ZH string `json:"zh"`
}

// Field is one field of a kind's config.
type Field struct {
	Name     string   `json:"name" doc:"The name in the config."`
	Type     Type     `json:"type" enum:"text,texts,url,number,choice,secret,login,headers,object" doc:"texts: a list of texts; secret: {\"secret\": \"NAME\"}; login: {\"user\": \"…\", \"password\": {\"secret\": \"NAME\"}}; headers: name → text or {\"secret\": \"NAME\"}; object: any JSON object."`
	Required bool     `json:"required,omitempty"`
	Or       string   `json:"or,omitempty" doc:"With required: the field that may be there in its place."`
	Secret   bool     `json:"secret,omitempty" doc:"The field refers to secrets by name, and never has their values."`
	Label    Words    `json:"label" doc:"What to call it."`
	Help     Words    `json:"help" doc:"What it is, in a sentence or two."`
	Example  any      `json:"example" doc:"A value that is accepted."`
	Default  any      `json:"default,omitempty" doc:"The value if the field is left out."`
	Choices  []Option `json:"choices,omitempty" doc:"The values of a choice."`
}

// Option is one value of a choice.
type Option struct {
	Value any   `json:"value" doc:"The value in the config."`
	Label Words `json:"label"`
}

// Described is implemented by checkers whose kind has a form. The fields come in the order in
// which people fill them in.
type Described interface{ Fields() []Field }

// Kind is a kind that accounts can have.
type Kind struct {
	Name   string
	Fields []Field // nil: the kind declares none
}

// Describe returns the kind of a checker, with the fields that it declares.
func Describe(name string, checker any) Kind {
	k := Kind{Name: name}
	if d, ok := checker.(Described); ok {
		k.Fields = d.Fields()
	}
	return k
}

// Validate returns everything that is wrong with a kind's declaration, or nil.
func (k Kind) Validate() error {
	var errs []error
	fault := func(f *Field, format string, args ...any) {
		errs = append(errs, fmt.Errorf("kind %s: field %q: %s", k.Name, f.Name, fmt.Sprintf(format, args...)))
	}
	seen := make(map[string]bool)
	for i := range k.Fields {
		f := &k.Fields[i]
		switch {
		case f.Name == "":
			fault(f, "must have a name")
		case seen[f.Name]:
			fault(f, "comes twice")
		}
		seen[f.Name] = true
		if !slices.Contains(types(), f.Type) {
			fault(f, "must not have the type %q", f.Type)
		}
		for _, w := range []Words{f.Label, f.Help} {
			if w.EN == "" || w.ZH == "" {
				fault(f, "must have a label and a help in both languages")
				break
			}
		}
		if f.Example == nil {
			fault(f, "must have an example")
		}
		if (f.Type == Choice) != (len(f.Choices) > 0) {
			fault(f, "must have choices if it is a choice, and only then")
		}
		if refers := f.Type == Secret || f.Type == Login || f.Type == Headers; refers != f.Secret {
			fault(f, "must say that it refers to secrets if it does, and only then")
		}
	}
	return errors.Join(errs...)
}

// Form reads the configs of a kind into structs of type C. No config may have a field that its
// form does not have. It is safe for concurrent use.
type Form[C any] struct {
	entries   []Entry[C]
	elsewhere string
}

// Entry is a field of a form. Read reads it into a config, and adds faults to the value.
type Entry[C any] struct {
	Field
	Read func(v Value, to *C)
}

// NewForm returns a form. Its fields are shown and read in the order of the entries.
func NewForm[C any](entries []Entry[C]) *Form[C] { return &Form[C]{entries: entries} }

// Elsewhere makes the form say where an unknown field may belong. It returns the form.
func (f *Form[C]) Elsewhere(hint string) *Form[C] {
	f.elsewhere = "; " + hint
	return f
}

// Fields returns the fields, for Described.
func (f *Form[C]) Fields() []Field {
	fields := make([]Field, len(f.entries))
	for i := range f.entries {
		fields[i] = f.entries[i].Field
	}
	return fields
}

// Validate judges a config. Its error is Faults, which name each wrong field. It does not check
// that secrets exist: pollers have them, and they may come later.
func (f *Form[C]) Validate(config json.RawMessage) error {
	_, err := f.Read(config)
	return err
}

// Read reads a config, or returns the zero C and what Validate returns.
func (f *Form[C]) Read(config json.RawMessage) (to C, err error) {
	r := ReadConfig(config)
	for i := range f.entries {
		f.entries[i].Read(Value{r, &f.entries[i].Field}, &to)
	}
	r.elsewhere = f.known() + f.elsewhere
	if err := r.Err(); err != nil {
		var none C
		return none, err
	}
	return to, nil
}

// known names the fields of the form, for the fault of an unknown field.
func (f *Form[C]) known() string {
	names := make([]string, len(f.entries))
	for i := range f.entries {
		names[i] = f.entries[i].Name
	}
	return knownFields(names)
}

// knownFields names fields, behind the fault of another.
func knownFields(names []string) string {
	switch n := len(names); n {
	case 0:
		return ""
	case 1:
		return "; the only field is " + names[0]
	default:
		return "; the fields are " + strings.Join(names[:n-1], ", ") + " and " + names[n-1]
	}
}

// Value is the value of one field of a config.
type Value struct {
	reader *Reader
	field  *Field
}

// Raw returns the value as it is, or nil if it is missing or null, which is a fault if the field
// is required and the one in its place, which is read later, is not there.
func (v Value) Raw() json.RawMessage {
	raw := v.reader.Take(v.field.Name)
	switch or := v.field.Or; {
	case raw != nil || !v.field.Required:
	case or == "":
		v.Fault("missing")
	case !v.reader.Has(or):
		v.Fault("missing: it or " + or + " must be there")
	}
	return raw
}

// Text returns a string. If it is missing, Text returns the field's default, or an empty text. A
// required field must have a text that is not empty.
func (v Value) Text() string {
	if v.field.Required {
		return v.reader.Text(v.field.Name)
	}
	text, _ := v.field.Default.(string)
	v.reader.Optional(v.field.Name, "a string", &text)
	return text
}

// Fault adds a fault of the field.
func (v Value) Fault(reason string) { v.reader.Fault(v.field.Name, reason) }

// Refuse adds a fault of the field, which wraps the error.
func (v Value) Refuse(err error) { v.reader.Refuse(v.field.Name, err) }

// Matching returns a string that good accepts. If it is missing, Matching returns the field's
// default. Any other value is refused with the reason.
func (v Value) Matching(good func(string) bool, reason string) string {
	raw := v.Raw()
	if raw == nil {
		text, _ := v.field.Default.(string)
		return text
	}
	text, ok := Text(raw)
	if !ok || !good(text) {
		v.Fault(reason)
	}
	return text
}

// Texts returns a list of strings, from one to most. If it is missing, Texts returns nil. Any other
// value is refused.
func (v Value) Texts(most int) []string {
	raw := v.Raw()
	if raw == nil {
		return nil
	}
	var texts []*string // finds null, which is not a string
	if json.Unmarshal(raw, &texts) != nil || len(texts) == 0 || len(texts) > most || slices.Contains(texts, nil) {
		v.Fault(fmt.Sprintf("must be a list of 1 to %d strings", most))
		return nil
	}
	list := make([]string, len(texts))
	for i, text := range texts {
		list[i] = *text
	}
	return list
}

// Reader returns the reader of the whole config, for values that have fields themselves and for
// faults of two fields.
func (v Value) Reader() *Reader { return v.reader }

// Ref returns a reference to a secret, for examples.
func Ref(name string) map[string]any { return map[string]any{"secret": name} }
