package feed

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/poller/secrets"
	"github.com/rounds-dev/rounds/testing/checktest"
)

func check(t *testing.T, s *site, cursor []byte, limit int) poller.Result {
	t.Helper()
	checker := New(checktest.Client(t, fetch.Options{}), secrets.Source{})
	result, err := checker.Check(t.Context(), poller.Request{Config: plain(s.url), Cursor: cursor, Limit: limit})
	if err != nil {
		t.Fatal(err)
	}
	return result
}

func want(t *testing.T, result poller.Result, more bool, expected ...string) {
	t.Helper()
	if got := ids(result.Messages); !slices.Equal(got, expected) || result.HasMore != more {
		t.Errorf("got %v, more %t; want %v, more %t", got, result.HasMore, expected, more)
	}
}

// Validators are stored only when all items are reported. Otherwise a 304 would hide the rest.
func TestPagesWithValidators(t *testing.T) {
	s := newSite(t)
	s.etag, s.modified = `"1"`, "Sun, 06 Nov 1994 08:49:37 GMT"
	s.body = rss(guids("e", "d", "c", "b", "a")...)

	first := check(t, s, nil, 2)
	want(t, first, true, "a", "b")
	second := check(t, s, first.Cursor, 2)
	want(t, second, true, "c", "d")
	if s.seen.Get("If-None-Match") != "" {
		t.Error("validators were sent before all was reported")
	}
	third := check(t, s, second.Cursor, 2)
	want(t, third, false, "e")
	fourth := check(t, s, third.Cursor, 2)
	want(t, fourth, false)
	if s.seen.Get("If-None-Match") != s.etag || s.seen.Get("If-Modified-Since") != s.modified || fourth.Cursor != nil {
		t.Errorf("sent %v, cursor %s", s.seen, fourth.Cursor)
	}

	s.etag, s.body = `"2"`, rss(guids("f", "e", "d")...)
	fifth := check(t, s, third.Cursor, 2)
	want(t, fifth, false, "f")
	s.etag, s.body = `"3"`, rss(guids("f", "e", "d", "c", "b", "a")...)
	want(t, check(t, s, fifth.Cursor, 2), false)
}

func TestUnchangedFeedLeavesTheCursor(t *testing.T) {
	s := newSite(t)
	s.body = rss(guids("a")...)
	first := check(t, s, nil, 10)
	if second := check(t, s, first.Cursor, 10); second.Cursor != nil {
		t.Errorf("got %s", second.Cursor)
	}
}

// Validators belong to one URL. Items that were seen stay known when the URL changes.
func TestMovedFeed(t *testing.T) {
	old, moved := newSite(t), newSite(t)
	old.etag, moved.etag = `"1"`, `"1"`
	old.body, moved.body = rss(guids("a")...), rss(guids("b", "a")...)
	first := check(t, old, nil, 10)
	want(t, check(t, moved, first.Cursor, 10), false, "b")
	if moved.seen.Get("If-None-Match") != "" {
		t.Error("another URL got the validators")
	}
}

func TestUnasked304(t *testing.T) {
	s := newSite(t)
	s.etag = `"1"`
	checker := New(checktest.Client(t, fetch.Options{}), secrets.Source{})
	cursor := `{"v":1,"url":"` + urlDigest(s.url) + `","etag":"\"1\""}`
	if _, err := checker.Check(t.Context(), poller.Request{Config: plain(s.url), Cursor: []byte(cursor)}); err != nil {
		t.Errorf("asked: %v", err)
	}
	err := statusError(&fetch.Response{Status: 304}, false)
	if err.Kind != poller.Protocol {
		t.Errorf("unasked: got %v", err)
	}
}

func TestOrder(t *testing.T) {
	s := newSite(t)
	item := func(id, day string) string {
		return "<guid>" + id + "</guid><pubDate>" + day + " Nov 1994 08:49:37 GMT</pubDate>"
	}
	s.body = rss(item("b", "06"), item("d", "08"), item("c", "06"), item("a", "05"))
	want(t, check(t, s, nil, 10), false, "a", "c", "b", "d")
	s.body = rss(item("b", "06"), item("d", "08"), "<guid>c</guid>", item("a", "05"))
	want(t, check(t, s, nil, 10), false, "a", "c", "d", "b")
}

func TestItemsThatDepartAreKnownForAWhile(t *testing.T) {
	s := newSite(t)
	var cursor []byte
	for n := range 3 * minDeparted {
		s.body = rss(guids(fmt.Sprint(n))...)
		cursor = check(t, s, cursor, 10).Cursor
	}
	if len(cursor) > 4<<10 {
		t.Errorf("the cursor has %d bytes", len(cursor))
	}
	s.body = rss(guids(fmt.Sprint(2*minDeparted+1), "0")...)
	want(t, check(t, s, cursor, 10), false, "0")
}

