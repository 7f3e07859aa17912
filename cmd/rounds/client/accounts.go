package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/accounts/api"
)

// Query chooses accounts. The zero Query chooses all.
type Query struct {
	Kind   string
	State  string
	Cursor string // of the page before; empty: the first page
	Limit  int    // 0: as the API likes
}

// accountPath is an account's path. An id may hold slashes, and a dot alone must
// not look like a directory.
func accountPath(id string) string {
	escaped := url.PathEscape(id)
	switch escaped {
	case ".":
		escaped = "%2E"
	case "..":
		escaped = "%2E%2E"
	}
	return "/v1/accounts/" + escaped
}

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

// Get gives an account.
func (c *Client) Get(ctx context.Context, id string) (api.Account, error) {
	var got api.Account
	err := c.call(ctx, http.MethodGet, accountPath(id), nil, &got)
	return got, err
}

// List gives a page of accounts.
func (c *Client) List(ctx context.Context, q Query) (api.AccountList, error) {
	values := url.Values{}
	set := func(name, value string) {
		if value != "" {
			values.Set(name, value)
		}
	}
	set("kind", q.Kind)
	set("state", q.State)
	set("cursor", q.Cursor)
	if q.Limit > 0 {
		set("limit", strconv.Itoa(q.Limit))
	}
	path := "/v1/accounts"
	if len(values) > 0 {
		path += "?" + values.Encode()
	}
	var page api.AccountList
	err := c.call(ctx, http.MethodGet, path, nil, &page)
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

// Nudge asks for a check of an account.
func (c *Client) Nudge(ctx context.Context, id string, n api.NudgeRequest) error {
	return c.call(ctx, http.MethodPost, accountPath(id)+"/nudge", n, nil)
}
