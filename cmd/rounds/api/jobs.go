package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/accounts/access"
	"github.com/rounds-dev/rounds/accounts/activity"
	"github.com/rounds-dev/rounds/accounts/job"
	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/cmd/rounds/trail"
)

// Job is a change of many accounts that processes of the API do in the background.
type Job struct {
	ID     string              `json:"id" doc:"The job's id."`
	Action accounts.Action     `json:"action" enum:"pause,resume,delete,nudge,retry,set" doc:"What it does to each account."`
	Undoes string              `json:"undoes,omitempty" doc:"The job that it takes back."`
	Select map[string][]string `json:"select" nullable:"false" doc:"The parameters by which it selects accounts; empty: it selects all."`
	Set    any                 `json:"set,omitempty" doc:"With set: the values, as a JSON merge patch of the records."`
	By     string              `json:"by,omitempty" doc:"Who ordered it."`

	State   job.State `json:"state" enum:"running,stopping,stopped,ended" doc:"running: a process works on it, or will within 20 seconds. stopping: it stops after its current step. stopped: it can be resumed for a week. ended: everything was done."`
	Share   float64   `json:"share" minimum:"0" maximum:"1" doc:"About how much of it is done, from 0 to 1."`
	Created time.Time `json:"created" doc:"When it was ordered."`
	Ended   time.Time `json:"ended,omitzero" doc:"When it ended or was stopped."`

	Seen      int         `json:"seen" doc:"Accounts that were looked at."`
	Matched   int         `json:"matched" doc:"Selected accounts."`
	Changed   int         `json:"changed" doc:"Accounts that were changed."`
	Unchanged int         `json:"unchanged" doc:"Accounts that were not changed, for one of the reasons."`
	Unknown   int         `json:"unknown,omitempty" doc:"Accounts of which nobody knows whether they were changed: no process worked on the job for a week."`
	Reasons   []JobReason `json:"reasons" nullable:"false" doc:"Why accounts were not changed, the most frequent first."`
	Restarts  int         `json:"restarts,omitempty" doc:"How often it began anew because the number of shards changed. Accounts may then be counted twice."`

	UndoUntil time.Time `json:"undo_until,omitzero" doc:"Until when it can be taken back; left out if it cannot."`
	Undone    string    `json:"undone,omitempty" doc:"The job that takes it back, or did."`
}

// JobReason is the accounts that a job, or another change of many, did not change for one reason.
type JobReason struct {
	Reason   string   `json:"reason" enum:"paused,parked,active,same,refused,gone,changed" doc:"paused: it is paused. parked: it is parked for a reason that is not selected. active: it circulates. same: it has these values already. refused: its record would not be valid. gone: it was deleted meanwhile. changed: somebody else changed it meanwhile."`
	Count    int      `json:"count" doc:"How many accounts."`
	Examples []string `json:"examples" nullable:"false" doc:"The ids of a few of them."`
}

// JobList is the jobs.
type JobList struct {
	Jobs []Job `json:"jobs" nullable:"false" doc:"The latest first; at most 50. An ended job is removed after a day, a stopped one after a week."`
}

// JobID is the job in a path. It is exported because huma ignores unexported embedded fields.
type JobID struct {
	ID string `path:"id" maxLength:"128" doc:"The job's id."`
}