// Of a feed of 5,000 items the newest 2,000 are reported, none of them twice. The cursor stays
// small.
func TestLargeFeed(t *testing.T) {
	s := newSite(t)
	dated := func(first, last int) string {
		var items []string
		start := time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)
		for n := last; n >= first; n-- {
			items = append(items, fmt.Sprintf("<guid>%d</guid><pubDate>%s</pubDate>", n, start.Add(time.Duration(n)*time.Minute).Format(time.RFC1123Z)))
		}
		return rss(items...)
	}
	s.body = dated(1, 5000)
	var cursor []byte
	next := 3001
	for more := true; more; {
		result := check(t, s, cursor, 700)
		for _, id := range ids(result.Messages) {
			if id != fmt.Sprint(next) {
				t.Fatalf("got %s, want %d", id, next)
			}
			next++
		}
		cursor, more = result.Cursor, result.HasMore
	}
	if next != 5001 {
		t.Errorf("ended before %d", next)
	}
	s.body = dated(1, 6500)
	result := check(t, s, cursor, 2000)
	if len(result.Messages) != 1500 || result.Messages[0].ID != "5001" {
		t.Errorf("got %d", len(result.Messages))
	}
	if len(result.Cursor) > 34<<10 {
		t.Errorf("the cursor has %d bytes", len(result.Cursor))
	}
	// The newest items disappear. Items that were reported and then left the window are still
	// known.
	s.body = dated(1, 6000)
	want(t, check(t, s, result.Cursor, 2000), false)
}

func TestLargeFeedWithoutDates(t *testing.T) {
	_, err := parse(t.Context(), []byte(rss(guids(strings.Split(strings.Repeat("x ", 1)+strings.Join(numbers(maxItems+1), " "), " ")...)...)), "", free)
	if got := checktest.Failure(t, err); got.Code != "too_many_items" {
		t.Errorf("got %v", got)
	}
}

func numbers(n int) (texts []string) {
	for i := range n {
		texts = append(texts, fmt.Sprint(i))
	}
	return texts
}

func TestStatusScopes(t *testing.T) {
	for status, want := range map[int]struct {
		kind  poller.ErrorKind
		scope poller.ErrorScope
	}{
		401: {poller.AuthFailed, poller.ScopeAccount},
		403: {poller.Transient, poller.ScopeAccount},
		404: {poller.Transient, poller.ScopeAccount},
		410: {poller.Gone, poller.ScopeAccount},
		429: {poller.RateLimited, poller.ScopeRateKey},
		500: {poller.Transient, poller.ScopeAccount},
		503: {poller.Transient, poller.ScopeRateKey},
		999: {poller.Transient, poller.ScopeAccount},
	} {
		if got := statusError(&fetch.Response{Status: status}, false); got.Kind != want.kind || got.Scope != want.scope {
			t.Errorf("%d: got %v, scope %s", status, got, got.Scope)
		}
	}
}

func TestConfig(t *testing.T) {
	c := New(fetch.New(fetch.Options{}), secrets.Source{})
	if c.Kind() != "feed" {
		t.Errorf("kind %q", c.Kind())
	}
	for config, want := range map[string]string{
		`{"url": "https://example.com/feed"}`: "",
		`{}`:                                  "config.url: missing",
		``:                                    "config.url: missing",
		`{"url": null}`:                       "config.url: missing",
		`{"url": 7}`:                          "config.url: must be a string",
		`{"url": "ftp://example.com"}`:        "config.url: must begin with https:// or http://",
		`{"uri": "https://example.com"}`:      "config.url: missing\nconfig.uri: unknown field; the fields are url, login, headers, pace and push",
		`{"url": "https://example.com", "x": "s3"}`: "config.x: unknown field; the fields are url, login, headers, pace and push",
	} {
		err := c.Validate(json.RawMessage(config))
		if want == "" && err != nil || want != "" && (err == nil || err.Error() != want) {
			t.Errorf("%s: got %v, want %s", config, err, want)
		}
	}
	if !c.LimitsByDefault("example.com") || c.LimitsByDefault("10.1.2.3:8080") {
		t.Error("the default limit is for public hosts")
	}
	if got := c.RateKey(json.RawMessage(`{"url": "https://Example.com/feed?x"}`)); got != "example.com" {
		t.Errorf("rate key %q", got)
	}
	if !c.LimitsByDefault("example.com") || c.LimitsByDefault("10.1.2.3:8080") {
		t.Error("the default limit is for public hosts")
	}
	if got := c.RateKey(json.RawMessage(`{`)); got != "" {
		t.Errorf("rate key %q", got)
	}
}

func TestTheFieldsAreThoseOfValidate(t *testing.T) {
	checktest.Declared(t, New(checktest.Client(t, fetch.Options{}), secrets.Source{}), ".", "../../fetch")
}
