package api

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rounds-dev/rounds/accounts/latest"
)

// AccountCheck is how one check of an account went.
type AccountCheck struct {
	Time     time.Time `json:"time" doc:"When it ended."`
	Took     float64   `json:"seconds" doc:"How long it took, from its first call; of a call that the third party holds, that call."`
	Outcome  string    `json:"outcome" example:"ok" doc:"A word, as in checks of the account's schedule: ok, more, or what went wrong."`
	Error    string    `json:"error,omitempty" doc:"What went wrong, as a code and a sentence."`
	Status   int       `json:"status,omitempty" doc:"Of the last answer over HTTP; left out: there was none, or the kind speaks another protocol."`
	Bytes    int64     `json:"bytes" doc:"Over HTTP the bodies of all answers together, unpacked, as far as they were read; of a mailbox all that its server sent, with TLS."`
	Messages int       `json:"messages" doc:"How many messages it found."`
}

// AccountChecks are the latest checks of an account.
type AccountChecks struct {
	Checks []AccountCheck `json:"checks" nullable:"false" doc:"At most 20, the latest first."`
	Asked  bool           `json:"asked,omitempty" doc:"Nobody had looked for ten minutes, so pollers are only now asked for the account's checks. Ask again after some seconds."`
}

// checkRoutes adds the route of an account's latest checks.
func (s *Server) checkRoutes(api huma.API) {
	answer(s, api, "list account's checks", huma.Operation{
		OperationID: "list-account-checks", Method: http.MethodGet, Path: "/v1/accounts/{id}/checks", Tags: []string{"accounts"},
		Summary: "The latest checks of an account",
		Description: "Pollers report the checks of an account that somebody looks at: within about a heartbeat those that they remember, and further ones for ten minutes after each look. " +
			"A poller remembers its latest 4,096 checks, of all accounts together. At most 100 accounts are looked at at once. Pollers of earlier versions report nothing.",
		Errors: []int{401, 404, 503},
	}, s.listChecks)
}

func (s *Server) listChecks(ctx context.Context, r *AccountID) (AccountChecks, error) {
	now, err := s.registry(ctx).Get(ctx, r.ID)
	if err != nil {
		return AccountChecks{}, err
	}
	// Checks from before the registration are of another account of this id.
	all, first, err := latest.Of(s.options.Ring).Look(ctx, r.ID, now.Revision.Created)
	return AccountChecks{Asked: first, Checks: each(all, func(c *latest.Check) AccountCheck {
		return AccountCheck{Time: inUTC(c.At), Took: c.Took.Seconds(), Outcome: c.Outcome, Error: c.Error, Status: c.Status, Bytes: c.Bytes, Messages: c.Messages}
	})}, err
}
