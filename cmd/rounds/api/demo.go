package api

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rounds-dev/rounds/cmd/rounds/trail"
)

// Demo is what visitors of a demonstration may do. Both fields are required.
type Demo struct {
	// Pollers returns the pollers that the demonstration runs, in the order of their
	// start.
	Pollers func() []DemoPoller
	// Kill ends the process of a poller at once, as kill -9 does, so that other pollers
	// must take over its accounts. It returns ErrNoPoller if no running poller has the
	// name.
	Kill func(ctx context.Context, replica string) error
}

// ErrNoPoller says that a demonstration runs no poller of that name.
var ErrNoPoller = errors.New("the demo runs no poller of that name")

// DemoPoller is a process of a demonstration.
type DemoPoller struct {
	Replica string     `json:"replica,omitempty" doc:"Its name as a replica; left out while it starts."`
	PID     int        `json:"pid,omitempty" doc:"The id of its process; left out while there is none."`
	State   string     `json:"state" enum:"starting,running,killed" doc:"starting: the process has no name as a replica yet; running; killed: the process is gone, and another takes its place."`
	Next    *time.Time `json:"next,omitempty" doc:"When another process replaces a killed one."`
}

// The states of a demonstration's poller.
const (
	DemoStarting = "starting"
	DemoRunning  = "running"
	DemoKilled   = "killed"
)

// DemoPollers are the processes of a demonstration.
type DemoPollers struct {
	Pollers []DemoPoller `json:"pollers" nullable:"false" doc:"One for each place, in the order of their start."`
}

// DemoKillRequest names a poller.
type DemoKillRequest struct {
	_       struct{} `additionalProperties:"false"`
	Replica string   `json:"replica" minLength:"1" maxLength:"64" doc:"The poller's name as a replica."`
}

// demoRoutes adds the routes of a demonstration, if this is one.
func (s *Server) demoRoutes(api huma.API) {
	demo := s.options.Demo
	if demo == nil {
		return
	}
	answer(s, api, "get demo", huma.Operation{
		OperationID: "get-demo", Method: http.MethodGet, Path: "/v1/demo", Tags: []string{"service"},
		Summary: "The pollers of rounds demo", Description: "Only rounds demo has this route.", Errors: []int{401},
	}, func(context.Context, *struct{}) (DemoPollers, error) {
		return DemoPollers{append([]DemoPoller{}, demo.Pollers()...)}, nil
	})
	register(s, api, "kill a poller of the demo", huma.Operation{
		OperationID: "demo-kill", Method: http.MethodPost, Path: "/v1/demo:kill", Tags: []string{"service"},
		Summary: "Kill a poller of rounds demo",
		Description: "Only rounds demo has this route. The process ends at once, as after kill -9, with everything that it has. The monitor gives its accounts to the other pollers, and another process " +
			"takes its place after a while. 404 if no running poller has this name.",
		DefaultStatus: http.StatusNoContent, Errors: []int{401, 404, 422},
	}, func(ctx context.Context, request *struct{ Body DemoKillRequest }) (*struct{}, error) {
		trail.Of(ctx).Subject("replica", request.Body.Replica)
		return nil, demo.Kill(ctx, request.Body.Replica)
	})
}
