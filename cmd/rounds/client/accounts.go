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

// Add registers a new account.
func (c *Client) Add(ctx context.Context, a accounts.Account) (api.Account, error) {
	return c.AddFrom(ctx, a, "")
}

// AddFrom is Add with a choice of where the account begins.
func (c *Client) AddFrom(ctx context.Context, a accounts.Account, from accounts.BeginFrom) (api.Account, error) {
	var added api.Account
	err := c.call(ctx, http.MethodPost, queryPath("/v1/accounts", "from", string(from)), a, &added)
	return added, err
}

// Put registers an account or changes it.
func (c *Client) Put(ctx context.Context, a accounts.Account) (api.Account, error) {
	return c.PutFrom(ctx, a, "")
}

// PutFrom is Put with a choice of where a new account begins.
func (c *Client) PutFrom(ctx context.Context, a accounts.Account, from accounts.BeginFrom) (api.Account, error) {
	return c.put(ctx, a.ID, a, anyOrNone, from)
}

// PutRecord replaces the record of an account, which must have the given ETag.
// Otherwise it returns an *Error with the status 412.
func (c *Client) PutRecord(ctx context.Context, id string, record json.RawMessage, etag string) (api.Account, error) {
	return c.put(ctx, id, record, etag, "")
}

func (c *Client) put(ctx context.Context, id string, record any, etag string, from accounts.BeginFrom) (api.Account, error) {
	var put api.Account
	err := c.changing(etag, func(header http.Header) error {
		_, err := c.callWith(ctx, http.MethodPut, queryPath(accountPath(id), "from", string(from)), header, record, &put)
		return err
	})
	return put, err
}

// Patch changes what a JSON merge patch names.
func (c *Client) Patch(ctx context.Context, id string, patch map[string]any) (api.Account, error) {
	var patched api.Account
	err := c.changing(anyOrNone, func(header http.Header) error {
		header.Set("Content-Type", "application/merge-patch+json")
		_, err := c.callWith(ctx, http.MethodPatch, accountPath(id), header, patch, &patched)
		return err
	})
	return patched, err
}

// anyOrNone is the ETag of a change that applies to any state.
const anyOrNone = ""

// changing makes a change with an ETag. If the server demands one and the caller has
// none, it sends one that matches anything.
func (*Client) changing(etag string, change func(http.Header) error) error {
	header := http.Header{}
	if etag != anyOrNone {
		header.Set("If-Match", etag)
	}
	err := change(header)
	if etag == anyOrNone && Status(err) == http.StatusPreconditionRequired {
		header.Set("If-Match", "*")
		err = change(header)
	}
	return err
}

// Get returns an account.
func (c *Client) Get(ctx context.Context, id string) (api.Account, error) {
	got, _, err := c.GetTagged(ctx, id)
	return got, err
}

// GetTagged returns an account and the ETag of its record.
func (c *Client) GetTagged(ctx context.Context, id string) (api.Account, string, error) {
	var got api.Account
	header, err := c.callWith(ctx, http.MethodGet, accountPath(id), nil, nil, &got)
	return got, header.Get("ETag"), err
}

// List returns a page of accounts.
func (c *Client) List(ctx context.Context, q Query) (api.AccountList, error) {
	var page api.AccountList
	err := c.call(ctx, http.MethodGet, pagePath("/v1/accounts", q.Cursor, q.Limit, selection(q.Selector)...), nil, &page)
	return page, err
}

// Remove deregisters an account.
func (c *Client) Remove(ctx context.Context, id string) error {
	return c.changing(anyOrNone, func(header http.Header) error {
		_, err := c.callWith(ctx, http.MethodDelete, accountPath(id), header, nil, nil)
		return err
	})
}

// Pause parks an account until Resume.
func (c *Client) Pause(ctx context.Context, id string) error {
	return c.call(ctx, http.MethodPost, accountPath(id)+"/pause", nil, nil)
}

// Resume puts a parked account back into circulation.
func (c *Client) Resume(ctx context.Context, id string) error {
	return c.call(ctx, http.MethodPost, accountPath(id)+"/resume", nil, nil)
}

// ResumeFrom is Resume with a choice of where the account continues.
func (c *Client) ResumeFrom(ctx context.Context, id string, from accounts.ResumeFrom) error {
	return c.call(ctx, http.MethodPost, accountPath(id)+"/resume", api.ResumeRequest{From: from}, nil)
}

// Nudge asks for a check of an account.
func (c *Client) Nudge(ctx context.Context, id string, n api.NudgeRequest) error {
	return c.call(ctx, http.MethodPost, accountPath(id)+"/nudge", n, nil)
}
