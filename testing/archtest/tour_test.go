package archtest

import (
	"io/fs"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"
)

// inCode finds the texts of a page that are set as code.
var inCode = regexp.MustCompile("`([^`]+)`")

// lostOnTour returns the paths in the answers of a page's tour that a tree does not have.
// A file without a folder is beside the path before it. A named test, a/b.TestC, is no path.
func lostOnTour(page string, tree fs.FS) (paths int, lost []string) {
	_, tour, _ := strings.Cut(page, "\n## The tour\n")
	tour, _, _ = strings.Cut(tour, "\n## ")
	for row := range strings.Lines(tour) {
		cells := strings.Split(row, "|")
		if len(cells) != 4 {
			continue
		}
		folder := ""
		for _, found := range inCode.FindAllStringSubmatch(cells[2], -1) {
			at := found[1]
			switch {
			case strings.Contains(at, " "), namedTest.MatchString(found[0]): // a command, or a test
				continue
			case strings.Contains(at, "/"):
				folder = at
				if path.Ext(at) != "" {
					folder = path.Dir(at)
				}
			case path.Ext(at) != "":
				at = path.Join(folder, at)
			default:
				folder = at
			}
			paths++
			if _, err := fs.Stat(tree, at); err != nil {
				lost = append(lost, at)
			}
		}
	}
	return paths, lost
}

// A newcomer who asks is led to files that exist.
func TestTourOfContributing(t *testing.T) {
	page, err := os.ReadFile("../../.github/CONTRIBUTING.md")
	if err != nil {
		t.Fatal(err)
	}
	paths, lost := lostOnTour(string(page), os.DirFS("../.."))
	for _, at := range lost {
		t.Errorf("the tour names %s, which does not exist", at)
	}
	if paths < 30 {
		t.Errorf("only %d paths were found in the tour", paths)
	}
	tests := namedTest.FindAllStringSubmatch(string(page), -1)
	for _, test := range tests {
		if !hasTest(t, test[1], test[2]) {
			t.Errorf("the tour names a test that %s does not have: %s", test[1], test[2])
		}
	}
	if len(tests) == 0 {
		t.Error("no test was found in the tour")
	}
}

func TestTourThatLeadsNowhere(t *testing.T) {
	tree := fstest.MapFS{"a/b.go": {}, "a/b.lua": {}, "c/d.go": {}}
	const page = "\n## The tour\n\n| you ask | look at |\n|---|---|\n| Where? | `a/b.go` and `b.lua` beside it; `go generate` in `c` and its `e.go`, `a/c`; `a.TestB` |\n\n## Else\n\n| x | `none/at.all` |\n"
	paths, lost := lostOnTour(page, tree)
	if got := strings.Join(lost, " "); paths != 5 || got != "c/e.go a/c" {
		t.Errorf("%d paths, lost %q", paths, got)
	}
}
