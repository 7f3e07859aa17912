package command

import (
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"strings"
	"testing"
)

// For the aliases Tools and Kind go doc shows the comment alone, so it must say what they have.
func TestTheCommentsOfAliasesSayWhatTheyAre(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "main.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	comments := make(map[string]string)
	for _, d := range file.Decls {
		if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.TYPE {
			comments[g.Specs[0].(*ast.TypeSpec).Name.Name] = strings.Join(strings.Fields(g.Doc.Text()), " ")
		}
	}
	for field := range reflect.TypeFor[Tools]().Fields() {
		if want := field.Name + " " + field.Type.String() + " //"; !strings.Contains(comments["Tools"], want) {
			t.Errorf("the comment of Tools does not say %q", want)
		}
	}
	if want := "func(Tools) (poller.Checker, error)"; !strings.Contains(comments["Kind"], want) {
		t.Errorf("the comment of Kind does not say %q", want)
	}
}
