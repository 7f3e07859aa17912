package mutants

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestTable(t *testing.T) {
	seen := make(map[string]bool)
	for _, m := range table() {
		if seen[m.Rule] {
			t.Errorf("%q is there twice", m.Rule)
		}
		seen[m.Rule] = true
		switch m.By {
		case Explore:
			if m.Bounds.Pollers+m.Bounds.Keepers+m.Bounds.Senders == 0 {
				t.Errorf("%q: without bounds", m.Rule)
			}
		case Simulate:
		case Conformance:
			if m.Test == "" {
				t.Errorf("%q: no test finds it", m.Rule)
			}
		case Code:
			if m.Test == "" || m.Package == "" || m.File == "" || m.Script != "" {
				t.Errorf("%q: it needs a file, and a package's test that finds it", m.Rule)
			}
		default:
			t.Errorf("%q: nobody finds it", m.Rule)
		}
		if m.Old == m.New {
			t.Errorf("%q changes nothing", m.Rule)
		}
	}
	if len(seen) < 12 {
		t.Errorf("%d mutants", len(seen))
	}
}

// Each rule in Go can be broken in today's source, and has the test that is to find it. The test
// itself runs at night.
func TestRulesInGoCanBeBroken(t *testing.T) {
	for _, m := range By(Code) {
		text, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(m.File)))
		if err == nil {
			_, err = m.replace(string(text))
		}
		if err != nil {
			t.Errorf("%q: %v", m.Rule, err)
		}
		files, err := filepath.Glob(filepath.Join("..", "..", filepath.FromSlash(m.Package), "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		test, _, _ := strings.Cut(m.Test, "/")
		if !slices.ContainsFunc(files, func(file string) bool {
			text, err := os.ReadFile(file)
			return err == nil && strings.Contains(string(text), "func "+test+"(")
		}) {
			t.Errorf("%q: %s has no test %s", m.Rule, m.Package, test)
		}
	}
}

// Each rule in a script can be broken in today's source: in the script's own file, or in one that
// it shares with others.
func TestRulesInScriptsCanBeBroken(t *testing.T) {
	files := make(map[string]string) // by name
	err := filepath.WalkDir(filepath.Join("..", ".."), func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".lua" {
			return err
		}
		text, err := os.ReadFile(path)
		files[filepath.Base(path)] += string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	everything := strings.Join(slices.Collect(maps.Values(files)), "\n")
	for _, m := range table() {
		if m.By == Code {
			continue
		}
		switch n := strings.Count(files[m.Source()], m.Old); {
		case n == 0 && !strings.Contains(everything, m.Old):
			t.Errorf("%q: no script has %q", m.Rule, m.Old)
		case n > 1 && m.Script != byKind:
			t.Errorf("%q: %s has %d times %q", m.Rule, m.Source(), n, m.Old)
		}
	}
}

func TestApply(t *testing.T) {
	m := Mutant{Rule: "r", Script: "claim", Old: "x = 1", New: "x = 2"}
	for _, tt := range []struct{ text, want, fault string }{
		{"-- entry: shared\n-- claim: takes\nx = 1\n", "-- entry: shared\n-- claim: takes\nx = 2\n", ""},
		{"-- entry: shared\n-- return: gives\nx = 1\n", "-- entry: shared\n-- return: gives\nx = 1\n", ""},
		{"-- claim: takes\n", "", "0 times"},
		{"-- claim: takes\nx = 1\nx = 1\n", "", "2 times"},
	} {
		got, err := m.Apply(tt.text)
		if got != tt.want || (err == nil) != (tt.fault == "") || err != nil && !strings.Contains(err.Error(), tt.fault) {
			t.Errorf("%q became %q, %v", tt.text, got, err)
		}
	}
}

func TestReadmeHasTheTable(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	const begin, end = "<!-- mutants -->\n", "<!-- /mutants -->"
	_, rest, found := strings.Cut(string(readme), begin)
	shown, _, ended := strings.Cut(rest, end)
	if !found || !ended || shown != markdown() {
		t.Errorf("between %q and %q testing/README.md must have:\n%s", begin, end, markdown())
	}
}
