package client

import (
	"context"
	"net/http"
	"time"

	"github.com/rounds-dev/rounds/cmd/rounds/api"
)

// TrailQuery chooses entries of the trail. The zero TrailQuery chooses all.
type TrailQuery struct {
	Account string        // only entries that name it
	By      string        // only entries of this principal
	Since   time.Duration // the greatest age; 0: any age
	Cursor  string        // the previous page's Next; empty: the first page
	Limit   int           // 0: as many as the API chooses
}

// Trail returns a page of entries: who changed what.
func (c *Client) Trail(ctx context.Context, q TrailQuery) (api.TrailPage, error) {
	since := ""
	if q.Since > 0 {
		since = q.Since.String()
	}
	var page api.TrailPage
	err := c.call(ctx, http.MethodGet, pagePath("/v1/trail", q.Cursor, q.Limit, "account", q.Account, "by", q.By, "since", since), nil, &page)
	return page, err
}

// AccountTimeline returns what mattered to an account lately.
func (c *Client) AccountTimeline(ctx context.Context, id string, limit int) (api.TimelinePage, error) {
	var page api.TimelinePage
	err := c.call(ctx, http.MethodGet, pagePath(accountPath(id)+"/timeline", "", limit), nil, &page)
	return page, err
}

// AccountTrail returns the latest entries that name an account.
func (c *Client) AccountTrail(ctx context.Context, id string, limit int) (api.TrailPage, error) {
	var page api.TrailPage
	err := c.call(ctx, http.MethodGet, pagePath(accountPath(id)+"/trail", "", limit), nil, &page)
	return page, err
}
