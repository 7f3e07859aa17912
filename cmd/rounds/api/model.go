package api

import (
	"github.com/danielgtaylor/huma/v2"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/accounts/concern"
	"github.com/rounds-dev/rounds/accounts/problem"
	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/accounts/trial"
	"github.com/rounds-dev/rounds/circulate"
)

// Headroom and the other types of replies belong to other packages. Under these names a reader of
// replies needs no other package.
type (
	Headroom     = accounts.Headroom
	Law          = concern.Law
	AuditResult  = concern.AuditResult
	Concerns     = concern.Concerns
	Concern      = concern.Concern
	ConcernStyle = concern.Style
	FailingGroup = problem.FailingGroup
	NextStep     = problem.NextStep
	Field        = strict.Field
	Words        = strict.Words
	Trial        = trial.Report
	Finding      = circulate.Finding
	Violation    = circulate.Violation

	// Refusal is the reply to a request that fails (RFC 9457), and Fault one thing that is
	// wrong with the request.
	Refusal = huma.ErrorModel
	Fault   = huma.ErrorDetail
)

// ReasonText returns the reason as people read it; see accounts.ReasonText.
func (s *State) ReasonText() string { return accounts.ReasonText(s.Reason) }

// ReasonText returns the reason as people read it; see accounts.ReasonText.
func (s *Schedule) ReasonText() string { return accounts.ReasonText(s.Reason) }

// ReasonText returns the text of an event "parked" as people read it; see accounts.ReasonText.
func (e *TimelineEvent) ReasonText() string { return accounts.ReasonText(e.Text) }
