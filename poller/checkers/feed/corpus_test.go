package feed

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	corpusHeader = regexp.MustCompile(`(?mi)^Header: +Content-type: *(.*)$`)
	corpusRoot   = regexp.MustCompile(`(?is)^(?:\s|<!--.*?-->|<\?.*?\?>|<!DOCTYPE[^>[]*(?:\[.*?\])?[^>]*>)*<([a-z:]+)`)
	corpusItem   = regexp.MustCompile(`(?i)<(?:[a-z]+:)?(?:item|entry)[\s/>]`)
	corpusHidden = regexp.MustCompile(`(?s)<!--.*?-->|<!\[CDATA\[.*?\]\]>`)
)

// others is the outcome for feeds that other projects wrote for their own tests.
type others struct {
	read, items int
	refused     []string // those that have a feed's root
	fewer       []string // fewer items than they show
}

func readOthers(t *testing.T, dir string) (found others) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".xml" {
			return err
		}
		body, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		header := ""
		if told := corpusHeader.FindSubmatch(body); told != nil {
			header = strings.TrimSpace(string(told[1]))
		}
		text, _, err := document(bytes.Clone(body), header)
		root := corpusRoot.FindSubmatch(text)
		if err == nil && (root == nil || !slices.Contains([]string{"rss", "rdf:rdf", "feed"}, strings.ToLower(string(root[1])))) {
			return nil // CDF, other XML, and pieces
		}
		name, _ := filepath.Rel(dir, path)
		read, err := parse(t.Context(), body, header, free)
		if err != nil {
			found.refused = append(found.refused, name+": "+err.Error())
			return nil
		}
		found.read++
		found.items += len(read.items)
		if shown := len(corpusItem.FindAll(corpusHidden.ReplaceAll(text, nil), -1)); len(read.items) < min(shown, 1) {
			found.fewer = append(found.fewer, name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestCorpus reads the feeds of feedparser's own tests, which testing/nightly.sh brings from the
// distribution's source package. Nearly all of those with a feed's root are read, and show an
// item if they have one.
func TestCorpus(t *testing.T) {
	dir := os.Getenv("ROUNDS_TEST_FEEDS")
	if dir == "" {
		t.Skip("ROUNDS_TEST_FEEDS is not set: testing/nightly.sh sets it")
	}
	found := readOthers(t, dir)
	t.Logf("%d read, %d items; refused:\n%s\nwithout their items:\n%s", found.read, found.items, strings.Join(found.refused, "\n"), strings.Join(found.fewer, "\n"))
	// The refused feeds end within a tag and show no item. Atom does not know <item>.
	if found.read < 1500 || found.items < 1000 || len(found.refused) > 15 || len(found.fewer) > 3 {
		t.Errorf("%d read, %d items, %d refused, %d without their items", found.read, found.items, len(found.refused), len(found.fewer))
	}
}

// The corpus test notices a feed that is refused, and a feed whose item is not read.
func TestCorpusCondemns(t *testing.T) {
	dir := t.TempDir()
	for name, body := range map[string]string{
		"good.xml":    "<!--\nHeader:      Content-type: text/xml; charset=gbk\n-->" + rss("<title>\xd6\xd0</title>"),
		"empty.xml":   rss(),
		"cdf.xml":     `<channel><item href="a"/></channel>`,
		"refused.xml": "<rss><channel><item><title>cut",
		"fewer.xml":   `<feed xmlns="http://www.w3.org/2005/Atom"><item><title>Atom has entries</title></item></feed>`,
		"notes.txt":   "<rss>",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(body), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	found := readOthers(t, dir)
	if found.read != 3 || found.items != 1 || len(found.refused) != 1 || !strings.HasPrefix(found.refused[0], "refused.xml: ") || len(found.fewer) != 1 || found.fewer[0] != "fewer.xml" {
		t.Errorf("got %+v", found)
	}
}
