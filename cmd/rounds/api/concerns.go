package api

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/accounts/access"
	"github.com/rounds-dev/rounds/accounts/concern"
	"github.com/rounds-dev/rounds/cmd/rounds/trail"
)

// AcknowledgeRequest says that the caller has seen concerns.
type AcknowledgeRequest struct {
	_       struct{} `additionalProperties:"false"`
	Subject string   `json:"subject,omitempty" maxLength:"256" doc:"Only concerns about this subject; left out: all of the code."`
	Note    string   `json:"note,omitempty" maxLength:"512" doc:"What others should know."`
}

// SilenceRequest says which concerns are to trouble nobody, and for how long.
type SilenceRequest struct {
	_       struct{}  `additionalProperties:"false"`
	Subject string    `json:"subject,omitempty" maxLength:"256" doc:"Only concerns about this subject; left out: all of the code."`
	Until   time.Time `json:"until,omitzero" doc:"Within 30 days. Either until or lasts is needed."`
	Lasts   string    `json:"lasts,omitempty" example:"4h" doc:"For how long, such as 4h or 2d, in place of until."`
	Reason  string    `json:"reason" maxLength:"512" doc:"Why, for those who see it."`
}

// UnsilenceRequest says which concerns count again.
type UnsilenceRequest struct {
	_       struct{} `additionalProperties:"false"`
	Subject string   `json:"subject,omitempty" maxLength:"256" doc:"The subject that was given before."`
}

// ConcernCode is the concern in a path.
type ConcernCode struct {
	Code string `path:"code" maxLength:"64" doc:"The concern's code."`
}

// concernRoutes adds the routes with which people say something about concerns.
func (s *Server) concernRoutes(api huma.API) {
	operation := func(id, verb, summary, about string, errors ...int) huma.Operation {
		return huma.Operation{
			OperationID: id, Method: http.MethodPost, Path: "/v1/concerns/{code}/" + verb, Tags: []string{"service"},
			Summary: summary, Description: about, MaxBodyBytes: maxTermBody, Errors: append([]int{401, 422, 503}, errors...),
		}
	}
	register(s, api, "acknowledge concern", operation("acknowledge-concern", "acknowledge", "Say that you have seen a concern",
		"GET /v1/concerns then shows by whom, when, and the note. That holds until the concern begins anew, and 30 days at most.", 409), s.acknowledgeConcern)
	register(s, api, "silence concern", operation("silence-concern", "silence", "Have a concern trouble nobody for a while",
		"It is still shown, after the others, but healthy does not count it. Without a subject, the alerts that come with Rounds for the same reason do not fire either. That ends by itself.", 409), s.silenceConcern)
	register(s, api, "unsilence concern", operation("unsilence-concern", "unsilence", "Have a concern count again",
		"Ends a silence, and forgets an acknowledgement.", 404), s.unsilenceConcern)
}

// saying notes in the trail what somebody says about a concern, and returns who does.
func saying(ctx context.Context, code, subject string) (by string) {
	caller, _ := access.From(ctx)
	if subject != "" {
		code += " " + subject
	}
	trail.Of(ctx).Subject("concern", code)
	return caller.Name
}

// unsaid returns the reply to an error of what somebody says about a concern.
func unsaid(err error) error {
	var faults accounts.Faults
	switch {
	case errors.As(err, &faults):
		return faulty(faults)
	case errors.Is(err, concern.ErrFull):
		return newErrorReply(http.StatusConflict, "there are as many silences and acknowledgements as there may be; end one first")
	}
	return err
}

func (s *Server) acknowledgeConcern(ctx context.Context, r *struct {
	ConcernCode
	Body AcknowledgeRequest
}) (*struct{}, error) {
	by := saying(ctx, r.Code, r.Body.Subject)
	return nil, unsaid(concern.SilencesOf(s.options.Ring).Acknowledge(ctx, concern.Code(r.Code), r.Body.Subject, by, r.Body.Note))
}

func (s *Server) silenceConcern(ctx context.Context, r *struct {
	ConcernCode
	Body SilenceRequest
}) (*struct{}, error) {
	by := saying(ctx, r.Code, r.Body.Subject)
	now, err := s.options.Ring.Now(ctx, 0)
	if err != nil {
		return nil, err
	}
	var faults accounts.Faults
	until := termOf(r.Body.Until, r.Body.Lasts, now, &faults)
	if len(faults) > 0 {
		return nil, faulty(faults)
	}
	return nil, unsaid(concern.SilencesOf(s.options.Ring).Silence(ctx, concern.Code(r.Code), r.Body.Subject, until, by, r.Body.Reason))
}

func (s *Server) unsilenceConcern(ctx context.Context, r *struct {
	ConcernCode
	Body UnsilenceRequest
}) (*struct{}, error) {
	saying(ctx, r.Code, r.Body.Subject)
	there, err := concern.SilencesOf(s.options.Ring).Unsilence(ctx, concern.Code(r.Code), r.Body.Subject)
	if err == nil && !there {
		return nil, newErrorReply(http.StatusNotFound, "nothing was said about this concern, or it has ended")
	}
	return nil, err
}
