// Package feed checks RSS, Atom and JSON feeds: the kind "feed".
//
// The config is {"url": "https://…"} and nothing else.
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
// If more is new than was asked for, the oldest come first and the feed is
// fetched again for the rest. ETag and Last-Modified are kept only when nothing
// is left: a 304 would hide it.
package feed

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"

	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/fetch"
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
	client *fetch.Client
}

var _ poller.Checker = (*Checker)(nil)

// New makes a checker that fetches through client.
func New(client *fetch.Client) *Checker { return &Checker{client: client} }

// Kind is "feed".
func (*Checker) Kind() string { return "feed" }

// Validate judges a config; see the package's doc.
func (c *Checker) Validate(config json.RawMessage) error {
	_, err := c.url(config)
	return err
}

// RateKey is the host of the feed's URL.
func (c *Checker) RateKey(config json.RawMessage) string {
	url, err := c.url(config)
	if err != nil {
		return ""
	}
	return fetch.Host(url)
}

func (c *Checker) url(config json.RawMessage) (string, error) {
	r := strict.ReadConfig(config)
	url := r.Text("url")
	if url != "" {
		if err := c.client.Validate(url); err != nil {
			r.Fault("url", err.Error())
		}
	}
	return url, r.Err()
}

// Check fetches the feed and reports the items that the cursor does not know,
// oldest first. All its errors are *poller.CheckError.
func (c *Checker) Check(ctx context.Context, r poller.Request) (poller.Result, error) {
	url, err := c.url(r.Config)
	if err != nil {
		return poller.Result{}, &poller.CheckError{Kind: poller.ConfigInvalid, Code: "config", Message: err.Error()}
	}
	known, err := decodeCursor(r.Cursor)
	if err != nil {
		return poller.Result{}, &poller.CheckError{
			Kind: poller.CursorInvalid, Code: "cursor", Message: "the cursor is not one of this kind", Err: err,
		}
	}
	call := fetch.Call{
		URL: url, MaxBody: maxBody, MaxRedirects: maxRedirects,
		Header: http.Header{"Accept": {accept}},
	}
	conditional := known.condition(url, call.Header)
	answer, err := c.client.Do(ctx, call)
	if err != nil {
		return poller.Result{}, fetch.CheckError(err)
	}
	switch {
	case answer.Status == http.StatusNotModified && conditional, answer.Status == http.StatusNoContent:
		return poller.Result{}, nil
	case answer.Status < 200 || answer.Status > 299:
		return poller.Result{}, statusError(answer)
	}
	items, err := parse(ctx, answer.Body, c.client.Reserve)
	if err != nil {
		return poller.Result{}, err
	}
	return report(items, known, r, newValidators(url, answer.Header))
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
		found = validators{}
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
