package feed

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/poller/secrets"
	"github.com/rounds-dev/rounds/testing/checktest"
)

const (
	allTheSame = "malformed: not well-formed XML at line %d; read all the same"
	without    = "malformed: broken XML at line %d; read without what is broken"
)

func TestMalformedFeedsAreReadAsFarAsTheyGo(t *testing.T) {
	head, tail := `<rss version="2.0"><channel><title>t</title>`, "</channel></rss>"
	item := func(n int) string { return fmt.Sprintf("<item><guid>%d</guid><title>t%d</title></item>\n", n, n) }
	atom := `<?xml version="1.0"?><feed xmlns="http://www.w3.org/2005/Atom"><title>t</title>`
	for name, c := range map[string]struct {
		body string
		ids  string
		warn string
		line int
	}{
		"well-formed":         {head + item(1) + item(2) + tail, "2 1", "", 0},
		"a bare ampersand":    {head + item(1) + "<item><guid>2</guid><title>a & b</title></item>" + tail, "2 1", allTheSame, 2},
		"an HTML entity":      {head + item(1) + "<item><guid>2</guid><title>a&nbsp;b</title></item>" + tail, "2 1", allTheSame, 2},
		"tags that cross":     {head + item(1) + "<item><guid>2</guid><b><i>x</b></i></item>" + tail, "2 1", allTheSame, 2},
		"no quotes":           {"<rss version=2><channel>" + item(1) + tail, "1", allTheSame, 1},
		"a bare less-than":    {head + item(1) + "<item><guid>2</guid><title>a < b</title></item>\n" + item(3) + tail, "3 1", without, 2},
		"the first item":      {head + "<item><guid>1</guid><title>a < b</title></item>\n" + item(2) + item(3) + tail, "3 2", without, 1},
		"the last item":       {head + item(1) + item(2) + "<item><guid>3</guid><title>a < b</title></item>" + tail, "2 1", without, 3},
		"several items":       {head + item(1) + "<item>< </item>" + item(2) + "<item><<</item>\n" + item(3) + "<ITEM><</ITEM>" + item(4) + tail, "4 3 2 1", without, 2},
		"cut":                 {head + item(1) + item(2) + "<item><guid>3</gui", "2 1", without, 3},
		"cut behind an item":  {head + item(1) + item(2), "2 1", without, 3},
		"cut in CDATA":        {head + item(1) + "<item><guid>2</guid><description><![CDATA[ <item> ", "1", without, 2},
		"the header":          {"<rss><channel><title>a < b</title>\n" + item(1) + item(2) + tail, "2 1", without, 1},
		"within the header":   {"<rss><channel><image><url>a < b</url></image>\n" + item(1) + tail, "1", without, 1},
		"behind the items":    {head + item(1) + "<x>a < b</x>" + tail, "1", without, 2},
		"atom":                {atom + "<entry><id>1</id></entry>\n<entry><id>2</id><title>a < b</title></entry><entry><id>3</id></entry></feed>", "3 1", without, 2},
		"atom, cut":           {atom + "<entry><id>1</id></entry>\n<entry><id>2</id>", "1", without, 2},
		"rdf":                 {`<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns="http://purl.org/rss/1.0/"><channel><title>a < b</title></channel><item><link>1</link></item></rdf:RDF>`, "1", without, 1},
		"CDATA that is ended": {head + item(1) + "<item><guid>2</guid><title>]]></title></item>" + item(3) + tail, "3 1", without, 2},
	} {
		read, err := parse(t.Context(), []byte(c.body), "", free)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var ids []string
		for _, i := range slices.Backward(read.items) {
			ids = append(ids, i.id)
		}
		slices.Sort(ids)
		slices.Reverse(ids)
		warn := ""
		if warnings := read.flaw.warnings(); len(warnings) > 0 {
			warn = warnings[0].String()
		}
		want := c.warn
		if want != "" {
			want = fmt.Sprintf(want, c.line)
		}
		if got := strings.Join(ids, " "); got != c.ids || warn != want {
			t.Errorf("%s: got %s, %q; want %s, %q", name, got, warn, c.ids, want)
		}
	}
}

// A broken feed without a single readable item fails. So does one that is broken beyond the
// bounds, or refused because it costs too much.
func TestBrokenFeedsThatFail(t *testing.T) {
	for name, body := range map[string]string{
		"no item":          `<rss version="2.0"><channel><title>a < b</title></channel></rss>`,
		"cut in the first": `<rss version="2.0"><channel><item><guid>1</guid>`,
		"no root":          `<rss`,
		"another root":     `<opml><item>a < b</item></opml>`,
		"too deep":         `<rss><channel><item><guid>1</guid></item><item>a < b</item><item>` + strings.Repeat("<a>", maxDepth+1),
		"too many items":   `<rss><channel>` + strings.Repeat("<item/>", maxListed+1) + "< ",
	} {
		_, err := parse(t.Context(), []byte(body), "", free)
		if got := checktest.Failure(t, err); got.Kind != poller.Protocol {
			t.Errorf("%s: got %v", name, got)
		}
	}
	// Everything behind the last place that may be left out is left out as well.
	many := `<rss><channel><item><guid>first</guid></item>` + strings.Repeat("<item>a < b</item>", 10*maxMends) + "<item><guid>last</guid></item></channel></rss>"
	read, err := parse(t.Context(), []byte(many), "", free)
	if err != nil || len(read.items) != 1 || read.items[0].id != "first" || !read.flaw.lossy {
		t.Errorf("got %+v, %v", read, err)
	}
}

