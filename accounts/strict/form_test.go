package strict

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestEveryFaultOfADeclaration(t *testing.T) {
	words := Words{"a", "b"}
	good := Field{Name: "x", Type: TextType, Label: words, Help: words, Example: "y"}
	if err := (Kind{"good", []Field{good}}).Validate(); err != nil {
		t.Error(err)
	}
	for want, change := range map[string]func(*Field){
		`field "": must have a name`:        func(f *Field) { f.Name = "" },
		`must not have the type "list"`:     func(f *Field) { f.Type = "list" },
		"must have a label and a help":      func(f *Field) { f.Help.ZH = "" },
		"must have an example":              func(f *Field) { f.Example = nil },
		"must have choices":                 func(f *Field) { f.Type = Choice },
		"must say that it refers":           func(f *Field) { f.Type = Secret },
		"must say that it refers to secret": func(f *Field) { f.Secret = true },
	} {
		bad := good
		change(&bad)
		if err := (Kind{"bad", []Field{bad}}).Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	if err := (Kind{"twice", []Field{good, good}}).Validate(); err == nil || !strings.Contains(err.Error(), "comes twice") {
		t.Errorf("got %v", err)
	}
	if k := Describe("plain", struct{}{}); k.Fields != nil {
		t.Errorf("got %+v", k)
	}
}

type shop struct {
	name, currency string
	size           string
	open           bool
}

func newShop() *Form[shop] {
	return NewForm([]Entry[shop]{
		{Field{Name: "name", Type: TextType, Required: true}, func(v Value, s *shop) { s.name = v.Text() }},
		{Field{Name: "currency", Type: TextType, Default: "CNY"}, func(v Value, s *shop) { s.currency = v.Text() }},
		{Field{Name: "size", Type: Choice, Default: "small"}, func(v Value, s *shop) {
			s.size = v.Matching(func(size string) bool { return size == "small" || size == "large" }, "must be small or large")
		}},
		{Field{Name: "door", Required: true}, func(v Value, s *shop) {
			switch string(v.Raw()) {
			case "1":
				s.open = true
			case "2":
				v.Refuse(errors.New("is locked"))
				v.Reader().Fault("name", "has no door")
			}
		}},
	}).Elsewhere("ask next door")
}

func TestForm(t *testing.T) {
	form := newShop()
	for config, want := range map[string]string{
		`{"name":"a","door":1}`:                                 "",
		`{"name":"a","door":1,"currency":"EUR","size":"large"}`: "",
		`{"name":"a","door":1,"currency":null,"size":null}`:     "",
		`[]`: "config: must be a JSON object",
		``:   "config.name: missing\nconfig.door: missing",
		`{"name":"","door":null,"size":1,"currency":1,"window":1}`: "config.name: missing\nconfig.currency: must be a string\nconfig.size: must be small or large\nconfig.door: missing\nconfig.window: unknown field; the fields are name, currency, size and door; ask next door",
		`{"name":"a","door":2,"size":"huge"}`:                      "config.size: must be small or large\nconfig.door: is locked\nconfig.name: has no door",
	} {
		got, err := form.Read([]byte(config))
		if errorText(err) != want || errorText(form.Validate([]byte(config))) != want {
			t.Errorf("%s: got %v, want %s", config, err, want)
		}
		read := shop{"a", "CNY", "small", true}
		switch {
		case want != "":
			read = shop{}
		case strings.Contains(config, "EUR"):
			read.currency, read.size = "EUR", "large"
		}
		if got != read {
			t.Errorf("%s: got %+v", config, got)
		}
	}
	if kind := Describe("shop", form); len(kind.Fields) != 4 || kind.Fields[0].Name != "name" || kind.Fields[3].Name != "door" {
		t.Errorf("got %+v", kind)
	}
}

// A list of texts has from one to the most texts.
func TestTexts(t *testing.T) {
	form := NewForm([]Entry[[]string]{
		{Field{Name: "names", Type: Texts}, func(v Value, to *[]string) {
			*to = v.Texts(2)
		}},
	})
	for config, want := range map[string]string{
		`{}`: "[]", `{"names":null}`: "[]", `{"names":["a"]}`: "[a]", `{"names":["a","b"]}`: "[a b]",
		`{"names":"a"}`: "config.names: must be a list of 1 to 2 strings", `{"names":[]}`: "config.names: must be a list of 1 to 2 strings",
		`{"names":["a","b","c"]}`: "config.names: must be a list of 1 to 2 strings", `{"names":[1]}`: "config.names: must be a list of 1 to 2 strings",
		`{"names":["a",null]}`: "config.names: must be a list of 1 to 2 strings", `{"names":[""]}`: "[]",
	} {
		names, err := form.Read(json.RawMessage(config))
		got := fmt.Sprint(names)
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: got %s, want %s", config, got, want)
		}
	}
}
