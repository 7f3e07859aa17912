package client

import (
	"context"
	"net/http"

	"github.com/rounds-dev/rounds/cmd/rounds/api"
)

// Secrets returns a page of stored secrets, without their values. An empty cursor is the first
// page. limit 0: as many as the API chooses.
func (c *Client) Secrets(ctx context.Context, cursor string, limit int) (api.SecretList, error) {
	var page api.SecretList
	err := c.call(ctx, http.MethodGet, pagePath("/v1/secrets", cursor, limit), nil, &page)
	return page, err
}

// SetSecret stores a secret, and replaces any secret of that name.
func (c *Client) SetSecret(ctx context.Context, name string, r api.SecretRequest) (api.Secret, error) {
	var s api.Secret
	err := c.call(ctx, http.MethodPut, namedPath("/v1/secrets/", name), r, &s)
	return s, err
}

// RemoveSecret deletes a stored secret.
func (c *Client) RemoveSecret(ctx context.Context, name string) error {
	return c.call(ctx, http.MethodDelete, namedPath("/v1/secrets/", name), nil, nil)
}
