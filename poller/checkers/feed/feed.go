// Package feed checks RSS, Atom and JSON feeds: the kind "feed".
//
// The config has
//
//	url      where the feed is; required
//	login    {"user": "…", "password": {"secret": "NAME"}}, for basic authentication
//	headers  name → text, or {"secret": "NAME"}; what looks like a credential must be
//	         the latter
//	pace     "feed", the default: not more often than the feed asks for; or "account": at
//	         the account's cadence alone
//	push     "auto", the default: if the feed names a hub, it announces what is new; or "off"
//
// Login and headers are only for the URL's own scheme, host and port. If the feed
// redirects elsewhere, they are not sent there.
//
// A message is an item of the feed. Its id is the item's GUID, else its link,
// else, in RDF, its rdf:about, else a digest of its title, date and content. Ids over 256 bytes are replaced by
// their digest. An item that changes under the same id is not reported again. Of
// two items with the same id only the first counts. The first check reports all
// items that the feed shows.
//
// The cursor remembers what the feed shows and some of what it showed before, so that
// an item that disappears and reappears is reported once; see cursor. If a feed has
// more than 2,000 items and all have a date, the newest 2,000 are read, and the others
// are never reported. Without dates nobody knows which are the newest, and the check
// fails with the code too_many_items. So does a feed of more than 10,000 items.
//
// A feed is judged before the parser reads it. A feed that would cost far more memory
// or time than its length suggests is refused as not_a_feed. Nothing after the end of
// its root is read. HTML is resolved against xml:base within limits.
//
// Addresses are resolved against xml:base, or else against the address that answered; ids stay as
// the feed has them. If an item has no link, its GUID is its link if that is a permanent link.
//
// The encoding is what a byte order mark says, else the answer's Content-Type, else the
// declaration. But text beyond ASCII that is valid UTF-8 is read as UTF-8, whatever is declared.
// Bytes and characters that XML does not allow are replaced or left out, with the warning
// malformed.
//
// A feed that is not well-formed XML is read as far as possible. A check that finds
// items succeeds, with the warning malformed. Unreadable parts are dropped, each from
// the error to the next item. A feed with permanent redirects gets the warning moved.
// It is still fetched from its old address until its record changes.
//
// If there are more new items than the request asks for, the oldest come first, and the
// feed is fetched again for the rest. ETag and Last-Modified are stored only when
// nothing is left, because a 304 would hide the rest.
//
// A feed asks for a pause by Cache-Control's max-age or Expires (RFC 9111), by RSS's ttl, and by
// sy:updatePeriod with sy:updateFrequency. The longest counts, up to a day, from a check that has
// read all. Requests of people, such as a nudge, do not wait for it.
//
// If a feed names a hub and itself, by Link fields, by Atom's links in Atom and RSS, or by JSON Feed's
// hubs and feed_url, the account subscribes there, and the hub's pushes ask for checks. See package websub.
//
// An item's files are its enclosures: RSS's, Atom's links and JSON Feed's attachments, and the content
// of Media RSS. Login and headers are sent for a file only if it is at the feed's own scheme, host and
// port.
package feed

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"

	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/poller/secrets"
	"github.com/rounds-dev/rounds/poller/websub"
)

const (
	maxBody      = 8 << 20
	maxRedirects = 5
	defaultLimit = 200 // messages, for a request without a limit
	accept       = "application/atom+xml, application/rss+xml, application/feed+json, " +
		"application/xml;q=0.9, text/xml;q=0.9, application/json;q=0.8, */*;q=0.5"
)

// Checker checks feeds. It is safe for concurrent use.
type Checker struct {
	*form
	client  *fetch.Client
	secrets secrets.Source
	hubs    *websub.Client // nil: feeds are only polled
}

var (
	_ poller.Checker          = (*Checker)(nil)
	_ poller.SelectiveLimiter = (*Checker)(nil)
)

// New returns a checker that fetches through client and finds the configs' secrets in
// secrets.
func New(client *fetch.Client, secrets secrets.Source) *Checker {
	return &Checker{form: newForm(client), client: client, secrets: secrets}
}

// Kind is the kind's name in records.
const Kind = "feed"

// Kind is "feed".
func (*Checker) Kind() string { return Kind }

// DefaultLimit is a limit that no host notices.
func (*Checker) DefaultLimit() string { return "rate=2/s burst=2 concurrency=2" }

// LimitsByDefault reports whether a host is one of the public internet. The operator's own hosts can
// take as much as the operator wants.
func (c *Checker) LimitsByDefault(host string) bool { return c.client.PublicHost(host) }

// RateKey returns the host of the feed's URL.
func (c *Checker) RateKey(raw json.RawMessage) string {
	config, _ := c.form.Read(raw)
	return fetch.Host(config.url)
}

