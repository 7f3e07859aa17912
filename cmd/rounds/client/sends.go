package client

import (
	"context"
	"net/http"

	"github.com/rounds-dev/rounds/cmd/rounds/api"
)

// Send queues a send in the name of an account. The key names the send among those of the
// account. After an error nobody knows whether the send was queued, unless Status says that it
// was refused. Calling Send again with the same key and request is safe for 48 hours: it
// returns the first send.
func (c *Client) Send(ctx context.Context, account, key string, r api.SendRequest) (queued api.Send, err error) {
	_, err = c.callWith(ctx, http.MethodPost, accountPath(account)+"/sends", http.Header{"Idempotency-Key": {key}}, r, &queued)
	return queued, err
}

// SendQuery chooses sends. The zero SendQuery chooses all.
type SendQuery struct {
	Account string   // only this account's
	States  []string // only those in one of these states, such as "unknown"
	Cursor  string   // the previous page's Next; empty: the first page
	Limit   int      // 0: as many as the API chooses
}

// Sends returns a page of sends.
func (c *Client) Sends(ctx context.Context, q SendQuery) (api.SendList, error) {
	pairs := []string{"account", q.Account}
	for _, state := range q.States {
		pairs = append(pairs, "state", state)
	}
	return get[api.SendList](ctx, c, pagePath("/v1/sends", q.Cursor, q.Limit, pairs...))
}

// LookSend returns a send, and what became of it.
func (c *Client) LookSend(ctx context.Context, id string) (api.Send, error) {
	return get[api.Send](ctx, c, sendPath(id))
}

// CancelSend cancels a send that waits.
func (c *Client) CancelSend(ctx context.Context, id string) (api.Send, error) {
	return post[api.Send](ctx, c, sendPath(id)+"/cancel", nil)
}

// RetrySend sends a rejected or unknown send again. An unknown one may arrive twice.
func (c *Client) RetrySend(ctx context.Context, id string, r api.SendRetryRequest) (api.Send, error) {
	return post[api.Send](ctx, c, sendPath(id)+"/retry", r)
}

// ResolveSend says what became of an unknown send.
func (c *Client) ResolveSend(ctx context.Context, id string, r api.SendResolveRequest) (api.Send, error) {
	return post[api.Send](ctx, c, sendPath(id)+"/resolve", r)
}

func sendPath(id string) string { return namedPath("/v1/sends/", id) }
