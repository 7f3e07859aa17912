package guide

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// written matches what a program writes into a page, between <!-- NAME --> and <!-- /NAME -->. It
// writes both languages, or a Chinese page refers its reader to the English text.
var written = regexp.MustCompile(`(?s)<!-- (\w+) -->\n.*?<!-- /(\w+) -->\n?`)

// textHash returns a short hash of a page's text without what programs write into it.
func textHash(source []byte) string {
	sum := sha256.Sum256(written.ReplaceAll(source, []byte("<!-- $1 -->\n")))
	return hex.EncodeToString(sum[:])[:10]
}

// outdated returns what is wrong with the Chinese pages of a guide, page by page.
func outdated(files fs.FS) (faults []string, err error) {
	originals, err := fs.Glob(files, "*.md")
	if err != nil {
		return nil, err
	}
	translations, err := fs.Glob(files, chinese+"/*.md")
	if err != nil {
		return nil, err
	}
	for _, file := range originals {
		if translation := path.Join(chinese, file); !slices.Contains(translations, translation) {
			faults = append(faults, fmt.Sprintf("%s has no translation: write %s", file, translation))
		}
	}
	for _, file := range translations {
		original := path.Base(file)
		if !slices.Contains(originals, original) {
			faults = append(faults, fmt.Sprintf("%s has no original: remove it, or name it as its original", file))
			continue
		}
		english, err := fs.ReadFile(files, original)
		if err != nil {
			return nil, err
		}
		translated, err := fs.ReadFile(files, file)
		if err != nil {
			return nil, err
		}
		first, _, _ := strings.Cut(string(translated), "\n")
		if want := "<!-- translated from " + textHash(english) + " -->"; first != want {
			faults = append(faults, fmt.Sprintf("%s is not marked as a translation of today's %s: read the `git diff` of %s since %s was last marked, bring the translation up to date, and make this its first line:\n%s",
				file, original, original, file, want))
		}
	}
	return faults, nil
}

func TestTranslationsAreUpToDate(t *testing.T) {
	faults, err := outdated(os.DirFS("."))
	if err != nil {
		t.Fatal(err)
	}
	for _, fault := range faults {
		t.Error(fault)
	}
}

func TestOutdatedTranslationsAreFound(t *testing.T) {
	const table = "<!-- rows -->\n| 1 |\n<!-- /rows -->\n"
	mark := func(english string) string {
		return "<!-- translated from " + textHash([]byte(english)) + " -->\n# 页\n"
	}
	for _, c := range []struct {
		name  string
		files map[string]string
		fault string // a part of the only fault; empty: none
	}{
		{"up to date", map[string]string{"a.md": "# A\n", "zh-CN/a.md": mark("# A\n")}, ""},
		{"the original changed", map[string]string{"a.md": "# A\n\nnew\n", "zh-CN/a.md": mark("# A\n")}, textHash([]byte("# A\n\nnew\n"))},
		{"without a mark", map[string]string{"a.md": "# A\n", "zh-CN/a.md": "# 页\n"}, textHash([]byte("# A\n"))},
		{"only a written part changed", map[string]string{"a.md": "# A\n" + strings.Replace(table, "1", "2", 1), "zh-CN/a.md": mark("# A\n" + table)}, ""},
		{"text behind a written part changed", map[string]string{"a.md": "# A\n" + table + "new\n", "zh-CN/a.md": mark("# A\n" + table)}, "a.md is not marked"},
		{"text between written parts changed", map[string]string{"a.md": "# A\n" + table + "new\n" + table, "zh-CN/a.md": mark("# A\n" + table + table)}, "a.md is not marked"},
		{"without a translation", map[string]string{"a.md": "# A\n"}, "a.md has no translation"},
		{"without an original", map[string]string{"zh-CN/a.md": mark("# A\n")}, "has no original"},
	} {
		t.Run(c.name, func(t *testing.T) {
			files := fstest.MapFS{}
			for name, text := range c.files {
				files[name] = &fstest.MapFile{Data: []byte(text)}
			}
			faults, err := outdated(files)
			if err != nil {
				t.Fatal(err)
			}
			if c.fault == "" && len(faults) != 0 || c.fault != "" && (len(faults) != 1 || !strings.Contains(faults[0], c.fault)) {
				t.Errorf("the check finds %q, want %q", faults, c.fault)
			}
		})
	}
}

// Readers do not see what a translation was made from.
func TestMarksOfTranslationsAreNotShown(t *testing.T) {
	p, err := render([]byte("<!-- translated from 3f9a2c01d4 -->\n# 页\n\n<!-- rows -->\n"), "zh-CN/a.md", "/")
	if err != nil {
		t.Fatal(err)
	}
	if body := string(p.Body); strings.Contains(body, "3f9a2c01d4") || p.Title != "页" {
		t.Errorf("%q: %s", p.Title, body)
	}
}
