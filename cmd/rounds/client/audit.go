package client

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/rounds-dev/rounds/cmd/rounds/api"
)

// auditTimeout bounds one call of an audit, which covers at least a whole shard.
const auditTimeout = 30 * time.Minute

// Audit checks the conservation law from a cursor on, as far as one call goes; an empty
// cursor begins. With repair it repairs its findings.
func (c *Client) Audit(ctx context.Context, repair bool, cursor string) (api.Audit, error) {
	method, path := http.MethodGet, "/v1/audit"
	if repair {
		method, path = http.MethodPost, "/v1/audit:repair"
	}
	if cursor != "" {
		path += "?cursor=" + url.QueryEscape(cursor)
	}
	ctx, cancel := context.WithTimeout(ctx, auditTimeout)
	defer cancel()
	var done api.Audit
	answer, err := c.send(ctx, method, path, http.Header{"Accept": {"application/json"}}, nil)
	if err != nil {
		return done, err
	}
	defer answer.Body.Close()
	if err := json.NewDecoder(io.LimitReader(answer.Body, maxAnswer)).Decode(&done); err != nil {
		return done, fmt.Errorf("%w: %w", errCutOff, err)
	}
	return done, nil
}
