package feed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/mmcdole/gofeed"
	gofeedatom "github.com/mmcdole/gofeed/atom"
	gofeedrss "github.com/mmcdole/gofeed/rss"

	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/poller/websub"
)

// maxItems is the most items of a feed that are read.
const maxItems = 2000

var (
	errNotJSONFeed = errors.New("feed: a JSON object, but no JSON Feed")
	errPanic       = errors.New("feed: the parser panicked")
)

// A reserver waits for memory and returns the function that frees it; see
// fetch.Client.Reserve.
type reserver func(ctx context.Context, bytes int64) (func(), error)

// feedRead is a parsed feed.
type feedRead struct {
	items []item // oldest first, each once
	flaw  flaw
	pause time.Duration // for which it asks; zero: for none
	hubs  websub.Links
}

// setBase sets the address against which relative ones are resolved.
func (f *feedRead) setBase(address string) {
	base, err := url.Parse(address)
	if err != nil || !base.IsAbs() {
		return
	}
	for i := range f.items {
		f.items[i].base = base
	}
}

// parse reads a feed. The error is a *poller.CheckError; no input makes it panic. The
// body is overwritten.
func parse(ctx context.Context, body []byte, contentType string, reserve reserver) (feedRead, error) {
	page := looksLikePage(body)
	found, err := read(ctx, body, contentType, reserve)
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

func read(ctx context.Context, body []byte, contentType string, reserve reserver) (feedRead, error) {
	judged, err := judge(ctx, body, contentType, reserve)
	if err != nil {
		return feedRead{}, err
	}
	release, err := reserve(ctx, judged.cost)
	if err != nil {
		return feedRead{}, err
	}
	defer release()
	parsed, told, err := gofeedParse(&source{ctx: ctx, text: judged.text})
	if err != nil {
		return feedRead{}, err
	}
	if parsed.FeedType == "json" && bytes.Contains(judged.text, []byte(`"hubs"`)) {
		told.hubs = jsonHubs(judged.text)
	}
	items := itemsOf(parsed, judged.abouts)
	if judged.flaw.lossy && len(items) == 0 {
		return feedRead{}, errXML // the charset delivers nothing
	}
	if len(items) > maxItems {
		if !allDated(items) {
			return feedRead{}, errListed
		}
		items = items[len(items)-maxItems:]
	}
	return feedRead{items, judged.flaw, min(max(told.ttl, updatesOf(parsed)), mostPause), told.hubs}, nil
}

// judgement is the text for the parser, and what parsing it will cost.
type judgement struct {
	text []byte
	cost int64
	flaw flaw

	abouts []string // see ledger
}

// judge judges an answer before the parser sees it.
func judge(ctx context.Context, body []byte, contentType string, reserve reserver) (judgement, error) {
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
	text, line, err := document(body, contentType)
	if err != nil {
		return judgement{}, err
	}
	text, counted, flaw, err := guardOrMend(ctx, text)
	if err != nil {
		return judgement{}, err
	}
	if flaw.line == 0 {
		flaw.line = line
	}
	return judgement{text, textCost*int64(len(text)) + counted.cost(), flaw, counted.abouts}, nil
}

// gofeedParse turns the parser's panics into errors, because it reads input from
// strangers. It also returns what the parser's feed has no fields for.
func gofeedParse(from io.Reader) (parsed *gofeed.Feed, also told, err error) {
	defer func() {
		if recover() != nil {
			parsed, err = nil, errPanic
		}
	}()
	parser := gofeed.NewParser()
	// Items' pictures are not used, so the parser need not search the HTML for them.
	parser.RSSTranslator = &translator{DefaultRSSTranslator: gofeed.DefaultRSSTranslator{DisableContentImageScan: true}, told: &also}
	parser.AtomTranslator = &atomTranslator{told: &also}
	parsed, err = parser.Parse(from)
	if err != nil {
		return nil, told{}, errUnreadable // its text quotes the answer
	}
	// The parser accepts any JSON object as an empty JSON Feed, even an API's error.
	if parsed.FeedType == "json" && !strings.Contains(parsed.FeedVersion, "jsonfeed.org") && len(parsed.Items) == 0 {
		return nil, told{}, errNotJSONFeed
	}
	return parsed, also, nil
}

// told is what a document says besides its items.
type told struct {
	ttl  time.Duration // of RSS
	hubs websub.Links
}

// atomTranslator keeps the feed's hub.
type atomTranslator struct {
	gofeed.DefaultAtomTranslator
	told *told
}

// Translate implements gofeed.Translator.
func (t *atomTranslator) Translate(feed any) (*gofeed.Feed, error) {
	if read, ok := feed.(*gofeedatom.Feed); ok {
		for _, link := range read.Links {
			t.told.hubs.Add(link.Rel, link.Href)
		}
	}
	return t.DefaultAtomTranslator.Translate(feed)
}

// translator uses a guid that is a permanent link as the link of an item that has none, and keeps the
// channel's ttl and hub.
type translator struct {
	gofeed.DefaultRSSTranslator
	told *told
}

// Translate implements gofeed.Translator.
func (t *translator) Translate(feed any) (*gofeed.Feed, error) {
	translated, err := t.DefaultRSSTranslator.Translate(feed)
	read, ok := feed.(*gofeedrss.Feed)
	if err != nil || !ok {
		return translated, err
	}
	t.told.ttl = ttlOf(read)
	for _, link := range read.Extensions["atom"]["link"] {
		t.told.hubs.Add(link.Attrs["rel"], link.Attrs["href"])
	}
	if len(read.Items) != len(translated.Items) {
		return translated, nil
	}
	for i, item := range translated.Items {
		guid := read.Items[i].GUID
		if guid == nil || item.Link != "" || strings.EqualFold(guid.IsPermalink, "false") {
			continue
		}
		address, err := url.Parse(strings.TrimSpace(guid.Value))
		if err == nil && (address.Scheme == "http" || address.Scheme == "https") && address.Host != "" {
			item.Link = strings.TrimSpace(guid.Value)
		}
	}
	return translated, nil
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

// looksLikePage reports the most frequent mistake: the address of a page and not of its
// feed.
func looksLikePage(body []byte) bool {
	start := strings.ToLower(string(bytes.TrimLeft(body[:min(len(body), 1024)], "\xef\xbb\xbf \t\r\n")))
	return strings.HasPrefix(start, "<!doctype html") || strings.Contains(start, "<html")
}

var errUnreadable = errors.New("feed: unreadable")

// itemsOf returns a feed's items in order: by date if all have one, else from the end of the
// document, because feeds put the newest first. abouts are RDF's identifiers, for items that have
// no others.
func itemsOf(parsed *gofeed.Feed, abouts []string) []item {
	items := make([]item, 0, len(parsed.Items))
	seen := make(map[string]struct{}, len(parsed.Items))
	for i, source := range parsed.Items {
		if source == nil {
			continue
		}
		if len(abouts) == len(parsed.Items) && strings.TrimSpace(source.GUID+source.Link) == "" {
			source.GUID = abouts[i]
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
