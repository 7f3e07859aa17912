package client

import (
	"context"
	"net/http"

	"github.com/rounds-dev/rounds/cmd/rounds/api"
)

// DeadQuery chooses dead letters. The zero DeadQuery chooses all.
type DeadQuery struct {
	Group  string
	Cursor string // the previous page's Next; empty: the first page
	Limit  int    // 0: as many as the API chooses
}

// Dead returns a page of dead letters.
func (c *Client) Dead(ctx context.Context, q DeadQuery) (api.DeadList, error) {
	var page api.DeadList
	err := c.call(ctx, http.MethodGet, pagePath("/v1/dead", q.Cursor, q.Limit, "group", q.Group), nil, &page)
	return page, err
}

// ReplayDead replays dead letters, as far as one call goes.
func (c *Client) ReplayDead(ctx context.Context, r api.ReplayRequest) (api.Replayed, error) {
	var done api.Replayed
	err := c.call(ctx, http.MethodPost, "/v1/dead:replay", r, &done)
	return done, err
}

// DropDead drops dead letters, as far as one call goes.
func (c *Client) DropDead(ctx context.Context, r api.DropRequest) (api.Dropped, error) {
	var done api.Dropped
	err := c.call(ctx, http.MethodPost, "/v1/dead:drop", r, &done)
	return done, err
}

// Groups returns the consumer groups.
func (c *Client) Groups(ctx context.Context) (api.GroupList, error) {
	var list api.GroupList
	err := c.call(ctx, http.MethodGet, "/v1/groups", nil, &list)
	return list, err
}

// RemoveGroup removes a consumer group.
func (c *Client) RemoveGroup(ctx context.Context, name string) error {
	return c.call(ctx, http.MethodDelete, namedPath("/v1/groups/", name), nil, nil)
}

// Webhooks returns the webhook endpoints.
func (c *Client) Webhooks(ctx context.Context) (api.WebhookList, error) {
	var list api.WebhookList
	err := c.call(ctx, http.MethodGet, "/v1/webhooks", nil, &list)
	return list, err
}

// EnableWebhook lets a webhook endpoint get messages again.
func (c *Client) EnableWebhook(ctx context.Context, name string) error {
	return c.call(ctx, http.MethodPost, namedPath("/v1/webhooks/", name)+"/enable", nil, nil)
}

// Webhook returns a webhook endpoint with its waiting messages.
func (c *Client) Webhook(ctx context.Context, name string) (api.Webhook, error) {
	var w api.Webhook
	err := c.call(ctx, http.MethodGet, namedPath("/v1/webhooks/", name), nil, &w)
	return w, err
}

// RetryWebhook makes the processes try the waiting messages of a webhook endpoint now.
func (c *Client) RetryWebhook(ctx context.Context, name string, r api.WebhookRetryRequest) (api.WebhookRetried, error) {
	var done api.WebhookRetried
	err := c.call(ctx, http.MethodPost, namedPath("/v1/webhooks/", name)+"/retry", r, &done)
	return done, err
}

// SkipWebhook turns waiting messages of a webhook endpoint into dead letters.
func (c *Client) SkipWebhook(ctx context.Context, name string, r api.WebhookSkipRequest) (api.WebhookSkipped, error) {
	var done api.WebhookSkipped
	err := c.call(ctx, http.MethodPost, namedPath("/v1/webhooks/", name)+"/skip", r, &done)
	return done, err
}
