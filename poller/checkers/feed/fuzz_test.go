package feed

import (
	"encoding/json"
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
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		items, err := parse(body)
		if err != nil {
			checktest.Failure(t, err)
			return
		}
		first, err := report(items, mustDecode(t, nil), poller.Request{Limit: 1 << 20}, validators{})
		if err != nil || len(first.Messages) != len(items) || first.HasMore {
			t.Fatalf("%d items, %d messages, %v", len(items), len(first.Messages), err)
		}
		for _, m := range first.Messages {
			if raw, err := json.Marshal(m); err != nil || len(raw) > 256<<10 || m.ID == "" || len(m.ID) > maxID {
				t.Errorf("message %q: %d bytes, %v", m.ID, len(raw), err)
			}
		}
		again, err := report(items, mustDecode(t, first.Cursor), poller.Request{Cursor: first.Cursor, Limit: 1 << 20}, validators{})
		if err != nil || len(again.Messages) != 0 || again.Cursor != nil {
			t.Errorf("again: %d messages, %v", len(again.Messages), err)
		}
	})
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
