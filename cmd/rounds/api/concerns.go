package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rounds-dev/rounds/accounts/concern"
)

type concernsReply struct {
	Body concern.Concerns
}

// addConcerns adds the route that tells what is wrong now.
func (r Outlook) addConcerns() {
	huma.Register(r.API, huma.Operation{
		OperationID: "list-concerns", Method: http.MethodGet, Path: "/v1/concerns", Tags: []string{"service"},
		Summary: "What is wrong now",
		Description: "Each concern is a code with parameters, and an English sentence. Similar concerns are one, with a count. They come from what replicas, processes and the monitor on duty report; no account is looked at. " +
			"A concern ends when its cause has ended. Without a monitor, what only a monitor sees is left out, and that is a concern itself.",
		Errors: []int{401, 503},
	}, func(ctx context.Context, _ *struct{}) (*concernsReply, error) {
		list, err := concern.Collect(ctx, concern.Sources{Ring: r.Ring, Registry: r.Registry(ctx), Redis: r.Redis, DeadAfter: r.DeadAfter, Webhooks: r.Webhooks != nil && r.Webhooks(), Sole: r.Sole(ctx)})
		if err != nil {
			return nil, r.Problem(ctx, "list concerns", err)
		}
		return &concernsReply{list}, nil
	})
}
