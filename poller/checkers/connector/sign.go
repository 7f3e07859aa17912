package connector

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/rounds-dev/rounds/poller/secrets"
	"github.com/rounds-dev/rounds/poller/signing"
)

// resolved is what a config is once its secrets are known.
type resolved struct {
	keys    []*signing.Key // one, or none: not signed
	headers http.Header
	values  []string // of all secrets: none may appear in a text that leaves
	open    bool     // some are sent, and not over TLS
}

// resolve finds a config's secrets. An error names one, never its value.
func (c config) resolve(ctx context.Context, source secrets.Source) (resolved, error) {
	var r resolved
	use := secrets.ForURL(Kind, c.url)
	if !c.signing.IsZero() {
		value, err := source.Get(ctx, c.signing.Name, use.Staying())
		if err != nil {
			return resolved{}, err
		}
		key, err := signing.ParseKey(value)
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

// header returns a request's header. The webhook id is the check's: it is the same
// for all pages and retries of one claim, and tells a connector which requests
// belong together, not that one came twice.
func (r resolved) header(checkID string, now time.Time, body []byte) (http.Header, error) {
	header := r.headers.Clone()
	header.Set("Content-Type", "application/json")
	header.Set("Accept", "application/json")
	if err := signing.Sign(header, checkID, now, body, r.keys...); err != nil {
		return nil, signing.ErrKey // whose text is known to hold no secret
	}
	return header, nil
}
