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

// Some types of replies belong to other packages. Under these names, readers of replies need no
// other package.

type (
	// Headroom is the time until a third party forgets messages that an account has not fetched.
	Headroom = accounts.Headroom
	// Law is what the audits say about the conservation law.
	Law = concern.Law
	// AuditResult is what one audit found.
	AuditResult = concern.AuditResult
	// Concerns are what is wrong with the service now.
	Concerns = concern.Concerns
	// Concern is one thing that is wrong.
	Concern = concern.Concern
	// ConcernStyle is how a sentence of a concern writes its parts.
	ConcernStyle = concern.Style
	// FailingGroup is the accounts that fail alike.
	FailingGroup = problem.FailingGroup
	// NextStep is what happens to failing accounts by itself.
	NextStep = problem.NextStep
	// Field describes a field of a config.
	Field = strict.Field
	// Words are a text in English and Chinese.
	Words = strict.Words
	// Trial is the report of a check by hand.
	Trial = trial.Report
	// Finding is what an audit found about one account.
	Finding = circulate.Finding
	// FindingCount is the number of findings of one kind.
	FindingCount = concern.FindingCount
	// Violation is a way in which the law is broken.
	Violation = circulate.Violation
	// Refusal is the reply to a failed request (RFC 9457).
	Refusal = huma.ErrorModel
	// Fault is one thing that is wrong with a request.
	Fault = huma.ErrorDetail
)

// ReasonText returns the reason in words for people; see accounts.ReasonText.
func (s *State) ReasonText() string { return accounts.ReasonText(s.Reason) }

// ReasonText returns the reason in words for people; see accounts.ReasonText.
func (s *Schedule) ReasonText() string { return accounts.ReasonText(s.Reason) }

// ReasonText returns the text of an event "parked" in words for people; see accounts.ReasonText.
func (e *TimelineEvent) ReasonText() string { return accounts.ReasonText(e.Text) }
