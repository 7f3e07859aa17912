package api

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/accounts/concern"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/cmd/rounds/trail"
)

// Audit is the result of a check of the conservation law.
type Audit struct {
	Accounts int                 `json:"accounts" doc:"Registered accounts that were checked."`
	Unjudged int                 `json:"unjudged" doc:"Accounts in lists that changed too fast to be read. Audit again."`
	Kinds    []FindingCount      `json:"kinds" nullable:"false" doc:"The numbers of findings, by kind. Kinds without findings are left out."`
	Findings []circulate.Finding `json:"findings" nullable:"false" doc:"The first 1000 findings."`
	Audited  int                 `json:"shards_audited" doc:"Audited shards so far, including earlier requests."`
	Shards   int                 `json:"shards" doc:"The number of shards."`
	Next     string              `json:"next,omitempty" doc:"The cursor for the next request; left out when the audit is complete."`
}

// auditRoutes adds the routes that check the conservation law, and say whether it holds.
func (s *Server) auditRoutes(api huma.API) {
	const bound = " A request ends after the shard that brings it to 20,000 accounts. If the reply has a next, ask again with it. Repeating a request is safe."
	answer(s, api, "audit", huma.Operation{
		OperationID: "get-audit", Method: http.MethodGet, Path: "/v1/audit", Tags: []string{"service"},
		Summary: "Check the conservation law",
		Description: "Every registered account is in exactly one place: scheduled, waiting, claimed or parked. " +
			"lost: in no place; doubled: in several; orphan: scheduled or parked but not registered; no_record: registered without a record; garbage: a text in a list that is not an entry; beyond: scheduled later than it can be due; unowned: the memory of an account that is not registered; misplaced: a send that is not where its state demands, or whose account is gone." + bound,
		Errors: []int{401, 422, 503},
	}, func(ctx context.Context, r *auditRequest) (Audit, error) { return s.audit(ctx, r, false) })
	answer(s, api, "audit", huma.Operation{
		OperationID: "repair-audit", Method: http.MethodPost, Path: "/v1/audit:repair", Tags: []string{"service"},
		Summary: "Check the conservation law, and repair the findings",
		Description: "A lost account is due at once, or registered again from its record. A doubled one stays in one place. An orphan is set aside. An account without a record is parked until it is registered again or deleted. An account scheduled beyond its time is due at its next slot. Memory of accounts that are not registered is forgotten. A misplaced send is put in its place, or forgotten with its account. " +
			"The next claim sets garbage aside." + bound,
		Errors: []int{401, 422, 503},
	}, func(ctx context.Context, r *auditRequest) (Audit, error) { return s.audit(ctx, r, true) })
	answer(s, api, "read law", huma.Operation{
		OperationID: "get-law", Method: http.MethodGet, Path: "/v1/law", Tags: []string{"service"},
		Summary: "What audits have found about the conservation law",
		Description: "The law: every registered account is in exactly one place. The monitor on duty audits all accounts again and again, slowly. The reply has the last complete audit, and how far the running one is. " +
			"An audit over this API, GET /v1/audit or POST /v1/audit:repair, counts as the last one when it is complete.",
		Errors: []int{401, 503},
	}, func(ctx context.Context, _ *struct{}) (concern.Law, error) { return concern.Read(ctx, s.options.Ring) })
}

type auditRequest struct {
	Cursor string `query:"cursor" doc:"The previous reply's next."`
}

func (s *Server) audit(ctx context.Context, r *auditRequest, repair bool) (Audit, error) {
	began := time.Now()
	done, err := s.registry(ctx).Audit(ctx, accounts.AuditQuery{Repair: repair, Cursor: r.Cursor})
	if err != nil {
		return Audit{}, err
	}
	kinds := concern.CountsOf(func(kind circulate.Violation) (found, repaired int) { return done.Found[kind], done.Repaired[kind] })
	s.noteAudit(ctx, &done, kinds, time.Since(began))
	draft := trail.Of(ctx)
	draft.Count("audited", done.Accounts)
	reply := Audit{
		Accounts: done.Accounts, Unjudged: done.Unjudged, Kinds: kinds, Findings: done.Findings,
		Audited: done.Audited, Shards: done.Shards, Next: done.Next,
	}
	for _, c := range kinds {
		draft.Count(string(c.Kind), c.Found)
		draft.Count("repaired", c.Repaired)
	}
	return reply, nil
}

// noteAudit stores what a call has found, for GET /v1/law. The audit goes on if that fails.
func (s *Server) noteAudit(ctx context.Context, done *accounts.Audited, kinds []FindingCount, took time.Duration) {
	err := concern.ByHand(ctx, s.options.Ring, concern.Part{
		From: done.From, To: done.Audited, Took: took, Accounts: done.Accounts, Unjudged: done.Unjudged, Kinds: kinds, Findings: done.Findings,
	})
	if err != nil {
		s.options.Log.WarnContext(ctx, "the result of an audit could not be stored", "error", err)
	}
}
