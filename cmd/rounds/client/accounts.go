package client

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/cmd/rounds/api"
)

// Query chooses accounts. The zero Query chooses all.
type Query struct {
	accounts.Selector
	Cursor string // the previous page's Next; empty: the first page
	Limit  int    // 0: as many as the API chooses
}

func accountPath(id string) string { return namedPath("/v1/accounts/", id) }

// Add registers a new account, which begins at from. If from is empty, it begins with everything
// that there is.
func (c *Client) Add(ctx context.Context, a accounts.Account, from accounts.BeginFrom) (api.Account, error) {
	return post[api.Account](ctx, c, queryPath("/v1/accounts", "from", string(from)), a)
}

// Put registers an account or changes it. A new account begins at from.
func (c *Client) Put(ctx context.Context, a accounts.Account, from accounts.BeginFrom) (put api.Account, err error) {
	_, err = c.change(ctx, http.MethodPut, queryPath(accountPath(a.ID), "from", string(from)), http.Header{}, a, &put)
	return put, err
}

// PutRecord replaces the record of an account, which must have the given ETag.
// Otherwise it returns an *Error with the status 412.
func (c *Client) PutRecord(ctx context.Context, id string, record json.RawMessage, etag string) (put api.Account, err error) {
	_, err = c.change(ctx, http.MethodPut, accountPath(id), http.Header{"If-Match": {etag}}, record, &put)
	return put, err
}

// Patch changes what a JSON merge patch names.
func (c *Client) Patch(ctx context.Context, id string, patch map[string]any) (patched api.Account, err error) {
	header := http.Header{"Content-Type": {"application/merge-patch+json"}}
	_, err = c.change(ctx, http.MethodPatch, accountPath(id), header, patch, &patched)
	return patched, err
}

// change makes a change of an account. If the server demands an ETag and the header has none, it
// sends one that matches anything.
func (c *Client) change(ctx context.Context, method, path string, header http.Header, body, out any) (http.Header, error) {
	got, err := c.callWith(ctx, method, path, header, body, out)
	if header.Get("If-Match") == "" && Status(err) == http.StatusPreconditionRequired {
		header.Set("If-Match", "*")
		got, err = c.callWith(ctx, method, path, header, body, out)
	}
	return got, err
}

// Get returns an account.
func (c *Client) Get(ctx context.Context, id string) (api.Account, error) {
	return get[api.Account](ctx, c, accountPath(id))
}

// GetTagged returns an account and the ETag of its record.
func (c *Client) GetTagged(ctx context.Context, id string) (api.Account, string, error) {
	var got api.Account
	header, err := c.callWith(ctx, http.MethodGet, accountPath(id), nil, nil, &got)
	return got, header.Get("ETag"), err
}

// List returns a page of accounts.
func (c *Client) List(ctx context.Context, q Query) (api.AccountList, error) {
	return get[api.AccountList](ctx, c, pagePath("/v1/accounts", q.Cursor, q.Limit, selection(q.Selector)...))
}

// Remove deregisters an account.
func (c *Client) Remove(ctx context.Context, id string) error {
	_, err := c.change(ctx, http.MethodDelete, accountPath(id), http.Header{}, nil, nil)
	return err
}

// Pause parks an account until Resume.
func (c *Client) Pause(ctx context.Context, id string) error {
	return c.call(ctx, http.MethodPost, accountPath(id)+"/pause", nil, nil)
}

// Resume puts a parked account back into circulation. It continues at from or, if that is empty,
// where its last check ended.
func (c *Client) Resume(ctx context.Context, id string, from accounts.ResumeFrom) error {
	var choice any
	if from != "" {
		choice = api.ResumeRequest{From: from}
	}
	return c.call(ctx, http.MethodPost, accountPath(id)+"/resume", choice, nil)
}

// Nudge asks for a check of an account.
func (c *Client) Nudge(ctx context.Context, id string, n api.NudgeRequest) error {
	return c.call(ctx, http.MethodPost, accountPath(id)+"/nudge", n, nil)
}
