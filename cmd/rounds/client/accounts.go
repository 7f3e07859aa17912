package client

import (
	"context"
	"net/http"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/accounts/api"
)

// Query chooses accounts. The zero Query chooses all.
type Query struct {
	accounts.Selector
	Cursor string // of the page before; empty: the first page
	Limit  int    // 0: as the API likes
}

func accountPath(id string) string { return namedPath("/v1/accounts/", id) }

// Add registers an account that is not there yet.
func (c *Client) Add(ctx context.Context, a accounts.Account) (api.Account, error) {
	var added api.Account
	err := c.call(ctx, http.MethodPost, "/v1/accounts", a, &added)
	return added, err
}

// Put registers an account or changes it.
func (c *Client) Put(ctx context.Context, a accounts.Account) (api.Account, error) {
	var put api.Account
	err := c.call(ctx, http.MethodPut, accountPath(a.ID), a, &put)
	return put, err
}

// Get returns an account.
func (c *Client) Get(ctx context.Context, id string) (api.Account, error) {
	var got api.Account
	err := c.call(ctx, http.MethodGet, accountPath(id), nil, &got)
	return got, err
}

// List returns a page of accounts.
func (c *Client) List(ctx context.Context, q Query) (api.AccountList, error) {
	var page api.AccountList
	err := c.call(ctx, http.MethodGet, pagePath("/v1/accounts", q.Cursor, q.Limit, selection(q.Selector)...), nil, &page)
	return page, err
}

// Remove deregisters an account.
func (c *Client) Remove(ctx context.Context, id string) error {
	return c.call(ctx, http.MethodDelete, accountPath(id), nil, nil)
}

// Pause parks an account until Resume.
func (c *Client) Pause(ctx context.Context, id string) error {
	return c.call(ctx, http.MethodPost, accountPath(id)+"/pause", nil, nil)
}

// Resume puts a parked account back into circulation.
func (c *Client) Resume(ctx context.Context, id string) error {
	return c.call(ctx, http.MethodPost, accountPath(id)+"/resume", nil, nil)
}

// ResumeFrom is Resume that says from where the account goes on.
func (c *Client) ResumeFrom(ctx context.Context, id string, from accounts.ResumeFrom) error {
	return c.call(ctx, http.MethodPost, accountPath(id)+"/resume", api.ResumeRequest{From: from}, nil)
}

// Nudge asks for a check of an account.
func (c *Client) Nudge(ctx context.Context, id string, n api.NudgeRequest) error {
	return c.call(ctx, http.MethodPost, accountPath(id)+"/nudge", n, nil)
}
