package feed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/mmcdole/gofeed"

	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/fetch"
)

// maxItems is how many items of a feed are read.
const maxItems = 2000

var (
	errNotJSONFeed = errors.New("feed: a JSON object, but no JSON Feed")
	errPanic       = errors.New("feed: the parser panicked")
)

// A reserver waits for memory and returns the function that releases it; see
// fetch.Reserve.
type reserver func(ctx context.Context, bytes int64) (func(), error)

// feedRead is a parsed feed.
type feedRead struct {
	items []item // oldest first, each once
	flaw  flaw
}

// parse reads a feed. The error is a *poller.CheckError; no input makes it panic. The
// body is overwritten.
func parse(ctx context.Context, body []byte, reserve reserver) (feedRead, error) {
	page := looksLikePage(body)
	found, err := read(ctx, body, reserve)
	var unread *fetch.Error
	switch {
	case err == nil:
		return found, nil
	case ctx.Err() != nil:
		return feedRead{}, fetch.CheckError(fetch.Late(ctx))
	case errors.As(err, &unread):
		return feedRead{}, fetch.CheckError(unread)
	case page:
		return feedRead{}, &poller.CheckError{
			Kind: poller.Protocol, Code: "html", Err: err,
			Message: "the address answers an HTML page, not a feed: use the address of the page's feed",
		}
	}
	return feedRead{}, notAFeed(err)
}

func read(ctx context.Context, body []byte, reserve reserver) (feedRead, error) {
	judged, err := judge(ctx, body, reserve)
	if err != nil {
		return feedRead{}, err
	}
	release, err := reserve(ctx, judged.cost)
	if err != nil {
		return feedRead{}, err
	}
	defer release()
	parsed, err := gofeedParse(&source{ctx: ctx, text: judged.text})
	if err != nil {
		return feedRead{}, err
	}
	items := itemsOf(parsed)
	if judged.flaw.lossy && len(items) == 0 {
		return feedRead{}, errXML // it does not deliver anything
	}
	if len(items) > maxItems {
		if !allDated(items) {
			return feedRead{}, errListed
		}
		items = items[len(items)-maxItems:]
	}
	return feedRead{items, judged.flaw}, nil
}

// judgement is the text for the parser, and what parsing it will cost.
type judgement struct {
	text []byte
	cost int64
	flaw flaw
}

// judge judges an answer before the parser sees it.
func judge(ctx context.Context, body []byte, reserve reserver) (judgement, error) {
	if isJSON(body) {
		cost, err := guardJSON(body)
		return judgement{text: body, cost: cost}, err
	}
	// Several copies of the longest text are in memory at once.
	release, err := reserve(ctx, 4*int64(len(body)))
	if err != nil {
		return judgement{}, err
	}
	defer release()
	text, err := document(body)
	if err != nil {
		return judgement{}, err
	}
	if isJSON(text) {
		return judgement{}, errXML // JSON after a control byte, which was judged as XML
	}
	text, counted, flaw, err := guardOrMend(ctx, text)
	if err != nil {
		return judgement{}, err
	}
	return judgement{text, textCost*int64(len(text)) + counted.cost(), flaw}, nil
}

// gofeedParse turns the parser's panics into errors, because it reads input from
// strangers.
func gofeedParse(from io.Reader) (parsed *gofeed.Feed, err error) {
	defer func() {
		if recover() != nil {
			parsed, err = nil, errPanic
		}
	}()
	parser := gofeed.NewParser()
	// Items' pictures are not used, so the parser need not search the HTML for them.
	parser.RSSTranslator = &gofeed.DefaultRSSTranslator{DisableContentImageScan: true}
	parsed, err = parser.Parse(from)
	if err != nil {
		return nil, errUnreadable // its text quotes the answer
	}
	// The parser accepts any JSON object as an empty JSON Feed, even an API's error.
	if parsed.FeedType == "json" && !strings.Contains(parsed.FeedVersion, "jsonfeed.org") && len(parsed.Items) == 0 {
		return nil, errNotJSONFeed
	}
	return parsed, nil
}

// notAFeed returns the error that says why an answer cannot be read.
func notAFeed(err error) *poller.CheckError {
	e := &poller.CheckError{
		Kind: poller.Protocol, Code: "not_a_feed",
		Message: "the answer is not an RSS, Atom or JSON feed, or it is broken", Err: err,
	}
	var over *strict.LimitError
	switch {
	case errors.Is(err, errListed):
		e.Code, e.Message = "too_many_items", fmt.Sprintf("the feed has more than %d items, or more than %d and not all have a date, so the newest are unknown", maxListed, maxItems)
	case errors.As(err, &over), slices.Contains(insane, err):
		e.Message = "the feed is refused: " + err.Error()
	}
	return e
}

// insane are the errors that the check's message quotes.
var insane = []error{
	errDepth, errElements, errAttributes, errDates, errNamespaces, errText, errBase, errMarkup, errDeclared, errGrowth,
}

// looksLikePage reports the most frequent mistake: the address of a page instead of
// its feed.
func looksLikePage(body []byte) bool {
	start := strings.ToLower(string(bytes.TrimLeft(body[:min(len(body), 1024)], "\xef\xbb\xbf \t\r\n")))
	return strings.HasPrefix(start, "<!doctype html") || strings.Contains(start, "<html")
}

var errUnreadable = errors.New("feed: unreadable")

// itemsOf returns a feed's items in order: by date if all have one, else from the
// document's end, because feeds put the newest first.
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
