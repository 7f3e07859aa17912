package checktest

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/poller"
)

// Declared demands that the declared fields of a kind are exactly those that its Validate
// knows. Folders hold the source that judges configs, the kind's own among them: each string
// in it that could name a field is tried.
func Declared(t *testing.T, checker poller.Checker, folders ...string) {
	t.Helper()
	defer contain(t)
	kind := strict.Describe(checker.Kind(), checker)
	if kind.Fields == nil {
		t.Fatal("declares no fields")
	}
	if err := kind.Validate(); err != nil {
		t.Error(err)
	}
	declared := make(map[string]bool)
	required := make(map[string]any)
	inPlaceOf := make(map[string]string) // a field -> the required one that it may replace
	for _, f := range kind.Fields {
		declared[f.Name] = true
		if f.Required {
			required[f.Name] = f.Example
			inPlaceOf[f.Or] = f.Name
		}
	}
	if err := checker.Validate(encode(t, required)); err != nil {
		t.Errorf("the examples of all required fields are refused: %v", err)
	}
	for _, f := range kind.Fields {
		examples := []any{f.Example}
		if f.Default != nil {
			examples = append(examples, f.Default)
		}
		for _, o := range f.Choices {
			examples = append(examples, o.Value)
		}
		for _, example := range examples {
			config := map[string]any{f.Name: example}
			for name, value := range required {
				if name != f.Name && name != inPlaceOf[f.Name] {
					config[name] = value
				}
			}
			// None is for private networks alone, which an example does not name.
			if err := checker.Validate(encode(t, config)); err != nil && strings.Contains(err.Error(), "config."+f.Name) {
				t.Errorf("%s: %v is refused: %v", f.Name, example, err)
			}
		}
		if f.Required {
			config := make(map[string]any)
			for name, value := range required {
				if name != f.Name {
					config[name] = value
				}
			}
			if err := checker.Validate(encode(t, config)); err == nil || !strings.Contains(err.Error(), "config."+f.Name+": missing") {
				t.Errorf("%s is required, and without it there is %v", f.Name, err)
			}
		}
	}
	names := namesIn(t, folders)
	if len(names) < len(kind.Fields) {
		t.Errorf("only %d names were found in the source", len(names))
	}
	for name := range declared {
		names[name] = true
	}
	for name := range names {
		err := checker.Validate(encode(t, map[string]any{name: 1}))
		known := err == nil || !strings.Contains(err.Error(), "config."+name+": unknown field")
		if known != declared[name] {
			t.Errorf("%s: declared %v, known to Validate %v", name, declared[name], known)
		}
	}
}

func encode(t *testing.T, config map[string]any) json.RawMessage {
	t.Helper()
	text, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

var fieldName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_]*$`)

// namesIn returns the strings in the source of some folders that could name a field.
func namesIn(t *testing.T, folders []string) map[string]bool {
	t.Helper()
	found := make(map[string]bool)
	for _, folder := range folders {
		files, err := filepath.Glob(filepath.Join(folder, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: no source, %v", folder, err)
		}
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			file, err := parser.ParseFile(token.NewFileSet(), name, text, 0)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(file, func(n ast.Node) bool {
				if literal, ok := n.(*ast.BasicLit); ok && literal.Kind == token.STRING {
					if value, err := strconv.Unquote(literal.Value); err == nil && fieldName.MatchString(value) {
						found[value] = true
					}
				}
				return true
			})
		}
	}
	return found
}
