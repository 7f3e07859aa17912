package api

import (
	"fmt"
	"net/http"
	"reflect"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/cmd/rounds/trail"
)

// BulkProgress is how far a change of many accounts has got, or its result.
type BulkProgress struct {
	Seen      int `json:"seen" doc:"Accounts that were looked at."`
	Matched   int `json:"matched" doc:"Selected accounts."`
	Changed   int `json:"changed" doc:"Accounts that were changed, or would be in a dry run."`
	Unchanged int `json:"unchanged" doc:"Accounts that needed no change, are parked for another reason, or were deleted meanwhile."`
	Failed    int `json:"failed" doc:"Accounts that were not changed, because Redis refused or could not be reached."`
	Unknown   int `json:"unknown" doc:"Accounts whose step was cut off: they may have been changed. Repeating the request is safe, and shows whether they were."`
}

// BulkLine is a line of the reply to a change of many accounts: progress, or in the last line
// the summary.
type BulkLine struct {
	Progress *BulkProgress `json:"progress,omitempty" doc:"The progress, twice a second."`
	Error    string        `json:"error,omitempty" doc:"With the summary: why the change stopped before its end. Repeating the request is safe."`
	Summary  *BulkProgress `json:"summary,omitempty" doc:"The last line: the result."`
}

func bulkActions() []accounts.Action {
	return []accounts.Action{accounts.PauseAll, accounts.ResumeAll, accounts.DeleteAll, accounts.NudgeAll}
}

// bulk applies an action to all accounts that the query selects, and replies with its progress.
func (s *Server) bulk(action accounts.Action) http.HandlerFunc {
	doing := string(action) + " accounts"
	return func(w http.ResponseWriter, r *http.Request) {
		job, err := readBulk(action, r)
		if err != nil {
			badQuery(err).write(w, r)
			return
		}
		draft := trail.Of(r.Context())
		draft.Select(selection(r))
		if job.DryRun {
			draft.LookOnly()
		}
		ctx, end := s.stream(r)
		defer end()
		// Once the reply has begun its status cannot change.
		if _, err := s.options.Ring.Now(ctx, 0); err != nil {
			s.errorReply(ctx, doing, err).write(w, r)
			return
		}
		connection := http.NewResponseController(w)
		_ = connection.SetReadDeadline(time.Time{}) // nothing more is read, and a deadline must not end the request
		w.Header().Set("Content-Type", "application/x-ndjson")
		reply := newLineWriter(w, connection)
		reply.flush()
		done, err := s.registry(ctx).Bulk(ctx, job, func(p accounts.Progress) error {
			progress := BulkProgress(p)
			if err := reply.write(BulkLine{Progress: &progress}); err != nil {
				return err
			}
			reply.flush()
			return reply.out.err
		})
		noteBulk(draft, done, err)
		if reply.out.err != nil {
			return // the caller has gone
		}
		summary := BulkProgress(done)
		last := BulkLine{Summary: &summary}
		if err != nil {
			last.Error = fmt.Sprintf("%s stopped; repeating it is safe: %s", action, s.errorReply(ctx, doing, err).Detail)
		}
		_ = reply.write(last) // a caller that has gone needs no answer
		reply.flush()
	}
}

// noteBulk adds the result of a change of many accounts to its entry in the trail.
func noteBulk(draft *trail.Draft, done accounts.Progress, err error) {
	draft.Counts(map[string]int{"matched": done.Matched, "changed": done.Changed, "unchanged": done.Unchanged, "failed": done.Failed, "unknown": done.Unknown})
	switch {
	case done.Unknown > 0:
		draft.End(trail.Unknown)
	case err != nil:
		draft.End(trail.Failed)
	}
}

// readBulk reads a Bulk from the query alone. It refuses a body, because a selector in a body would
// be ignored.
func readBulk(action accounts.Action, r *http.Request) (accounts.Bulk, error) {
	others := []string{"all", "dry_run"}
	if action == accounts.NudgeAll {
		others = append(others, "rate")
	}
	q := readQuery(r, true, others...)
	job := accounts.Bulk{Action: action, Selector: q.selector, All: q.flag("all"), DryRun: q.flag("dry_run")}
	if text, ok := q.values["rate"]; ok {
		// Once parsed, 0 and a missing parameter would look the same.
		rate, err := strconv.ParseFloat(text, 64)
		if err != nil || rate == 0 {
			q.faults.Add("rate", "must be a number of accounts a second, more than 0")
		}
		job.Rate = rate
	}
	if r.ContentLength != 0 {
		q.faults.Add(accounts.RecordField, "must have everything: the route takes no body")
	}
	if len(q.faults) > 0 {
		return job, q.faults
	}
	return job, job.Validate()
}

// bulk describes one of the routes.
func (d describer) bulk(action accounts.Action) *huma.Operation {
	flag := func(name, description string) *huma.Param {
		return &huma.Param{Name: name, In: "query", Schema: &huma.Schema{Type: huma.TypeBoolean, Default: false}, Description: description}
	}
	summary := map[accounts.Action]string{
		accounts.PauseAll:  "Take many accounts out of circulation",
		accounts.ResumeAll: "Bring many paused accounts back",
		accounts.DeleteAll: "Delete many accounts",
		accounts.NudgeAll:  "Check many accounts sooner",
	}[action]
	about := map[accounts.Action]string{
		accounts.PauseAll:  "An account that is parked for another reason stays so, unless state=parked or a reason selects it.",
		accounts.ResumeAll: "Paused accounts, and others that are parked if state=parked or a reason selects them. Each is due at its next phase slot, so that they do not all start together, and its failures are forgotten.",
		accounts.DeleteAll: "For good. Their messages stay.",
		accounts.NudgeAll:  "One after the other, at a rate, so that they do not all start together. No check comes later than it would. A parked account stays as it is.",
	}[action]
	parameters := selecting(flag("all", "Select every account. A request that selects nothing is refused without it."), flag("dry_run", "Only count."))
	if action == accounts.NudgeAll {
		least, most := accounts.MinReviveRate, float64(accounts.MaxReviveRate)
		parameters = append(parameters, &huma.Param{
			Name: "rate", In: "query", Description: "How many accounts become due in a second.",
			Schema: &huma.Schema{Type: huma.TypeNumber, Minimum: &least, Maximum: &most, Default: accounts.NudgeRate},
		})
	}
	return d.problems(&huma.Operation{
		OperationID: string(action) + "-accounts", Method: http.MethodPost, Path: "/v1/accounts:" + string(action), Tags: []string{"transfer"},
		Summary: summary,
		Description: about + " The parameters select accounts by their state at the moment when each is looked at. An account must match all parameters. There is no body.\n\n" +
			"The reply begins at once: lines with the progress, and a summary as the last line. If the summary has an error, or is missing, the change stopped. Repeating the request is safe. The change stops when the caller goes away.",
		Parameters: parameters,
		Responses:  lines(d.media(reflect.TypeFor[BulkLine]())),
	}, http.StatusUnauthorized, http.StatusUnprocessableEntity, http.StatusServiceUnavailable)
}
