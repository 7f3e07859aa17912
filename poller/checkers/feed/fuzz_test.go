package feed

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"net/http"
	"testing"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/testing/checktest"
)

func FuzzAnswer(f *testing.F) {
	for _, seed := range []string{
		rss(guids("a", "b")...), rss("<title>x</title><pubDate>Sun, 06 Nov 1994 08:49:37 GMT</pubDate>"),
		`<feed xmlns="http://www.w3.org/2005/Atom"><entry><id>1</id></entry></feed>`,
		`{"version":"https://jsonfeed.org/version/1.1","items":[{"id":"1"},null]}`, "<html>", "", "\xef\xbb\xbf{",
	} {
		f.Add([]byte(seed), "")
	}
	f.Add([]byte("<?xml version='1.0' encoding='gbk'?><rss><channel><item><guid>\xd6\xd0</guid></item></channel></rss>"), "text/xml; charset=utf-8")
	f.Add([]byte("<rss><channel><item><guid>\xa4\xa4</guid></item></channel></rss>"), "text/xml; charset=big5")
	f.Fuzz(func(t *testing.T, body []byte, contentType string) {
		read, err := parse(t.Context(), body, contentType, free)
		if err != nil {
			_ = checktest.Failure(t, err) // fails the test if err is no proper failure
			return
		}
		items := read.items
		empty := mustDecode(t, nil)
		first, next := report(items, &empty, poller.Request{Limit: 1 << 20}, validators{})
		cursor, err := next.encode()
		if err != nil || len(first.Messages) != len(items) || first.HasMore {
			t.Fatalf("%d items, %d messages, %v", len(items), len(first.Messages), err)
		}
		for _, m := range first.Messages {
			if raw, err := json.Marshal(m); err != nil || len(raw) > 256<<10 || m.ID == "" || len(m.ID) > maxID {
				t.Errorf("message %q: %d bytes, %v", m.ID, len(raw), err)
			}
		}
		written := mustDecode(t, cursor)
		again, next := report(items, &written, poller.Request{Cursor: cursor, Limit: 1 << 20}, validators{})
		after, err := next.encode()
		if err != nil || len(again.Messages) != 0 || !bytes.Equal(after, cursor) {
			t.Errorf("again: %d messages, %v", len(again.Messages), err)
		}
	})
}

