package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/rounds-dev/rounds/cmd/rounds/api"
)

// Whoami returns who the API takes the caller for.
func (c *Client) Whoami(ctx context.Context) (api.Caller, error) {
	var caller api.Caller
	err := c.call(ctx, http.MethodGet, "/v1/whoami", nil, &caller)
	return caller, err
}

// Keys returns all keys, without their texts.
func (c *Client) Keys(ctx context.Context) (api.KeyList, error) {
	var list api.KeyList
	err := c.call(ctx, http.MethodGet, "/v1/keys", nil, &list)
	return list, err
}

// CreateKey makes a key. Nothing but the reply ever has its text.
func (c *Client) CreateKey(ctx context.Context, r api.KeyRequest) (api.NewKey, error) {
	var made api.NewKey
	err := c.call(ctx, http.MethodPost, "/v1/keys", r, &made)
	return made, err
}

// RevokeKey revokes the key that has a name.
func (c *Client) RevokeKey(ctx context.Context, name string) error {
	return c.call(ctx, http.MethodDelete, "/v1/keys/"+url.PathEscape(name), nil, nil)
}
