package client

import (
	"context"
	"net/http"

	"github.com/rounds-dev/rounds/cmd/rounds/api"
)

// Kinds returns the kinds of accounts that the API knows, with the fields of their configs.
func (c *Client) Kinds(ctx context.Context) (api.KindList, error) {
	var list api.KindList
	err := c.call(ctx, http.MethodGet, "/v1/kinds", nil, &list)
	return list, err
}