// Check fetches the feed and reports the items that the cursor does not know,
// oldest first. All its errors are *poller.CheckError.
func (c *Checker) Check(ctx context.Context, r poller.Request) (poller.Result, error) {
	config, err := c.form.Read(r.Config)
	if err != nil {
		return poller.Result{}, poller.ConfigError(err)
	}
	known, err := decodeCursor(r.Cursor)
	if err != nil {
		return poller.Result{}, poller.CursorError(err)
	}
	use := secrets.ForURL(Kind, config.url)
	header, sent, err := config.headers.Resolve(ctx, c.secrets, use)
	if err != nil {
		return poller.Result{}, secrets.CheckError(err)
	}
	header.Set("Accept", accept)
	call := fetch.Call{URL: config.url, MaxBody: maxBody, MaxRedirects: maxRedirects, Header: header, Confined: len(sent) > 0 && use.Open()}
	conditional := known.condition(config.url, call.Header)
	answer, err := c.client.Do(ctx, call)
	if err != nil {
		return poller.Result{}, fetch.CheckError(err)
	}
	var result poller.Result
	pause := known.pause // that the document asks for
	next := &known
	hub := c.hubs.Listen(r.Account, known.push, r.Hint, r.Trial)
	if config.push == pushOff {
		hub.Leave()
	}
	switch {
	case answer.Status == http.StatusNotModified && conditional:
		result.Warnings = known.flaw.warnings()
	case answer.Status == http.StatusNoContent:
		// Nothing is new, and nothing shows that a new address has the feed.
		answer.Moved, answer.Header, pause = "", nil, 0
	case answer.Status < 200 || answer.Status > 299:
		return poller.Result{}, statusError(answer, config.headers.Any())
	default:
		read, err := parse(ctx, answer.Body, answer.Header.Get("Content-Type"), c.client.Reserve)
		if err != nil {
			return poller.Result{}, err
		}
		read.setBase(answer.URL)
		found := newValidators(config.url, answer.Header)
		if read.flaw.lossy {
			found = validators{} // a 304 would hide that the feed is broken
		}
		found.flaw, found.pause = read.flaw, read.pause
		pause = read.pause
		hub.Read(websub.LinksOf(answer.Header).Or(read.hubs), config.url, answer.URL)
		result, next = report(read.items, &known, r, found)
		result.Warnings = read.flaw.warnings()
	}
	push, planned := hub.End(ctx, len(result.Messages) > 0)
	result.HasMore = result.HasMore || planned
	if next.push = push; next != &known || hub.Changed() {
		text, err := next.encode()
		if err != nil {
			return poller.Result{}, &poller.CheckError{Kind: poller.Protocol, Code: "cursor", Message: "the cursor cannot be written", Err: err}
		}
		if string(text) != string(r.Cursor) {
			result.Cursor = text
		}
	}
	if config.pace == paceFeed && !result.HasMore {
		result.NextPollAfter = max(pauseOf(answer.Header, pause), hub.Rest())
	}
	config.moves(answer.Moved, &result)
	return result, nil
}

// report finds the new items of a feed. It returns the cursor after them.
func report(items []item, known *cursor, r poller.Request, found validators) (result poller.Result, next *cursor) {
	limit := cmp.Or(max(r.Limit, 0), defaultLimit)
	var present []digest // in the feed and reported
	for _, item := range items {
		key := digestOf(item.id)
		if !known.has(key) {
			if len(result.Messages) == limit {
				result.HasMore = true
				break
			}
			result.Messages = append(result.Messages, item.message())
		}
		present = append(present, key)
	}
	if result.HasMore {
		found = validators{flaw: found.flaw, pause: found.pause}
	}
	return result, known.next(present, items, found)
}

// config is a record's parsed config.
type config struct {
	url     string
	headers fetch.Headers
	pace    string
	push    string
}

// form reads configs.
type form = strict.Form[config]

func newForm(client *fetch.Client) *form {
	headers := func(c *config) *fetch.Headers { return &c.headers }
	return strict.NewForm([]strict.Entry[config]{
		{
			Field: strict.Field{
				Name: "url", Type: strict.URL, Required: true, Example: "https://example.com/feed.xml",
				Label: strict.Words{EN: "Address", ZH: "地址"},
				Help:  strict.Words{EN: "Where the feed is: RSS, Atom or JSON Feed.", ZH: "订阅源的地址：RSS、Atom 或 JSON Feed。"},
			},
			Read: func(v strict.Value, c *config) { c.url = client.ReadURL(v) },
		},
		fetch.LoginEntry(headers), fetch.HeadersEntry(headers, "If-None-Match", "If-Modified-Since"),
		{
			Field: strict.Field{
				Name: "pace", Type: strict.Choice, Example: paceFeed, Default: paceFeed,
				Label: strict.Words{EN: "Pace", ZH: "节奏"},
				Help:  strict.Words{EN: "Whether the feed is fetched more often than it asks for.", ZH: "是否可以比订阅源所要求的更频繁地获取。"},
				Choices: []strict.Option{
					{Value: paceFeed, Label: strict.Words{EN: "The feed's: not more often than it asks for", ZH: "订阅源的节奏：不比它要求的更频繁"}},
					{Value: paceAccount, Label: strict.Words{EN: "The account's: at its own cadence alone", ZH: "账号的节奏：只按自己的频率"}},
				},
			},
			Read: func(v strict.Value, c *config) {
				c.pace = v.Matching(func(whose string) bool { return whose == paceFeed || whose == paceAccount }, "must be feed or account")
			},
		},
		pushEntry,
	})
}
