package api

import (
	"context"
	"errors"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/accounts/trail"
)

// Reloaded is what came of reading settings again.
type Reloaded struct {
	Changed []string `json:"changed" nullable:"false" doc:"What is other than before, and holds now: variables, and what files hold."`
	Restart []string `json:"restart" nullable:"false" doc:"Variables that are other than before, and hold only once the process is started anew."`
}

type reloadReply struct {
	Body Reloaded
}

// reloadRoute is the route where the process can read its settings again.
func (s *Server) reloadRoute(api huma.API) {
	if s.options.Reload == nil {
		return
	}
	huma.Register(api, huma.Operation{
		OperationID: "reload", Method: http.MethodPost, Path: "/v1/reload", Tags: []string{"service"},
		Summary: "Read settings and their files again",
		Description: "Of the one process that is asked: settings and files are each process' own. All of it is judged before any of it holds: where anything is at fault, " +
			"422 names every fault and all stays as it was.",
		Errors: []int{401, 422, 503},
	}, s.reload)
}

func (s *Server) reload(ctx context.Context, _ *struct{}) (*reloadReply, error) {
	done, err := s.options.Reload(ctx)
	var faults accounts.Faults
	if errors.As(err, &faults) {
		return nil, newProblem(http.StatusUnprocessableEntity, "the settings are refused, and all stays as it was", detailsOf(faults, "")...)
	}
	if err != nil {
		return nil, s.problem(ctx, "reload", err)
	}
	trail.Of(ctx).Fields(done.Changed)
	done.Changed, done.Restart = append([]string{}, done.Changed...), append([]string{}, done.Restart...)
	return &reloadReply{done}, nil
}
