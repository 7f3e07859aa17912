package strict

import (
	"errors"
	"fmt"
	"slices"
)

// Fields describe the configs of kinds, field by field, so that people can fill them in
// by a form. A kind declares its fields beside the code that judges its configs. A kind that
// declares none is filled in as JSON.

// Type is what a field holds, and so how it is filled in.
type Type string

// The types.
const (
	TextType   Type = "text"    // one line
	URL        Type = "url"     // an http or https address
	Number     Type = "number"  // a whole number
	Choice     Type = "choice"  // one of the field's Choices
	Secret     Type = "secret"  // a reference: {"secret": "NAME"}
	Login      Type = "login"   // {"user": "…", "password": {"secret": "NAME"}}
	Headers    Type = "headers" // header name → text, or {"secret": "NAME"}
	ObjectType Type = "object"  // any JSON object
)

// Types returns all types.
func Types() []Type { return []Type{TextType, URL, Number, Choice, Secret, Login, Headers, ObjectType} }

// Words is a text in the languages of the pages.
type Words struct {
	EN string `json:"en"`
	ZH string `json:"zh"`
}

// Field is one field of a kind's config.
type Field struct {
	Name     string   `json:"name" doc:"The name in the config."`
	Type     Type     `json:"type" enum:"text,url,number,choice,secret,login,headers,object" doc:"secret: {\"secret\": \"NAME\"}; login: {\"user\": \"…\", \"password\": {\"secret\": \"NAME\"}}; headers: name → text or {\"secret\": \"NAME\"}; object: any JSON object."`
	Required bool     `json:"required,omitempty"`
	Secret   bool     `json:"secret,omitempty" doc:"It refers to secrets by name, and never has their values."`
	Label    Words    `json:"label" doc:"What to call it."`
	Help     Words    `json:"help" doc:"What it is, in a sentence or two."`
	Example  any      `json:"example" doc:"A value that is accepted."`
	Default  any      `json:"default,omitempty" doc:"What applies if it is left out."`
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
		if !slices.Contains(Types(), f.Type) {
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

// Ref returns a reference to a secret, for examples.
func Ref(name string) map[string]any { return map[string]any{"secret": name} }
