package client

import (
	"context"
	"net/http"

	"github.com/rounds-dev/rounds/cmd/rounds/api"
)

// Resharding returns how far a change of the number of shards has got.
func (c *Client) Resharding(ctx context.Context) (api.Resharding, error) {
	var done api.Resharding
	err := c.call(ctx, http.MethodGet, "/v1/reshard", nil, &done)
	return done, err
}

// Reshard begins a change of the number of shards.
func (c *Client) Reshard(ctx context.Context, r api.ReshardRequest) (api.Resharding, error) {
	var done api.Resharding
	err := c.call(ctx, http.MethodPost, "/v1/reshard", r, &done)
	return done, err
}

// AbortResharding aborts a change of the number of shards.
func (c *Client) AbortResharding(ctx context.Context) (api.Resharding, error) {
	var done api.Resharding
	err := c.call(ctx, http.MethodPost, "/v1/reshard:abort", nil, &done)
	return done, err
}

// FinishResharding removes the old shards after a change.
func (c *Client) FinishResharding(ctx context.Context) (api.Resharding, error) {
	var done api.Resharding
	err := c.call(ctx, http.MethodPost, "/v1/reshard:finish", nil, &done)
	return done, err
}