// The warning of a mended feed is repeated while the feed is unmodified. A feed that was not
// read as a whole is fetched again each time.
func TestWarningsOfUnmodifiedFeeds(t *testing.T) {
	s := newSite(t)
	s.etag, s.body = `"1"`, rss("<guid>1</guid><title>a & b</title>")
	warned := func(result poller.Result) bool {
		return len(result.Warnings) == 1 && result.Warnings[0].Code == "malformed" && len(result.Messages) < 2
	}
	first := check(t, s, nil, 10)
	again := check(t, s, first.Cursor, 10)
	if !warned(first) || !warned(again) || s.seen.Get("If-None-Match") != s.etag || again.Cursor != nil {
		t.Errorf("got %+v, then %+v", first, again)
	}
	s.etag, s.body = `"2"`, rss("<guid>1</guid>", "<guid>2</guid><title>a < b</title>")
	lossy := check(t, s, first.Cursor, 10)
	s.etag = `"2"`
	again = check(t, s, lossy.Cursor, 10)
	if !warned(lossy) || !warned(again) || s.seen.Get("If-None-Match") != "" {
		t.Errorf("got %+v, then %+v", lossy, again)
	}
	s.etag, s.body = `"3"`, rss("<guid>1</guid>", "<guid>2</guid><title>a &lt; b</title>")
	healed := check(t, s, lossy.Cursor, 10)
	want(t, healed, false, "2")
	if again := check(t, s, healed.Cursor, 10); len(healed.Warnings)+len(again.Warnings) > 0 {
		t.Errorf("healed: %+v, %+v", healed.Warnings, again.Warnings)
	}
}

func TestMovesForGood(t *testing.T) {
	there := newSite(t)
	there.body = rss(guids("a")...)
	status, to := http.StatusMovedPermanently, there.url+"/feed.xml?key=s3cret"
	old := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/new" {
			there.ServeHTTP(w, r)
			return
		}
		http.Redirect(w, r, to, status)
	}))
	defer old.Close()
	client := checktest.Client(t, fetch.Options{})
	ask := func(config string, cursor []byte) (poller.Result, error) {
		return New(client, vault()).Check(t.Context(), poller.Request{Config: []byte(config), Cursor: cursor})
	}
	result, err := ask(string(plain(old.URL)), nil)
	if err != nil || result.MovedTo != to || len(result.Warnings) != 1 || result.Warnings[0].String() != "moved: for good, to "+there.url+"/feed.xml?…" {
		t.Errorf("got %+v, %v", result, err)
	}
	// A login belongs to the old host. It may follow a move within that host.
	result, err = ask(string(private(old.URL)), nil)
	if err != nil || result.MovedTo != "" || len(result.Warnings) != 1 || !strings.HasSuffix(result.Warnings[0].Message, "its login or headers are not sent there") {
		t.Errorf("with a login: %+v, %v", result, err)
	}
	to = old.URL + "/new"
	if result, err = ask(string(private(old.URL)), nil); err != nil || result.MovedTo != to {
		t.Errorf("within the host: %+v, %v", result, err)
	}
	there.etag = `"1"`
	first, err := ask(string(plain(old.URL)), nil)
	if err != nil {
		t.Fatal(err)
	}
	if result, err = ask(string(plain(old.URL)), first.Cursor); err != nil || result.MovedTo != to || len(result.Messages) != 0 {
		t.Errorf("unmodified there: %+v, %v", result, err)
	}
	there.body, there.etag = "<html>", ""
	if result, err = ask(string(plain(old.URL)), nil); err == nil || result.MovedTo != "" {
		t.Errorf("no feed there: %+v", result)
	}
	there.status = http.StatusNoContent
	if result, err = ask(string(plain(old.URL)), nil); err != nil || result.MovedTo != "" {
		t.Errorf("nothing there: %+v, %v", result, err)
	}
	there.status, there.body, status = 0, rss(guids("a")...), http.StatusFound
	if result, err = ask(string(plain(old.URL)), nil); err != nil || result.MovedTo != "" || result.Warnings != nil {
		t.Errorf("for now: %+v, %v", result, err)
	}
	status, to = http.StatusMovedPermanently, "http://10.0.0.1/feed"
	if result, err = New(client, secrets.Source{}).Check(t.Context(), poller.Request{Config: plain(old.URL)}); err == nil || result.MovedTo != "" {
		t.Errorf("to a private address: %+v", result)
	}
}
