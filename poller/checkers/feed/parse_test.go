package feed

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/testing/checktest"
)

func parsed(t *testing.T, body string) []poller.Message {
	t.Helper()
	read, err := parse(t.Context(), []byte(body), "", free)
	if err != nil {
		t.Errorf("%.60s: %v", body, err)
	}
	var messages []poller.Message
	for _, item := range read.items {
		messages = append(messages, item.message())
	}
	return messages
}

func TestData(t *testing.T) {
	published := time.Date(1994, 11, 6, 8, 49, 37, 0, time.UTC)
	for name, c := range map[string]struct{ body, want string }{
		"rss": {
			rss(`<guid>1</guid><title>A &amp; B</title><link>http://x/1</link><author>me@x (Me)</author><description>&lt;b&gt;s&lt;/b&gt;</description>
				<pubDate>Sun, 06 Nov 1994 08:49:37 GMT</pubDate><category>c</category><enclosure url="http://x/e.mp3" length="7" type="audio/mpeg"/>`),
			`{"title":"A & B","link":"http://x/1","author":"Me","summary":"<b>s</b>","published":"1994-11-06T08:49:37Z",` +
				`"categories":["c"],"enclosures":[{"url":"http://x/e.mp3","type":"audio/mpeg","length":"7"}]}`,
		},
		"atom": {
			`<feed xmlns="http://www.w3.org/2005/Atom"><entry><id>1</id><title>T</title><link href="http://x/1"/><author><name>Me</name></author>
				<published>1994-11-06T09:49:37+01:00</published><updated>1994-11-07T00:00:00Z</updated><content>c</content></entry></feed>`,
			`{"title":"T","link":"http://x/1","author":"Me","content":"c","published":"1994-11-06T08:49:37Z","updated":"1994-11-07T00:00:00Z"}`,
		},
		"json": {
			`{"version":"https://jsonfeed.org/version/1.1","title":"t","items":[{"id":"1","url":"http://x/1","content_text":"c",
				"date_published":"1994-11-06T08:49:37Z","authors":[{"name":"Me"}],"tags":["c"]}]}`,
			`{"link":"http://x/1","author":"Me","content":"c","published":"1994-11-06T08:49:37Z","categories":["c"]}`,
		},
	} {
		messages := parsed(t, c.body)
		if len(messages) != 1 || messages[0].ID != "1" || messages[0].Type != "item" || !messages[0].Time.Equal(published) {
			t.Errorf("%s: got %+v", name, messages)
			continue
		}
		if got := string(messages[0].Data); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, c.want)
		}
	}
}

func TestIdentity(t *testing.T) {
	long := strings.Repeat("x", maxID+1)
	messages := parsed(t, rss(
		"<title>no id</title>", "<title>no id</title>", "<title>no id either</title>",
		"<link>http://x/1</link>", "<guid>http://x/1</guid>", "<guid> g </guid>", "<guid>"+long+"</guid>", "<guid>a\tb</guid>",
	))
	got := ids(messages)
	if len(got) != 6 {
		t.Errorf("got %v", got)
	}
	for _, id := range got {
		if id == "" || len(id) > maxID || strings.ContainsAny(id, "\t ") {
			t.Errorf("got id %q", id)
		}
	}
	if !slices.Contains(got, "http://x/1") || !slices.Contains(got, "g") {
		t.Errorf("got %v", got)
	}
}

func TestDataIsBounded(t *testing.T) {
	for name, body := range map[string]string{
		"long text":    strings.Repeat("ä", 300<<10),
		"escaped text": strings.Repeat("&#x2028;", 100<<10),
		"quotes":       strings.Repeat("&quot;", 200<<10),
	} {
		item := "<guid>1</guid><title>" + body + "</title><link>http://x/" + body + "</link><description>" + body + "</description>" +
			strings.Repeat("<category>"+body[:600]+"</category>", 100) +
			`<content:encoded xmlns:content="http://purl.org/rss/1.0/modules/content/">` + body + "</content:encoded>"
		messages := parsed(t, rss(item))
		data := messages[0].Data
		whole, err := json.Marshal(messages[0])
		if err != nil || len(data) > maxData || !json.Valid(data) || strings.Contains(string(data), "\ufffd") {
			t.Errorf("%s: %d bytes, %d in all, %v", name, len(data), len(whole), err)
		}
		if !strings.Contains(string(data), `"truncated":true`) || !strings.Contains(string(data), `"content":`) {
			t.Errorf("%s: cut without a word, or all of it: %.100s", name, data)
		}
	}
}