// jobRoutes adds the routes of jobs.
func (s *Server) jobRoutes(api huma.API) {
	answer(s, api, "list jobs", huma.Operation{
		OperationID: "list-jobs", Method: http.MethodGet, Path: "/v1/jobs", Tags: []string{"transfer"},
		Summary: "List jobs", Description: "Changes of many accounts that were ordered with job=true, under way or ended.",
		Errors: []int{401, 503},
	}, s.listJobs)
	answer(s, api, "get job", huma.Operation{
		OperationID: "get-job", Method: http.MethodGet, Path: "/v1/jobs/{id}", Tags: []string{"transfer"},
		Summary: "Get a job", Description: "How far it is.", Errors: []int{401, 404, 422, 503},
	}, func(ctx context.Context, r *JobID) (Job, error) { return s.jobReply(s.getJob(ctx, r.ID)) })
	change := func(verb, summary, description string, do func(context.Context, access.Principal, string) (job.Job, error)) {
		answer(s, api, verb+" job", huma.Operation{
			OperationID: verb + "-job", Method: http.MethodPost, Path: "/v1/jobs/{id}/" + verb, Tags: []string{"transfer"},
			Summary: summary, Description: description + " The caller needs the role that the job's action needs.", Errors: []int{401, 403, 404, 409, 422, 503},
		}, func(ctx context.Context, r *JobID) (Job, error) { return s.changeJob(ctx, r.ID, do) })
	}
	change("stop", "Stop a job", "It stops after its current step of at most 100 accounts. What was changed stays so.", s.jobs.Stop)
	change("resume", "Go on with a stopped job", "It goes on where it stopped.", s.jobs.Resume)
	change("undo", "Take a job back", fmt.Sprintf("For an hour after its end: what the job paused is resumed, and the values that it set become what they were. The reply is another job, which does that, and leaves out accounts that somebody changed since. A job that changed more than %d accounts, or that deleted, resumed or nudged, cannot be taken back.", job.MostUndo), s.jobs.Undo)
}

func (s *Server) listJobs(ctx context.Context, _ *struct{}) (JobList, error) {
	p, _ := access.From(ctx)
	jobs, err := s.jobs.List(ctx, p)
	return JobList{each(jobs, jobOf)}, err
}

func (s *Server) getJob(ctx context.Context, id string) (job.Job, error) {
	p, _ := access.From(ctx)
	return s.jobs.Get(ctx, p, id)
}

func (s *Server) jobReply(j job.Job, err error) (Job, error) {
	if err != nil {
		return Job{}, jobError(err)
	}
	return jobOf(&j), nil
}

// changeJob does something to a job, for callers who may do what the job does.
func (s *Server) changeJob(ctx context.Context, id string, do func(context.Context, access.Principal, string) (job.Job, error)) (Job, error) {
	draft := trail.Of(ctx)
	draft.Subject("job", id)
	j, err := s.getJob(ctx, id)
	if err != nil {
		return Job{}, jobError(err)
	}
	draft.Select(j.Select)
	p, _ := access.From(ctx)
	for _, right := range Rights() {
		if right.Route == bulkRoute(j.Action) {
			if refused := forbidden(p, right); refused != nil {
				return Job{}, refused
			}
		}
	}
	return s.jobReply(do(ctx, p, id))
}

// jobError returns an error of a job as a reply, if the caller caused it.
func jobError(err error) error {
	for _, known := range []struct {
		err   error
		reply *errorReply
	}{
		{job.ErrNotFound, newErrorReply(http.StatusNotFound, "there is no such job; an ended one is removed after a day")},
		{job.ErrFull, newErrorReply(http.StatusConflict, "there are 50 jobs that have not ended: wait until one has, or stop one")},
		{job.ErrEnded, newErrorReply(http.StatusConflict, "the job has ended")},
		{job.ErrUndone, newErrorReply(http.StatusConflict, "the job was taken back")},
		{job.ErrUnderWay, newErrorReply(http.StatusConflict, "the job is under way: stop it first")},
		{job.ErrNoUndo, newErrorReply(http.StatusConflict, "only a pause and a change of cadence, priority or labels can be taken back, if accounts were changed")},
		{job.ErrTooMany, newErrorReply(http.StatusConflict, "the job changed too many accounts to be taken back")},
		{job.ErrTooLate, newErrorReply(http.StatusConflict, "the job can no longer be taken back: its hour has passed")},
		{job.ErrBusy, unavailable("others keep changing the job: try again")},
	} {
		if errors.Is(err, known.err) {
			return known.reply
		}
	}
	return err
}

