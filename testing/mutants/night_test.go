//go:build night

package mutants

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rounds-dev/rounds/testing/processes"
)

// TestCodeMutantsAreFound builds a package with each rule broken in turn that is kept in
// Go, beside the tree and not in it. It runs the test that must then fail. The package's
// own run shows that the test passes while no rule is broken.
//
// It compiles a package for each rule, which is for testing/nightly.sh. That each rule can still be
// broken, TestRulesInGoCanBeBroken holds with every change.
func TestCodeMutantsAreFound(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range By(Code) {
		t.Run(m.Rule, func(t *testing.T) {
			t.Parallel()
			cmd := processes.Go(t.Context(), "test", "-count=1", "-vet=off", "-ldflags=-w", "-timeout=120s",
				"-overlay="+overlay(t, root, m), "-run="+pattern(m.Test), "./"+m.Package)
			cmd.Dir = root
			out, err := cmd.CombinedOutput()
			failed := "--- FAIL: " + strings.ReplaceAll(m.Test, " ", "_")
			switch {
			case err == nil && bytes.Contains(out, []byte("no tests to run")):
				t.Fatalf("%s has no test %s", m.Package, m.Test)
			case err == nil:
				t.Fatalf("nobody noticed:\n%s", out)
			case !bytes.Contains(out, []byte(failed)):
				t.Fatalf("failed for another reason: %v\n%s", err, out)
			}
		})
	}
}

// overlay writes the broken source, and has the go command read it in place of the file.
func overlay(t *testing.T, root string, m Mutant) string {
	t.Helper()
	file := filepath.Join(root, filepath.FromSlash(m.File))
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	broken, err := m.replace(string(text))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	source, list := filepath.Join(dir, filepath.Base(file)), filepath.Join(dir, "overlay.json")
	replaced, err := json.Marshal(map[string]map[string]string{"Replace": {file: source}})
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{source: broken, list: string(replaced)} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return list
}

// pattern picks one test, or one subtest, and no other.
func pattern(test string) string {
	parts := strings.Split(strings.ReplaceAll(test, " ", "_"), "/")
	for i := range parts {
		parts[i] = "^" + regexp.QuoteMeta(parts[i]) + "$"
	}
	return strings.Join(parts, "/")
}
