package strict

import (
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
