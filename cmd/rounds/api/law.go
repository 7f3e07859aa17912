package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rounds-dev/rounds/accounts/concern"
)

type lawReply struct {
	Body concern.Law
}

// addLaw adds the route that says whether the conservation law holds.
func (r Outlook) addLaw() {
	huma.Register(r.API, huma.Operation{
		OperationID: "get-law", Method: http.MethodGet, Path: "/v1/law", Tags: []string{"service"},
		Summary: "What audits have found about the conservation law",
		Description: "The law: every registered account is in exactly one place. The monitor on duty audits all accounts again and again, slowly. The reply has the last complete audit, and how far the running one is. " +
			"An audit over this API, GET /v1/audit or POST /v1/audit:repair, counts as the last one when it is complete.",
		Errors: []int{401, 503},
	}, func(ctx context.Context, _ *struct{}) (*lawReply, error) {
		found, err := concern.Read(ctx, r.Ring)
		if err != nil {
			return nil, r.Problem(ctx, "read law", err)
		}
		return &lawReply{found}, nil
	})
}
