package api

import (
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/accounts/trail"
)

// BulkProgress is how far something is that is done to many accounts, or what it
// came to.
type BulkProgress struct {
	Seen      int `json:"seen" doc:"Accounts that were looked at."`
	Matched   int `json:"matched" doc:"Of them that are selected."`
	Changed   int `json:"changed" doc:"Or would be, in a dry run."`
	Unchanged int `json:"unchanged" doc:"Are so already, are parked for another reason and were not meant, or went away meanwhile."`
	Failed    int `json:"failed" doc:"To which nothing was done, because Redis refused or could not be reached."`
	Unknown   int `json:"unknown" doc:"Whose step was cut off: it may have been done. To do all again is safe and finds out."`
}

// BulkLine is a line of the reply of a route that changes many accounts: progress,
// or as the last the summary.
type BulkLine struct {
	Progress *BulkProgress `json:"progress,omitempty" doc:"How far it is, twice a second."`
	Error    string        `json:"error,omitempty" doc:"With the summary: why it stopped before its end. To do all again is safe."`
	Summary  *BulkProgress `json:"summary,omitempty" doc:"The last line: what it came to."`
}

// bulk does something to all accounts that the query selects, and answers while
// it does so.
func (s *Server) bulk(action accounts.Action) http.HandlerFunc {
	doing := string(action) + " accounts"
	return func(w http.ResponseWriter, r *http.Request) {
		job, err := readBulk(action, r)
		if err != nil {
			badQuery(err).write(w)
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
			s.problem(ctx, doing, err).write(w)
			return
		}
		connection := http.NewResponseController(w)
		_ = connection.SetReadDeadline(time.Time{}) // nothing more is read, and that must not end it
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
			last.Error = fmt.Sprintf("%s stopped: to do all again is safe: %s", action, s.problem(ctx, doing, err).Detail)
		}
		_ = reply.write(last) // a caller that has gone needs no answer
		reply.flush()
	}
}

// noteBulk has the trail tell what a change of many accounts came to.
func noteBulk(draft *trail.Draft, done accounts.Progress, err error) {
	for _, c := range []struct {
		what string
		n    int
	}{{"matched", done.Matched}, {"changed", done.Changed}, {"unchanged", done.Unchanged}, {"failed", done.Failed}, {"unknown", done.Unknown}} {
		draft.Count(c.what, c.n)
	}
	switch {
	case done.Unknown > 0:
		draft.End(trail.Unknown)
	case err != nil:
		draft.End(trail.Failed)
	}
}

// readBulk reads what is to be done to which accounts. All of it stands in the
// query: a body would be a selector that is passed over.
func readBulk(action accounts.Action, r *http.Request) (accounts.Bulk, error) {
	job := accounts.Bulk{Action: action}
	var values map[string]string
	var err error
	var faults accounts.Faults
	if job.Selector, values, err = readQuery(r, "all", "dry_run"); err != nil {
		errors.As(err, &faults)
	}
	var more accounts.Faults
	job.All, more = readFlag(values, "all")
	faults = append(faults, more...)
	job.DryRun, more = readFlag(values, "dry_run")
	faults = append(faults, more...)
	if r.ContentLength != 0 {
		faults = append(faults, accounts.Fault{Field: accounts.RecordField, Reason: "must say all that is wanted: the route takes no body"})
	}
	if len(faults) == 0 {
		return job, job.Validate()
	}
	return job, faults
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
	}[action]
	about := map[accounts.Action]string{
		accounts.PauseAll:  "What is parked for another reason stays so, unless state=parked or a reason selects it.",
		accounts.ResumeAll: "Paused ones, or those parked for any reason where state=parked or a reason selects them. Each is due at its next phase slot, so that they do not all start together, its failures forgotten.",
		accounts.DeleteAll: "For good; their messages stay.",
	}[action]
	return d.problems(&huma.Operation{
		OperationID: string(action) + "-accounts", Method: http.MethodPost, Path: "/v1/accounts:" + string(action), Tags: []string{"transfer"},
		Summary: summary,
		Description: about + " The parameters select accounts, as they are when they are looked at; an account needs to fit all of them. There is no body.\n\n" +
			"The reply begins at once: lines that say how far it is, and a summary as the last. If that has an error, or is missing, it stopped; to do all again is safe. It stops when the caller goes away.",
		Parameters: selecting(flag("all", "Every account is meant: refused without it where nothing is selected."), flag("dry_run", "Only count.")),
		Responses: map[string]*huma.Response{"200": {
			Description: "Lines of JSON", Content: map[string]*huma.MediaType{"application/x-ndjson": d.media(reflect.TypeFor[BulkLine]())},
		}},
	}, http.StatusUnauthorized, http.StatusUnprocessableEntity, http.StatusServiceUnavailable)
}
