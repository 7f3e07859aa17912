package client

import (
	"context"
	"net/http"

	"github.com/rounds-dev/rounds/cmd/rounds/api"
)

// ProblemsQuery chooses groups of failing accounts. The zero ProblemsQuery chooses all.
type ProblemsQuery struct {
	States []string // failing, newly, never_succeeded, parked
	Kinds  []string
	Hosts  []string
	Causes []string // names or codes
}

// Problems returns what the monitor on duty found out about accounts that are checked in vain.
func (c *Client) Problems(ctx context.Context, q ProblemsQuery) (api.Problems, error) {
	var pairs []string
	for _, field := range []struct {
		name   string
		values []string
	}{{"state", q.States}, {"kind", q.Kinds}, {"host", q.Hosts}, {"cause", q.Causes}} {
		for _, value := range field.values {
			pairs = append(pairs, field.name, value)
		}
	}
	var found api.Problems
	err := c.call(ctx, http.MethodGet, queryPath("/v1/problems", pairs...), nil, &found)
	return found, err
}
