package feed

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/poller/secrets"
	"github.com/rounds-dev/rounds/testing/checktest"
)

// Each limit refuses the feed that exceeds it, and the error names that limit.
func TestEachLimitIsNamed(t *testing.T) {
	namespaces := func(n int) string {
		var text strings.Builder
		for i := range n {
			fmt.Fprintf(&text, " xmlns:n%d='x'", i)
		}
		return text.String()
	}
	for name, c := range map[string]struct {
		body string
		want error
	}{
		"elements":            {rss(strings.Repeat("<b/>", maxElements)), errElements},
		"dates":               {rss(strings.Repeat("<pubDate/>", maxDates+1)), errDates},
		"a long date":         {rss("<pubDate>" + strings.Repeat("1", maxDate+1) + "</pubDate>"), errDates},
		"namespaces in scope": {"<rss" + namespaces(maxScope+1) + "/>", errNamespaces},
		"namespaces copied":   {"<rss" + namespaces(maxScope) + ">" + strings.Repeat("<b/>", maxScopeCost/maxScope+1), errNamespaces},
		"bases":               {"<rss xml:base='" + strings.Repeat("b", 1<<16) + "'>" + strings.Repeat("<b/>", maxBaseCost>>16+1), errBase},
		"markup":              {"<rss xml:base='b'>" + strings.Repeat("&lt;", maxMarkup+1) + "</rss>", errMarkup},
		"hidden markup":       {"<rss><!--" + strings.Repeat("<", maxHidden+1) + "--></rss>", errMarkup},
	} {
		_, err := parse(t.Context(), []byte(c.body), "", free)
		got := checktest.Failure(t, err)
		if want := "the feed is refused: " + c.want.Error(); got.Kind != poller.Protocol || got.Message != want {
			t.Errorf("%s: got %v, want %s", name, got, want)
		}
	}
}

// Characters that JSON escapes make an item up to six times as long. The parts that
// still do not fit are cut or left out, the longest first, and the message says so.
func TestEscapedItemsAreCutAgain(t *testing.T) {
	escaped := func(n int) string { return strings.Repeat("\x01", n) } // six bytes each in JSON
	many := func(n int, of any) (list []any) {
		for range n {
			list = append(list, of)
		}
		return list
	}
	attachment := map[string]any{"url": "http://x/" + escaped(4000), "mime_type": "a/b"}
	for name, c := range map[string]struct {
		item map[string]any
		keep func(d data) bool
	}{
		"content": {
			map[string]any{"content_html": escaped(maxContent), "summary": "s"},
			func(d data) bool { return d.Content != "" && len(d.Content) < maxContent && d.Summary == "s" },
		},
		"summary": {
			map[string]any{"summary": escaped(maxSummary), "title": escaped(maxLine), "tags": many(maxCategories, escaped(maxLine/16))},
			func(d data) bool {
				return d.Summary != "" && len(d.Summary) < maxSummary && len(d.Categories) == maxCategories
			},
		},
		"enclosures": {
			map[string]any{"title": "t", "attachments": many(maxEnclosures, attachment)},
			func(d data) bool { return d.Enclosures == nil && d.Title == "t" },
		},
		"more enclosures than are kept": {
			map[string]any{"attachments": many(maxEnclosures+1, map[string]any{"url": "http://x/", "mime_type": "a/b"})},
			func(d data) bool { return len(d.Enclosures) == maxEnclosures },
		},
		"more categories than are kept": {
			map[string]any{"tags": many(maxCategories+1, "c")},
			func(d data) bool { return len(d.Categories) == maxCategories },
		},
	} {
		c.item["id"] = "1"
		body, err := json.Marshal(map[string]any{"version": "https://jsonfeed.org/version/1.1", "items": []any{c.item}})
		if err != nil {
			t.Fatal(err)
		}
		messages := parsed(t, string(body))
		if len(messages) != 1 {
			t.Errorf("%s: got %d messages", name, len(messages))
			continue
		}
		var got data
		if err := json.Unmarshal(messages[0].Data, &got); err != nil || len(messages[0].Data) > maxData || !got.Truncated || !c.keep(got) {
			t.Errorf("%s: %d bytes, truncated %t, %v", name, len(messages[0].Data), got.Truncated, err)
		}
	}
}

// An enclosure without an address is left out.
func TestEnclosuresWithoutAnAddress(t *testing.T) {
	messages := parsed(t, rss(`<guid>1</guid><enclosure length="7"/><enclosure url="http://x/e"/>`))
	if got := string(messages[0].Data); got != `{"enclosures":[{"url":"http://x/e"}]}` {
		t.Errorf("got %s", got)
	}
}

// A page of new items ends before an item that is already known. That one stays
// known, and is not reported again.
func TestKnownItemsBehindAPageStayKnown(t *testing.T) {
	s := newSite(t)
	s.body = rss(guids("known")...)
	first := check(t, s, nil, 10)
	s.body = rss(guids("known", "b", "a")...)
	second := check(t, s, first.Cursor, 1)
	want(t, second, true, "a")
	third := check(t, s, second.Cursor, 1)
	want(t, third, false, "b")
	want(t, check(t, s, third.Cursor, 1), false)
}

// A stray < before a long word is not a tag. The search for the next item continues behind it.
func TestAStrayMarkBeforeALongWord(t *testing.T) {
	body := `<rss version="2.0"><channel><item><guid>1</guid></item><item><< <` + strings.Repeat("x", 200) + `</item><item><guid>2</guid></item></channel></rss>`
	read, err := parse(t.Context(), []byte(body), "", free)
	if err != nil || len(read.items) != 2 || !read.flaw.lossy {
		t.Errorf("got %d items, %+v, %v", len(read.items), read.flaw, err)
	}
	if name := nameAt([]byte("<rss"), 0); name != "rss" {
		t.Errorf("a name at the end: %q", name)
	}
}

// The warning shows the beginning of a long address.
func TestALongAddressIsShortenedInTheWarning(t *testing.T) {
	path := "/" + strings.Repeat("p", 2*maxShown)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != path {
			http.Redirect(w, r, path, http.StatusMovedPermanently)
			return
		}
		_, _ = fmt.Fprint(w, rss(guids("a")...))
	}))
	defer server.Close()
	result, err := New(checktest.Client(t, fetch.Options{}), secrets.Source{}).Check(t.Context(), poller.Request{Config: plain(server.URL)})
	if err != nil || result.MovedTo != server.URL+path || len(result.Warnings) != 1 {
		t.Fatalf("got %+v, %v", result, err)
	}
	if want := "for good, to " + (server.URL + path)[:maxShown] + "…"; result.Warnings[0].Message != want {
		t.Errorf("got %s, want %s", result.Warnings[0].Message, want)
	}
}
