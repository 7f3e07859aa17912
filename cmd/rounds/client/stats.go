package client

import (
	"context"
	"net/http"

	"github.com/rounds-dev/rounds/accounts/api"
)

// Stats returns how the service is doing.
func (c *Client) Stats(ctx context.Context) (api.Stats, error) {
	var stats api.Stats
	err := c.call(ctx, http.MethodGet, "/v1/stats", nil, &stats)
	return stats, err
}
