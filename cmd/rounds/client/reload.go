package client

import (
	"context"
	"net/http"

	"github.com/rounds-dev/rounds/cmd/rounds/api"
)

// Reload makes the process that serves the API read its settings again.
func (c *Client) Reload(ctx context.Context) (api.Reloaded, error) {
	var done api.Reloaded
	err := c.call(ctx, http.MethodPost, "/v1/reload", nil, &done)
	return done, err
}
