package api

import (
	"context"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/accounts/trial"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/cmd/rounds/scan"
)

// This file has the routes with which somebody prepares an account before it is registered: which
// kinds there are and what their configs hold, and a trial that shows what a poller would find.

// Intake has what these routes need.
type Intake struct {
	API  huma.API
	Ring *circulate.Ring

	// Registry returns the registry limited to the accounts that the caller sees.
	Registry func(context.Context) *accounts.Registry
	// Problem returns what the caller may see of an error. doing says in a few words what
	// failed, for the log.
	Problem func(ctx context.Context, doing string, err error) error
	// Busy returns the reply to a caller that should come back soon.
	Busy func(reason string) error

	// Kinds are the kinds that the process knows.
	Kinds []strict.Kind
	// Try makes a trial; nil: there is no such route. Its errors are trial.ErrBusy, and those
	// of the registry.
	Try func(context.Context, trial.Request) (*trial.Report, error)

	// Logins signs WeChat accounts in; nil: there are no such routes. MayKeep returns a problem if no
	// token could be stored.
	Logins  *scan.Desk
	MayKeep func() error

	DeadAfter time.Duration // a replica that is silent for this long is not alive
}

// Add adds all routes.
func (r Intake) Add() {
	r.addKinds()
	r.addCheck()
	r.addLogins()
}