// FuzzGuard compares guard with the parser. What guard accepts, the parser reads within bounds
// and in the same way.
func FuzzGuard(f *testing.F) {
	for _, seed := range []string{
		rss(guids("a", "b")...),
		rss("<title>x</title><pubDate>Sun, 06 Nov 1994 08:49:37 GMT</pubDate>"),
		"<rss \x01version='2.0'>\x01<channel><item><b><b>",
		"<r\x01ss><channel></rss>", "<?xml\x01 version='1.0'?><rss/>", "<rss>\x00</rss>\x01<b><b>",
		"<?xml version='1.0' encoding='windows-1251'?><rss><channel><item><guid>\xcf</guid></item></channel></rss>",
		"<?xml version='1.0' encoding='utf-16'?><\x00r\x00s\x00s\x00/\x00>\x00", "\xff\xfe<\x00r\x00s\x00s\x00/\x00>\x00",
		"<?xml version='1.0' encoding='iso-2022-jp'?><rss>\x1b$B<b\x1b(B</rss>", "<rss><?xml encoding='latin1'?></rss>",
		"<!DOCTYPE rss [<!ENTITY a '<b>'><!-- > --><!ENTITY b \"&a;&a;\">]><rss>&a;&b;&lt;&#60;&#x3c;&nbsp;&amp;lt;</rss>",
		"<rss><channel><item><description><![CDATA[<b>]]>x<![CDATA[]]]]><![CDATA[>]]></description></item></channel></rss>",
		`<rss xmlns:a="x" xmlns:b="x"><channel xmlns:a="y"><item><a:b a:c="d" c e=f g='"'/><b:c><c/>x<c/>y</b:c></item></channel></rss>`,
		`<feed xmlns="http://www.w3.org/2005/Atom" xml:base="http://x/a"><entry xml:base="b"><id>1</id><link href="c"/>
			<content type="html">&lt;a href="d"&gt;</content><summary type="xhtml"><div xmlns="http://www.w3.org/1999/xhtml"><!--><b>--></div></summary></entry></feed>`,
		`<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns="http://purl.org/rss/1.0/"><item><link>a</link></item></rdf:RDF>`,
		"<rss></a></b><item/></rss>", "<rss><channel><item></channel></rss>", "<rss a b=c d>", "<rss/><rss>", "<?xml version='1.1'?><rss/>",
		"<rss><channel><item><guid>1</guid></item><item>a < b</item><item><![CDATA[<item>]]><< </item><item/>", "<feed><entry><id>1</id>&nbsp;</b></entry><entry", "<rss><channel><image><url>< </url><ITEM ><guid>1</guid></ITEM>",
		`{"version":"https://jsonfeed.org/version/1.1","items":[{"id":"1","tags":["a"]},null]}`,
		`{"version":"https://jsonfeed.org/version/1.1","items":[{"id":[[[0]]],"content_html":"\ud800\"]}"}],"items":[{}]}`, "\xef\xbb\xbf{",
	} {
		f.Add([]byte(seed), "")
	}
	f.Add([]byte("<rss>\x1b$B<b\x1b(B</rss>"), "text/xml; charset=iso-2022-jp")
	f.Fuzz(func(t *testing.T, body []byte, contentType string) {
		if isJSON(body) {
			cost, err := guardJSON(body)
			if err == nil {
				within(t, body, 4<<20+32*cost)
			}
			return
		}
		text, _, err := document(bytes.Clone(body), contentType)
		if err != nil {
			return
		}
		strict, _, strictErr := guard(t.Context(), text, true)
		passed, counted, flaw, err := guardOrMend(t.Context(), bytes.Clone(text))
		if err != nil {
			if strictErr == nil {
				t.Errorf("%q passes a strict guard alone: %v", text, err)
			}
			return
		}
		if strictErr == nil {
			lax, _, err := guard(t.Context(), text, false)
			if err != nil || !bytes.Equal(strict, lax) || !bytes.Equal(strict, passed) || flaw.line != 0 {
				t.Errorf("of %q a strict guard reads %q, another %q, %v", text, strict, lax, err)
			}
		} else if flaw.line == 0 {
			t.Errorf("%q is broken, and nobody is told", text)
		}
		if !bytes.Equal(clean(bytes.Clone(passed)), passed) {
			t.Errorf("the parser will drop something of %q", passed)
		}
		decoder := xml.NewDecoder(bytes.NewReader(passed))
		decoder.Strict = false
		var again ledger
		for again.elements == 0 || len(again.open) > 0 {
			token, err := decoder.Token()
			if err != nil {
				t.Fatalf("guard lets %q pass: %v", passed, err)
			}
			if err := again.enter(token, int(decoder.InputOffset())); err != nil {
				t.Fatalf("of %q more is read than guard did: %v", passed, err)
			}
		}
		if again.tokens != counted.tokens || again.elements != counted.elements || decoder.InputOffset() != int64(len(passed)) {
			t.Errorf("of %q guard read %d tokens, another reads %d", passed, counted.tokens, again.tokens)
		}
		bound := textCost*int64(len(passed)) + counted.cost()
		items := within(t, passed, 4<<20+32*bound+200*counted.scopeCost+2*counted.joined+8<<10*int64(counted.dates))
		if items > counted.listed {
			t.Errorf("of %q guard counted %d items, the parser gives %d", passed, counted.listed, items)
		}
	})
}

// within parses what guard accepted, and returns the number of items.
func within(t *testing.T, body []byte, most int64) (items int) {
	t.Helper()
	cost := allocated(func() {
		parsed, _, err := gofeedParse(&source{ctx: t.Context(), text: body})
		if err == nil {
			items = len(parsed.Items)
		}
	})
	if cost > most {
		t.Errorf("%.200q costs %d bytes, over %d", body, cost, most)
	}
	return items
}

func FuzzCursor(f *testing.F) {
	f.Add([]byte(nil))
	f.Add([]byte(`{"v":1,"url":"x","etag":"\"1\"","seen":"AAAAAAAAAAA="}`))
	f.Add([]byte(`{"v":2}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		c, err := decodeCursor(raw)
		if err != nil {
			return
		}
		once, err := c.encode()
		if err != nil {
			t.Fatal(err)
		}
		c = mustDecode(t, once)
		if twice, err := c.encode(); err != nil || string(once) != string(twice) {
			t.Errorf("%s became %s, %v", once, twice, err)
		}
	})
}

func mustDecode(t *testing.T, raw []byte) cursor {
	t.Helper()
	c, err := decodeCursor(raw)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestValidatorsThatNoRequestCanCarryAreDropped(t *testing.T) {
	for value, kept := range map[string]bool{`W/"a"`: true, "a\nb": false, "ä": false, string(make([]byte, maxValidator+1)): false} {
		got := newValidators("u", http.Header{"Etag": {value}})
		if (got.etag == value) != kept {
			t.Errorf("%q: got %q", value, got.etag)
		}
	}
}
