package connector

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/poller/secrets"
)

// resolved is a config with its secrets.
type resolved struct {
	keys    []*fetch.SigningKey // one, or none: not signed
	headers http.Header
	values  []string // of all secrets; no text that is shown may hold one
	open    bool     // secrets are sent without TLS
}

// resolve returns a config with its secrets for requests to an address. An error names a secret, never its value.
func (c config) resolve(ctx context.Context, source secrets.Source, to string) (resolved, error) {
	var r resolved
	use := secrets.ForURL(kind, to)
	if !c.signing.IsZero() {
		value, err := source.Get(ctx, c.signing.Name, use.Staying())
		if err != nil {
			return resolved{}, err
		}
		key, err := fetch.ParseSigningKey(value)
		if err != nil {
			return resolved{}, fmt.Errorf("secret %s: %w", c.signing.Name, err)
		}
		r.keys = append(r.keys, key)
		r.values = append(r.values, value)
	}
	headers, values, err := c.headers.Resolve(ctx, source, use)
	if err != nil {
		return resolved{}, err
	}
	r.headers, r.values, r.open = headers, append(r.values, values...), len(values) > 0 && use.Open()
	return r, nil
}

// header returns a request's header. The webhook id is the id of the send or of the check. A
// check's is the same for all pages and retries of one claim: it shows a connector which requests
// belong together, not that a request was repeated.
func (r resolved) header(id string, now time.Time, body []byte) (http.Header, error) {
	header := r.plain()
	if err := fetch.Sign(header, id, now, body, r.keys...); err != nil {
		return nil, fetch.ErrKey // its text holds no secret
	}
	return header, nil
}

// streamHeader is header for a body that is read while it is sent. Its error is that of the body.
func (r resolved) streamHeader(ctx context.Context, id string, now time.Time, body *fetch.Stream) (http.Header, error) {
	header := r.plain()
	return header, fetch.SignStream(ctx, header, id, now, body, r.keys...)
}

// plain returns a request's header without a signature.
func (r resolved) plain() http.Header {
	header := r.headers.Clone()
	header.Set("Content-Type", "application/json")
	header.Set("Accept", "application/json")
	return header
}
