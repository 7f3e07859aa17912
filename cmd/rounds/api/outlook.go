package api

import (
	"context"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/accounts/concern"
	"github.com/rounds-dev/rounds/accounts/history"
	"github.com/rounds-dev/rounds/accounts/problem"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/cmd/rounds/trail"
)

// This file has the routes that show how the service is doing, and what is wrong. They answer from
// what the monitors store, and never scan on request, except that the problems of a caller with
// labels are counted for it. Each noun has a file.

// Outlook has what these routes need. All fields are required, except where they say otherwise.
type Outlook struct {
	API  huma.API
	Ring *circulate.Ring

	// Registry returns the registry limited to the accounts that the caller sees.
	Registry func(context.Context) *accounts.Registry
	// ProblemsSeen returns the problems and the counts of the accounts that a caller with
	// labels sees, and false for other callers.
	ProblemsSeen func(context.Context) (problem.Summary, accounts.Stats, bool, error)
	// Problem returns what the caller may see of an error. doing says in a few words what
	// failed, for the log.
	Problem func(ctx context.Context, doing string, err error) error
	// Invalid returns the reply 422 for a parameter. location is for example query.from.
	Invalid func(location, reason string) error

	// Redis returns what is wrong with the Redis servers; nil: that is unknown.
	Redis func(context.Context) concern.Redis

	// Store returns where everything is stored; nil: that is unknown. While servers do not answer, it
	// returns what it last knew.
	Store func(context.Context) Store

	// Webhooks reports whether the process's settings name a file with webhook endpoints; nil:
	// they do not.
	Webhooks func() bool

	// Sole reports whether everything is in a data directory, which one process at a time has.
	Sole func(context.Context) bool

	DeadAfter time.Duration // a replica that is silent for so long is not alive

	Trail   *trail.Trail    // who changed what
	History *history.Reader // figures over time

	Demo *Demo // what visitors of a demonstration may do; nil: this is no demonstration, and there are no such routes
}

// Add adds all routes.
func (r Outlook) Add() {
	r.addHistory()
	r.addDemo()
	r.addLaw()
	r.addProblems()
	r.addConcerns()
	r.addTimeline()
	r.addLimits()
	r.addCredentials()
	r.addSystem()
}
