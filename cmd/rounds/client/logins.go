package client

import (
	"context"
	"net/http"

	"github.com/rounds-dev/rounds/cmd/rounds/api"
)

const loginsPath = "/v1/weixin/logins"

// BeginLogin begins to sign a WeChat account in.
func (c *Client) BeginLogin(ctx context.Context, r api.LoginRequest) (api.Login, error) {
	var l api.Login
	err := c.call(ctx, http.MethodPost, loginsPath, r, &l)
	return l, err
}

// FollowLogin waits until the phone has done something, for at most about 45 seconds.
func (c *Client) FollowLogin(ctx context.Context, login string) (api.Login, error) {
	var l api.Login
	err := c.call(ctx, http.MethodGet, namedPath(loginsPath+"/", login), nil, &l)
	return l, err
}

// TypeLogin passes on the digits that the phone shows.
func (c *Client) TypeLogin(ctx context.Context, login, digits string) (api.Login, error) {
	var l api.Login
	err := c.call(ctx, http.MethodPost, namedPath(loginsPath+"/", login)+"/code", map[string]string{"digits": digits}, &l)
	return l, err
}

// AbandonLogin ends a sign-in.
func (c *Client) AbandonLogin(ctx context.Context, login string) error {
	return c.call(ctx, http.MethodDelete, namedPath(loginsPath+"/", login), nil, nil)
}
