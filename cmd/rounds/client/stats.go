package client

import (
	"context"
	"net/http"

	"github.com/rounds-dev/rounds/accounts/concern"
	"github.com/rounds-dev/rounds/cmd/rounds/api"
)

// Stats returns how the service is doing.
func (c *Client) Stats(ctx context.Context) (api.Stats, error) {
	var stats api.Stats
	err := c.call(ctx, http.MethodGet, "/v1/stats", nil, &stats)
	return stats, err
}

// Law returns what is known about whether every account is in exactly one place.
func (c *Client) Law(ctx context.Context) (concern.Law, error) {
	var l concern.Law
	err := c.call(ctx, http.MethodGet, "/v1/law", nil, &l)
	return l, err
}

// Concerns returns what is wrong now.
func (c *Client) Concerns(ctx context.Context) (concern.Concerns, error) {
	var list concern.Concerns
	err := c.call(ctx, http.MethodGet, "/v1/concerns", nil, &list)
	return list, err
}

// System returns what the service runs on and with which settings. A caller needs the right to see
// the whole service.
func (c *Client) System(ctx context.Context) (api.System, error) {
	var s api.System
	err := c.call(ctx, http.MethodGet, "/v1/system", nil, &s)
	return s, err
}
