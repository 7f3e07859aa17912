package archtest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var namedTest = regexp.MustCompile("`([a-z0-9/]+)\\.(Test[A-Za-z0-9_]+)`")

// The kinds' page names, for each complaint, the test that would fail. These tests exist.
func TestTheNamedTestsExist(t *testing.T) {
	page, err := os.ReadFile("../../poller/checkers/README.md")
	if err != nil {
		t.Fatal(err)
	}
	named := 0
	for line := range strings.Lines(string(page)) {
		if !strings.HasPrefix(line, "| ") || strings.Contains(line, "the test that holds it here") {
			continue
		}
		found := namedTest.FindAllStringSubmatch(line, -1)
		if len(found) == 0 {
			t.Errorf("no test is named: %s", line)
		}
		for _, test := range found {
			named++
			if !hasTest(t, test[1], test[2]) {
				t.Errorf("%s has no %s", test[1], test[2])
			}
		}
	}
	if named < 20 {
		t.Errorf("only %d tests are named", named)
	}
	if hasTest(t, "poller", "TestThatIsNone") {
		t.Error("any test is found")
	}
}

func hasTest(t *testing.T, dir, name string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("../..", dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "func "+name+"(") {
			return true
		}
	}
	return false
}
