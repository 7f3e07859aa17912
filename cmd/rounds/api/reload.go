package api

import (
	"context"
	"errors"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/cmd/rounds/trail"
)

// Reloaded is the result of reading settings again.
type Reloaded struct {
	Changed []string `json:"changed" nullable:"false" doc:"Changes that have taken effect: variables, including secrets in the settings file, and contents of files."`
	Restart []string `json:"restart" nullable:"false" doc:"Changed variables that take effect after a restart."`
}

// reloadRoute adds the route if the process can read its settings again.
func (s *Server) reloadRoute(api huma.API) {
	if s.options.Reload == nil {
		return
	}
	answer(s, api, "reload", huma.Operation{
		OperationID: "reload", Method: http.MethodPost, Path: "/v1/reload", Tags: []string{"service"},
		Summary: "Read settings and their files again",
		Description: "Only for the process that answers: each process has its own settings and files. Everything is judged before any of it takes effect. If there is a fault, " +
			"422 names every fault and nothing changes.",
		Errors: []int{401, 422, 503},
	}, s.reload)
}

func (s *Server) reload(ctx context.Context, _ *struct{}) (Reloaded, error) {
	done, err := s.options.Reload(ctx)
	var faults accounts.Faults
	if errors.As(err, &faults) {
		return Reloaded{}, newErrorReply(http.StatusUnprocessableEntity, "the settings are refused, and nothing has changed", detailsOf(faults, "")...)
	}
	if err != nil {
		return Reloaded{}, err
	}
	trail.Of(ctx).Fields(done.Changed)
	done.Changed, done.Restart = append([]string{}, done.Changed...), append([]string{}, done.Restart...)
	return done, nil
}