func TestNotAFeed(t *testing.T) {
	for name, c := range map[string]struct{ body, code string }{
		"empty":            {"", "not_a_feed"},
		"html":             {"<!DOCTYPE html><html><body>hello</body></html>", "html"},
		"html upper":       {"\n <HTML><head></head></html>", "html"},
		"xhtml":            {`<?xml version="1.0"?><html xmlns="http://www.w3.org/1999/xhtml"></html>`, "html"},
		"text":             {"hello", "not_a_feed"},
		"other XML":        {"<opml></opml>", "not_a_feed"},
		"cut in a tag":     {`<rss version="2.0"><channel><item><guid>1</gu`, "not_a_feed"},
		"json":             {`{"error": "unauthorized"}`, "not_a_feed"},
		"broken json":      {`{"version": "https://jsonfeed.org/version/1", "items": [`, "not_a_feed"},
		"array":            {`[]`, "not_a_feed"},
		"number of items":  {`{"version": "https://jsonfeed.org/version/1", "items": 7}`, "not_a_feed"},
		"null item":        {`{"version": "https://jsonfeed.org/version/1", "items": [null, {"id": "1"}]}`, "not_a_feed"}, // the parser panics
		"deep":             {rss(strings.Repeat("<x:a>", 1<<20)), "not_a_feed"},
		"deep after bytes": {"\xef\xbf\xbb" + rss(strings.Repeat("<x:a>", 1<<20)), "not_a_feed"},
		"pieces":           {rss("<x:a>" + strings.Repeat("<b/>x", 1<<20) + "</x:a>"), "not_a_feed"},
	} {
		_, err := parse(t.Context(), []byte(c.body), "", free)
		got := checktest.Failure(t, err)
		if got.Kind != poller.Protocol || got.Code != c.code || strings.Contains(got.Message, "unauthorized") {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

func TestOddFeeds(t *testing.T) {
	for name, c := range map[string]struct {
		body string
		want int
	}{
		"no items":   {rss(), 0},
		"json":       {`{"version": "https://jsonfeed.org/version/1", "items": []}`, 0},
		"far future": {rss("<guid>1</guid><pubDate>Sun, 06 Nov 99999 08:49:37 GMT</pubDate>"), 1},
		"latin1":     {"<?xml version=\"1.0\" encoding=\"ISO-8859-1\"?>" + rss("<guid>\xe4</guid>"), 1},
		"rdf":        {`<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns="http://purl.org/rss/1.0/"><item><link>a</link></item></rdf:RDF>`, 1},
		"bom":        {"\xef\xbb\xbf" + rss("<guid>1</guid>"), 1},
	} {
		if got := parsed(t, c.body); len(got) != c.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

// Addresses are whole: relative ones are resolved against xml:base, or else against the address
// that answered. A guid that is a permanent link is the link of an item without one. Ids stay as
// the feed has them.
func TestAddresses(t *testing.T) {
	for name, c := range map[string]struct{ body, id, link string }{
		"relative":              {rss("<guid>1</guid><link>/a?b=c</link>"), "1", "https://x.example/a?b=c"},
		"relative to the page":  {rss("<link>a</link>"), "a", "https://x.example/feeds/a"},
		"absolute":              {rss("<guid>1</guid><link>http://y.example/a</link>"), "1", "http://y.example/a"},
		"xml:base":              {`<feed xmlns="http://www.w3.org/2005/Atom" xml:base="http://z.example/b/"><entry><id>1</id><link href="a"/></entry></feed>`, "http://z.example/b/1", "http://z.example/b/a"},
		"a relative xml:base":   {`<feed xmlns="http://www.w3.org/2005/Atom" xml:base="/b/"><entry><id>1</id><link href="a"/></entry></feed>`, "/b/1", "https://x.example/b/a"},
		"a guid that is a link": {rss("<guid>https://y.example/1</guid>"), "https://y.example/1", "https://y.example/1"},
		"one that says so":      {rss(`<guid isPermaLink="true">https://y.example/1</guid>`), "https://y.example/1", "https://y.example/1"},
		"one that is none":      {rss(`<guid isPermaLink="false">https://y.example/1</guid>`), "https://y.example/1", ""},
		"one that is no URL":    {rss(`<guid>tag:y.example,2026:1</guid>`), "tag:y.example,2026:1", ""},
		"one beside a link":     {rss(`<guid>https://y.example/1</guid><link>https://y.example/2</link>`), "https://y.example/1", "https://y.example/2"},
		"no address":            {rss("<guid>1</guid><link>http://[</link>"), "1", "http://["},
		"RDF": {`<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns="http://purl.org/rss/1.0/"><item rdf:about="http://y.example/1"><title>t</title></item></rdf:RDF>`,
			"http://y.example/1", ""},
		"RDF with a link": {`<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns="http://purl.org/rss/1.0/"><item rdf:about="http://y.example/1"><link>/2</link></item></rdf:RDF>`,
			"/2", "https://x.example/2"},
	} {
		read, err := parse(t.Context(), []byte(c.body), "", free)
		if err != nil || len(read.items) != 1 {
			t.Errorf("%s: %d items, %v", name, len(read.items), err)
			continue
		}
		read.setBase("https://x.example/feeds/new.xml")
		message := read.items[0].message()
		var data struct{ Link string }
		if err := json.Unmarshal(message.Data, &data); err != nil || message.ID != c.id || data.Link != c.link {
			t.Errorf("%s: %q links to %q, want %q and %q", name, message.ID, data.Link, c.id, c.link)
		}
	}
}

// Behind a redirect, addresses are relative to where the feed is.
func TestAddressesBehindARedirect(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/old" {
			http.Redirect(w, r, "/new/feed", http.StatusFound)
			return
		}
		_, _ = w.Write([]byte(rss("<guid>1</guid><link>a</link><enclosure url='e.mp3' type='audio/mpeg' length='1'/>")))
	}))
	defer server.Close()
	result, err := New(checktest.Client(t, fetch.Options{}), vault()).Check(t.Context(), poller.Request{Config: plain(server.URL + "/old")})
	if err != nil || len(result.Messages) != 1 || !strings.Contains(string(result.Messages[0].Data), server.URL+"/new/a") || !strings.Contains(string(result.Messages[0].Data), server.URL+"/new/e.mp3") {
		t.Errorf("%+v, %v", result, err)
	}
}
