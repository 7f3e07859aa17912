package api

import (
	"context"

	"github.com/rounds-dev/rounds/accounts"
)

// ResumeRequest says from where a resumed account goes on.
type ResumeRequest struct {
	_    struct{}            `additionalProperties:"false"`
	From accounts.ResumeFrom `json:"from,omitempty" enum:"cursor,now,backfill" default:"cursor" doc:"cursor: where its last check ended. now: what came before it was resumed is passed over, by the messages' own times; those without a time are passed over until it has caught up, for a day at most. backfill: it forgets how far it had got, so that everything is found that the third party still has, some of it once more under the same message ids."`
}

type resumeInput struct {
	AccountID
	RawBody []byte `contentType:"application/json"`
}

func (s *Server) resumeAccount(ctx context.Context, r *resumeInput) (*accountReply, error) {
	from, err := accounts.DecodeResumption(r.RawBody)
	if err != nil {
		return nil, s.problem(ctx, "resume account", err)
	}
	return s.viewed(ctx, "resume account")(s.registry(ctx).ResumeFrom(ctx, r.ID, from))
}
