package api

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/accounts/concern"
	"github.com/rounds-dev/rounds/accounts/problem"
)

// Problems is what the monitor on duty found out about accounts that are checked in vain.
type Problems struct {
	Now time.Time `json:"now" doc:"The time of the answer, by Redis' clock."`
	problem.Summary
	Late Late `json:"late" doc:"Accounts that are checked too late or not at all, whether or not they fail, from the last scan of all accounts, which may take a while."`
}

// Late is the accounts that missed slots of their cadence.
type Late struct {
	At       time.Time  `json:"at,omitzero" doc:"When the scan ended; missing if there was none."`
	Accounts int        `json:"accounts" doc:"Accounts for which three slots of their cadence or more, and at least three minutes, have passed since a check last succeeded completely. An interval below a minute counts as a minute."`
	Most     int        `json:"missed_slots_max" doc:"The most slots that an account missed, with an interval below a minute counted as a minute. A thousand may also mean more."`
	Example  string     `json:"example,omitempty" doc:"The id of an account that missed that many."`
	Kinds    []LateKind `json:"kinds" nullable:"false" doc:"The same by kind."`

	Moving bool `json:"shards_change,omitempty" doc:"While the scan ran, the number of shards was being changed: accounts that moved meanwhile may be counted twice."`
}

// LateKind is the late accounts of a kind.
type LateKind struct {
	Kind     string `json:"kind"`
	Accounts int    `json:"accounts"`
}

type problemsRequest struct {
	State []string `query:"state,explode" enum:"failing,newly,never_succeeded,parked" doc:"Only groups with accounts in one of these states."`
	Kind  []string `query:"kind,explode" doc:"Only groups of one of these kinds."`
	Host  []string `query:"host,explode" doc:"Only groups of one of these hosts or corporations alone."`
	Cause []string `query:"cause,explode" doc:"Only groups of one of these causes or codes."`

	Counts bool `query:"counts" doc:"Leaves out all groups, which costs less."`
}

// has reports whether the request asks for a group.
func (r *problemsRequest) has(g *problem.FailingGroup) bool {
	states := map[string]int{"failing": g.Failing, "newly": g.Newly, "never_succeeded": g.NeverSucceeded, "parked": g.Parked}
	in := func(asked []string, has ...string) bool {
		return len(asked) == 0 || slices.ContainsFunc(asked, func(text string) bool { return slices.Contains(has, text) })
	}
	return in(r.Kind, g.Kind) && in(r.Cause, g.Cause, g.Code) &&
		(len(r.Host) == 0 || g.Host != "" && slices.ContainsFunc(r.Host, func(host string) bool {
			return strings.EqualFold(host, g.Host) || strings.EqualFold(host, accounts.WithoutPort(g.Host))
		})) &&
		(len(r.State) == 0 || slices.ContainsFunc(r.State, func(state string) bool { return states[state] > 0 }))
}

// problemRoutes adds the routes that show what is checked in vain, and what is wrong now.
func (s *Server) problemRoutes(api huma.API) {
	answer(s, api, "read problems", huma.Operation{
		OperationID: "get-problems", Method: http.MethodGet, Path: "/v1/problems", Tags: []string{"service"},
		Summary: "Failing and parked accounts, grouped",
		Description: "Accounts that fail, and those that are parked for a failure, grouped by kind, by the host or corporation that they are checked at, and by what went wrong. " +
			"Failures that differ only in numbers, ids, times, quoted words, addresses or the host are the same. " +
			"The monitor on duty makes this summary every 45 seconds, and the answer is the last one: at says how old it is, and is left out if there is none yet. " +
			"A host has a group of its own from five accounts on, or if there are at most three such hosts; the others of the same kind and cause share one. " +
			"The parameters choose among the groups; the counts are of all groups. " +
			"The field select of a group has the parameters for GET /v1/accounts, GET /v1/accounts:export, POST /v1/accounts:pause and the like that select its accounts.\n\n" +
			"With a key that is bound to labels, the answer is only about the key's own accounts. They are counted for the request, and the counts are used for half a minute.",
		Errors: []int{401, 422, 503},
	}, s.getProblems)
	answer(s, api, "list concerns", huma.Operation{
		OperationID: "list-concerns", Method: http.MethodGet, Path: "/v1/concerns", Tags: []string{"service"},
		Summary: "What is wrong now",
		Description: "Each concern is a code with parameters, and an English sentence. Similar concerns are one, with a count. They come from what replicas, processes and the monitor on duty report; no account is looked at. " +
			"A concern ends when its cause has ended. Without a monitor, what only a monitor sees is left out, and that is a concern itself.",
		Errors: []int{401, 503},
	}, s.listConcerns)
	s.concernRoutes(api)
}

func (s *Server) getProblems(ctx context.Context, r *problemsRequest) (Problems, error) {
	found, now, late, err := s.problems(ctx, r.Counts)
	if r.Counts {
		found.Groups = nil
	}
	// A copy: callers with the same labels share the groups.
	found.Groups = slices.DeleteFunc(append([]problem.FailingGroup{}, found.Groups...), func(g problem.FailingGroup) bool { return !r.has(&g) })
	return Problems{Now: now.UTC().Truncate(time.Millisecond), Summary: found, Late: late}, err
}

func (s *Server) listConcerns(ctx context.Context, _ *struct{}) (concern.Concerns, error) {
	return concern.Collect(ctx, concern.Sources{
		Ring: s.options.Ring, Registry: s.registry(ctx), Redis: s.faultsOfRedis, DeadAfter: s.options.DeadAfter,
		Webhooks: s.options.Webhooks != nil && s.options.Webhooks(),
		Sole:     s.options.Data != nil && s.options.Data(ctx).Dir != "", // one process at a time has a data directory
	})
}

// problems returns the problems of the accounts that the caller sees, the time now, and which
// of the accounts are late.
func (s *Server) problems(ctx context.Context, countsOnly bool) (problem.Summary, time.Time, Late, error) {
	found, stats, bound, err := s.problemsSeen(ctx)
	if err != nil {
		return found, time.Time{}, Late{}, err
	}
	if bound {
		now, err := s.options.Ring.Now(ctx, 0)
		return found, now, lateOf(stats.Now, stats.Failing), err
	}
	last := problem.Last
	if countsOnly {
		last = problem.LastCounts
	}
	found, now, _, err := last(ctx, s.options.Ring)
	if err != nil {
		return found, now, Late{}, err
	}
	late, err := s.late(ctx)
	return found, now, late, err
}

// late reads the last scan of all accounts.
func (s *Server) late(ctx context.Context) (Late, error) {
	var scan accounts.Scan
	text, err := s.options.Ring.LastStaleness(ctx)
	if err == nil && text != nil {
		err = json.Unmarshal(text, &scan)
	}
	late := lateOf(scan.At, scan.Failing)
	late.Moving = scan.Moving
	return late, err
}

// lateOf returns the late accounts among the counted ones; failing is nil if none were counted.
func lateOf(at time.Time, failing *accounts.Failing) Late {
	late := Late{Kinds: []LateKind{}}
	if failing == nil {
		return late
	}
	late.At, late.Accounts, late.Most, late.Example = at, failing.Behind, failing.MissedMax, failing.MostMissed
	for _, k := range failing.Kinds {
		if k.Behind > 0 {
			late.Kinds = append(late.Kinds, LateKind{k.Kind, k.Behind})
		}
	}
	return late
}
