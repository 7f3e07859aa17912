package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
)

// fuzzTargets are all that the source has, "./FOLDER NAME" each, as the go command finds them:
// functions of test files whose name begins with Fuzz.
func fuzzTargets(top fs.FS) ([]string, error) {
	var found []string
	err := fs.WalkDir(top, ".", func(name string, entry fs.DirEntry, err error) error {
		base := path.Base(name)
		switch {
		case err != nil:
			return err
		case entry.IsDir() && name != "." && (strings.HasPrefix(base, ".") || base == "testdata"):
			return fs.SkipDir
		case entry.IsDir() || !strings.HasSuffix(base, "_test.go"):
			return nil
		}
		text, err := fs.ReadFile(top, name)
		if err != nil {
			return err
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), name, text, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, decl := range parsed.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && fn.Recv == nil && strings.HasPrefix(fn.Name.Name, "Fuzz") {
				found = append(found, "./"+path.Dir(name)+" "+fn.Name.Name)
			}
		}
		return nil
	})
	slices.Sort(found)
	return found, err
}

// The nightly script finds every fuzz target that there is.
func TestNightlyRunsEveryFuzzTarget(t *testing.T) {
	want, err := fuzzTargets(os.DirFS("../.."))
	if err != nil || len(want) < 40 {
		t.Fatalf("%d fuzz targets, %v", len(want), err)
	}
	list, err := exec.Command("bash", "../nightly.sh", "--list").Output()
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Split(strings.TrimSpace(string(list)), "\n")
	slices.Sort(got)
	for _, target := range want {
		if !slices.Contains(got, target) {
			t.Errorf("%s is not run", target)
		}
	}
	if len(got) != len(want) {
		t.Errorf("the script runs %d targets, and there are %d", len(got), len(want))
	}
}
