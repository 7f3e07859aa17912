// Package feed checks RSS, Atom and JSON feeds: the kind "feed".
//
// The config has
//
//	url      where the feed is; required
//	login    {"user": "…", "password": {"secret": "NAME"}}, for basic authentication
//	headers  name → text, or {"secret": "NAME"}; what looks like a credential must be
//	         the latter
//
// Login and headers are for the URL's own scheme, host and port: where the feed is
// redirected to another they are not sent along.
//
// A message is an item of the feed. Its id is the item's GUID, else its link,
// else a digest of its title, date and content; ids over 256 bytes become a
// digest. An item that changes under the same id is not reported again, and of
// two items with the same id only the first counts. The first check reports all
// items that the feed shows.
//
// The cursor remembers what the feed shows and some of what it showed before,
// so that an item that comes and goes is reported once; see cursor. A feed of
// more than 2,000 items is read as its newest 2,000, if all have a date: the
// others are never reported. Without dates nobody can tell which those are, and
// the check fails with the code too_many_items, as it does beyond 10,000 items.
//
// A feed is judged before the parser reads it: one that would cost far more memory
// or time than its length lets expect is refused as not_a_feed. Nothing behind the
// end of its root is read. HTML is resolved against xml:base within limits.
//
// A feed that is no well-formed XML is read as far as it goes: a check that finds items
// succeeds, with the warning malformed. What cannot be read at all is dropped from
// the error to the next item. A feed that permanent redirects lead elsewhere has the
// warning moved, and is asked at its old address until its record changes.
//
// If more is new than was asked for, the oldest come first and the feed is
// fetched again for the rest. ETag and Last-Modified are kept only when nothing
// is left: a 304 would hide it.
package feed

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/poller/secrets"
)

const (
	maxBody      = 8 << 20
	maxRedirects = 5
	defaultLimit = 200 // of messages, for a request that names none
	accept       = "application/atom+xml, application/rss+xml, application/feed+json, " +
		"application/xml;q=0.9, text/xml;q=0.9, application/json;q=0.8, */*;q=0.5"
)

// Checker checks feeds. It is safe for concurrent use.
type Checker struct {
	client  *fetch.Client
	secrets secrets.Source
}

var _ poller.Checker = (*Checker)(nil)

// New makes a checker that fetches through client and finds in secrets what configs
// refer to.
func New(client *fetch.Client, secrets secrets.Source) *Checker {
	return &Checker{client: client, secrets: secrets}
}

// Kind is the kind's name in records.
const Kind = "feed"

// Kind is "feed".
func (*Checker) Kind() string { return Kind }

// Validate judges a config; see the package's doc. It does not look whether the
// secrets exist: they are the poller's, and may come later.
func (c *Checker) Validate(raw json.RawMessage) error {
	_, err := c.parse(raw)
	return err
}

// RateKey is the host of the feed's URL.
func (c *Checker) RateKey(raw json.RawMessage) string {
	config, err := c.parse(raw)
	if err != nil {
		return ""
	}
	return fetch.Host(config.url)
}

// Check fetches the feed and reports the items that the cursor does not know,
// oldest first. All its errors are *poller.CheckError.
func (c *Checker) Check(ctx context.Context, r poller.Request) (poller.Result, error) {
	config, err := c.parse(r.Config)
	if err != nil {
		return poller.Result{}, &poller.CheckError{Kind: poller.ConfigInvalid, Code: "config", Message: err.Error()}
	}
	known, err := decodeCursor(r.Cursor)
	if err != nil {
		return poller.Result{}, &poller.CheckError{
			Kind: poller.CursorInvalid, Code: "cursor", Message: "the cursor is not one of this kind", Err: err,
		}
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
	switch {
	case answer.Status == http.StatusNotModified && conditional:
		result.Warnings = known.flaw.warnings()
	case answer.Status == http.StatusNoContent:
		return poller.Result{}, nil // nothing new, and no sign of a feed at a new address
	case answer.Status < 200 || answer.Status > 299:
		return poller.Result{}, statusError(answer, config.headers.Any())
	default:
		read, err := parse(ctx, answer.Body, c.client.Reserve)
		if err != nil {
			return poller.Result{}, err
		}
		found := newValidators(config.url, answer.Header)
		if found.flaw = read.flaw; read.flaw.lossy {
			found = validators{flaw: read.flaw} // unmodified, it would still be broken
		}
		if result, err = report(read.items, known, r, found); err != nil {
			return poller.Result{}, err
		}
		result.Warnings = read.flaw.warnings()
	}
	config.moves(answer.Moved, &result)
	return result, nil
}

// report finds what is new among a feed's items.
func report(items []item, known cursor, r poller.Request, found validators) (poller.Result, error) {
	limit := cmp.Or(max(r.Limit, 0), defaultLimit)
	var result poller.Result
	var present []digest // and reported
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
		found = validators{flaw: found.flaw}
	}
	next, err := known.next(present, items, found).encode()
	if err != nil {
		return poller.Result{}, &poller.CheckError{Kind: poller.Protocol, Code: "cursor", Message: "the cursor cannot be written", Err: err}
	}
	if string(next) != string(r.Cursor) {
		result.Cursor = next
	}
	return result, nil
}
