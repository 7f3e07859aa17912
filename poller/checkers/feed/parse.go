package feed

import (
	"bytes"
	"errors"
	"slices"
	"strings"

	"github.com/mmcdole/gofeed"

	"github.com/rounds-dev/rounds/poller"
)

// maxItems is how many items of a feed are looked at.
const maxItems = 2000

var (
	errNotJSONFeed = errors.New("feed: a JSON object, but no JSON Feed")
	errPanic       = errors.New("feed: the parser panicked")
)

// parse reads a feed and gives its items, oldest first and each once. The error
// is a *poller.CheckError; no input makes it panic.
func parse(body []byte) ([]item, error) {
	if err := guard(body); err != nil {
		return nil, &poller.CheckError{Kind: poller.Protocol, Code: "not_a_feed", Message: "the answer is not a sane feed: " + err.Error(), Err: err}
	}
	parsed, err := gofeedParse(body)
	if err != nil {
		return nil, notAFeed(body, err)
	}
	items := itemsOf(parsed)
	if len(items) > maxItems {
		if !allDated(items) {
			return nil, &poller.CheckError{
				Kind: poller.Protocol, Code: "too_many_items",
				Message: "the feed has more than 2000 items and not all have a date, so that nobody can tell the newest",
			}
		}
		items = items[len(items)-maxItems:]
	}
	return items, nil
}

// gofeedParse keeps the parser's panics in: it reads what strangers write.
func gofeedParse(body []byte) (parsed *gofeed.Feed, err error) {
	defer func() {
		if recover() != nil {
			parsed, err = nil, errPanic
		}
	}()
	parsed, err = gofeed.NewParser().Parse(bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	// Any JSON object passes for an empty JSON Feed, an API's error too.
	if parsed.FeedType == "json" && !strings.Contains(parsed.FeedVersion, "jsonfeed.org") && len(parsed.Items) == 0 {
		return nil, errNotJSONFeed
	}
	return parsed, nil
}

// notAFeed tells people what they got, for the most frequent mistake is the
// address of a page in place of its feed's. The parser's own text stays out: it
// quotes the answer.
func notAFeed(body []byte, err error) *poller.CheckError {
	e := &poller.CheckError{
		Kind: poller.Protocol, Code: "not_a_feed",
		Message: "the answer is no RSS, Atom or JSON Feed, or a broken one", Err: errUnreadable,
	}
	if errors.Is(err, errPanic) || errors.Is(err, errNotJSONFeed) {
		e.Err = err
	}
	start := strings.ToLower(string(bytes.TrimLeft(body[:min(len(body), 1024)], "\xef\xbb\xbf \t\r\n")))
	if strings.HasPrefix(start, "<!doctype html") || strings.Contains(start, "<html") {
		e.Code, e.Message = "html", "the address answers an HTML page, not a feed: use the address of the page's feed"
	}
	return e
}

var errUnreadable = errors.New("feed: unreadable")

// itemsOf orders a feed's items: by their dates if all have one, else from the
// document's end, for feeds put the newest first.
func itemsOf(parsed *gofeed.Feed) []item {
	items := make([]item, 0, len(parsed.Items))
	seen := make(map[string]struct{}, len(parsed.Items))
	for _, source := range parsed.Items {
		if source == nil {
			continue
		}
		id := identify(source)
		if _, twice := seen[id]; twice {
			continue
		}
		seen[id] = struct{}{}
		items = append(items, item{id: id, source: source})
	}
	slices.Reverse(items)
	if allDated(items) {
		slices.SortStableFunc(items, func(a, b item) int { return a.source.PublishedParsed.Compare(*b.source.PublishedParsed) })
	}
	return items
}

func allDated(items []item) bool {
	return !slices.ContainsFunc(items, func(i item) bool { return i.source.PublishedParsed == nil })
}