func jobOf(j *job.Job) Job {
	out := Job{
		ID: j.ID, Action: j.Action, Undoes: j.Undoes, Select: j.Select, By: j.By,
		State: j.State, Share: j.Share(), Created: j.Created.UTC(), Ended: inUTC(j.Ended),
		Seen: j.Seen, Matched: j.Matched, Changed: j.Changed, Unchanged: j.Unchanged.Sum(), Unknown: j.Unknown, Reasons: reasonsOf(j.Unchanged), Restarts: j.Restarts,
		UndoUntil: inUTC(j.Undoable()), Undone: j.Undone,
	}
	if out.Select == nil {
		out.Select = map[string][]string{}
	}
	if len(j.Set) > 0 {
		_ = json.Unmarshal(j.Set, &out.Set) // validated before
	}
	return out
}

// reasonsOf returns reasons, the most frequent first.
func reasonsOf(reasons accounts.Reasons) []JobReason {
	out := []JobReason{}
	for why, r := range reasons {
		out = append(out, JobReason{Reason: why, Count: r.Count, Examples: append([]string{}, r.Examples...)})
	}
	slices.SortFunc(out, func(a, b JobReason) int {
		if a.Count != b.Count {
			return b.Count - a.Count
		}
		return strings.Compare(a.Reason, b.Reason)
	})
	return out
}

// startJob has a change of many accounts done as a job.
func (s *Server) startJob(w http.ResponseWriter, r *http.Request, b accounts.Bulk) {
	p, _ := access.From(r.Context())
	j, err := s.jobs.Start(r.Context(), job.Order{
		Action: b.Action, Select: selection(r), Set: b.Set, Rate: b.Rate, By: p.Name, Via: p.Via, Labels: p.Labels,
	})
	if err != nil {
		s.errorReply(r.Context(), "start job", jobError(err)).write(w, r)
		return
	}
	draft := trail.Of(r.Context())
	draft.Subject("job", j.ID)
	draft.Fields(setFields(b.Set))
	w.Header().Set("Location", "/v1/jobs/"+j.ID)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusAccepted)
	_ = json.NewEncoder(w).Encode(jobOf(&j)) // a caller that has gone needs no answer
}

// setFields returns the names of the fields that a merge patch sets.
func setFields(set json.RawMessage) (names []string) {
	fields, _ := strict.Members(set)
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if labels, ok := strict.Members(fields[name]); ok {
			for _, label := range slices.Sorted(maps.Keys(labels)) {
				names = append(names, name+"."+label)
			}
			continue
		}
		names = append(names, name)
	}
	return names
}

// RunJobs works on jobs until ctx is done.
func (s *Server) RunJobs(ctx context.Context) error { return s.jobs.Run(ctx) }

// jobEnded adds the result of a job to the trail, in the name of whoever ordered it, and has charts
// point to it.
func (s *Server) jobEnded(ctx context.Context, j job.Job) {
	s.options.JobMetrics.ended(j)
	action := string(j.Action) + "-accounts"
	if j.Undoes != "" {
		action = "undo-job"
	}
	e := trail.Entry{
		By: j.By, Via: j.Via, Action: action, Outcome: trail.Done, Subject: "job " + j.ID, Selector: j.Selector(), Fields: setFields(j.Set),
		Counts: map[string]int{"matched": j.Matched, "changed": j.Changed, "unchanged": j.Unchanged.Sum(), "unknown": j.Unknown},
	}
	maps.DeleteFunc(e.Counts, func(_ string, n int) bool { return n == 0 })
	if j.Unknown > 0 {
		e.Outcome = trail.Unknown
	}
	s.options.Trail.Add(ctx, e)
	at, err := s.options.Ring.Now(ctx, 0)
	if err == nil {
		err = activity.NewKeeper(s.options.Ring).Mark(ctx, activity.Mark{At: at, Kind: activity.MarkBulk, Subject: action, Count: j.Changed})
	}
	if err != nil {
		s.options.Log.DebugContext(ctx, "charts do not show a bulk change", "error", err)
	}
}
