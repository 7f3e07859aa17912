package client

import (
	"context"
	"net/http"

	"github.com/rounds-dev/rounds/cmd/rounds/api"
)

// ParkedQuery chooses parked accounts. The zero ParkedQuery chooses all.
type ParkedQuery struct {
	Kind   string
	Reason string // the beginning of the reason
	Cursor string // the previous page's Next; empty: the first page
	Limit  int    // 0: as many as the API chooses
}

// Schedule returns when an account is checked next, and why at that time.
func (c *Client) Schedule(ctx context.Context, id string) (api.Schedule, error) {
	var s api.Schedule
	err := c.call(ctx, http.MethodGet, accountPath(id)+"/schedule", nil, &s)
	return s, err
}

// Parked returns a page of parked accounts.
func (c *Client) Parked(ctx context.Context, q ParkedQuery) (api.ParkedList, error) {
	var page api.ParkedList
	err := c.call(ctx, http.MethodGet, pagePath("/v1/parked", q.Cursor, q.Limit, "kind", q.Kind, "reason", q.Reason), nil, &page)
	return page, err
}

// Revive resumes parked accounts, as far as one call goes.
func (c *Client) Revive(ctx context.Context, r api.ReviveRequest) (api.Revived, error) {
	var done api.Revived
	err := c.call(ctx, http.MethodPost, "/v1/parked:revive", r, &done)
	return done, err
}
