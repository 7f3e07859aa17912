package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/accounts/access"
	"github.com/rounds-dev/rounds/accounts/job"
	"github.com/rounds-dev/rounds/cmd/rounds/trail"
)

// ordered orders a job.
func (f *fixture) ordered(path string) (j Job) {
	f.Helper()
	got := f.do(f.request("POST", path, ""))
	if got.status != 202 {
		f.Fatalf("%s: %d %s", path, got.status, got.body)
	}
	if err := json.Unmarshal([]byte(got.body), &j); err != nil || got.header.Get("Location") != "/v1/jobs/"+j.ID {
		f.Fatal(err, got.header)
	}
	return j
}

// worked has the process work until a job has ended.
func (f *fixture) worked(id string) (j Job) {
	f.Helper()
	ctx, cancel := context.WithTimeout(f.Context(), time.Minute)
	ended := make(chan struct{})
	go func() { defer close(ended); _ = f.api.RunJobs(ctx) }()
	defer func() { cancel(); <-ended }()
	for j.State != job.Ended {
		if ctx.Err() != nil {
			f.Fatalf("not done: %+v", j)
		}
		f.call("GET", "/v1/jobs/"+id, "", 200, &j)
	}
	return j
}

func TestJobs(t *testing.T) {
	f := newFixture(t, nil)
	f.add("a-1", "a-2", "a-3", "b-1")
	f.call("PATCH", "/v1/accounts/a-3", `{"cadence":"every 1h","priority":"low"}`, 200, nil)
	j := f.ordered("/v1/accounts:set?prefix=a-&cadence=every+1h&priority=low&set_label=shop%3Dx&set_label=n%3D7&remove_label=none&job=true")
	if fmt.Sprint(j.Select, j.Set) != "map[prefix:[a-]] map[cadence:every 1h labels:map[n:7 none:<nil> shop:x] priority:low]" || j.State != job.Running || j.Action != accounts.SetAll {
		t.Errorf("%+v", j)
	}
	if j = f.worked(j.ID); j.Changed != 3 || j.Matched != 3 || j.Seen != 4 || j.Share != 1 || j.UndoUntil.IsZero() || len(j.Reasons) != 0 {
		t.Errorf("%+v", j)
	}
	var a Account
	if f.call("GET", "/v1/accounts/a-1", "", 200, &a); a.Cadence != "every 1h" || a.Priority != "low" || fmt.Sprint(a.Labels) != "map[n:7 shop:x]" {
		t.Errorf("%+v", a)
	}
	f.call("DELETE", "/v1/accounts/a-2", "", 204, nil)

	var undo Job
	f.call("POST", "/v1/jobs/"+j.ID+"/undo", "", 200, &undo)
	if undo = f.worked(undo.ID); undo.Changed != 2 || undo.Unchanged != 1 || undo.Undoes != j.ID || len(undo.Reasons) != 1 || undo.Reasons[0].Reason != "gone" || undo.Reasons[0].Examples[0] != "a-2" {
		t.Errorf("%+v", undo)
	}
	var b Account
	if f.call("GET", "/v1/accounts/a-1", "", 200, &b); b.Cadence != "" || b.Priority != "" || fmt.Sprint(b.Labels) != "map[n:0]" {
		t.Errorf("%+v", b)
	}
	var list JobList
	if f.call("GET", "/v1/jobs", "", 200, &list); len(list.Jobs) != 2 {
		t.Errorf("%+v", list)
	}
	for path, want := range map[string]int{j.ID + "/undo": 409, j.ID + "/stop": 409, j.ID + "/resume": 409, "none/stop": 404, undo.ID + "/undo": 409} {
		f.call("POST", "/v1/jobs/"+path, "", want, nil)
	}

	// The trail has who ordered it, and what came of it.
	page, err := f.api.options.Trail.Look(t.Context(), trail.Query{Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	for _, e := range page.Entries {
		if e.Subject == "job "+j.ID || e.Subject == "job "+undo.ID {
			seen[fmt.Sprint(e.Action, " ", e.By, " ", e.Selector, " ", e.Counts["changed"], " ", strings.Join(e.Fields, ","), " ", e.Outcome)]++
		}
	}
	const fields = "cadence,labels.n,labels.none,labels.shop,priority"
	for _, want := range []string{
		"set-accounts local prefix=a- 0 " + fields + " done", "set-accounts local prefix=a- 3 " + fields + " done",
		"undo-job local prefix=a- 0  done", "undo-job local prefix=a- 2 " + fields + " done",
	} {
		if seen[want] != 1 {
			t.Errorf("%d of %q in %v", seen[want], want, seen)
		}
	}
}

func TestJobsAreRefused(t *testing.T) {
	f := newFixture(t, nil)
	f.add("a")
	for path, want := range map[string]string{
		"/v1/accounts:pause?job=true":                                             "query.all",
		"/v1/accounts:pause?job=true&all=true&dry_run=true":                       "query.dry_run",
		"/v1/accounts:pause?all=true&cadence=every+1h":                            "query.cadence",
		"/v1/accounts:set?all=true":                                               "query.set",
		"/v1/accounts:set?all=true&cadence=often":                                 "query.cadence",
		"/v1/accounts:set?all=true&priority=most":                                 "query.priority",
		"/v1/accounts:set?all=true&set_label=x":                                   "query.set_label",
		"/v1/accounts:set?all=true&set_label=x%3D1&remove_label=x":                "query.remove_label",
		"/v1/accounts:retry?all=true&rate=0":                                      "query.rate",
		"/v1/accounts:set?all=true&remove_label=" + strings.Repeat("l", 300):      "query.labels",
		"/v1/accounts:set?all=true&cadence=every+1h&cadence=every+2h&job=perhaps": "query.job",
	} {
		if got := f.do(f.request("POST", path, "")); got.status != 422 || !strings.Contains(got.body, want) {
			t.Errorf("%s: %d %s, want %s", path, got.status, got.body, want)
		}
	}
}

// A job may be stopped, resumed and taken back only by callers who may do what it does.
func TestJobsNeedTheRoleOfTheirAction(t *testing.T) {
	f := newFixture(t, nil)
	j, err := f.api.jobs.Start(t.Context(), job.Order{Action: accounts.DeleteAll, By: "edith"})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		who  access.Principal
		want int
	}{
		{access.Principal{Name: "otto", Role: access.Operator}, 403},
		{access.Principal{Name: "bea", Role: access.Editor, Labels: access.Labels{"team": "a"}}, 404},
		{access.Principal{Name: "edith", Role: access.Editor}, 0},
	} {
		got, err := f.api.changeJob(access.With(t.Context(), c.who), j.ID, f.api.jobs.Stop)
		var refused *errorReply
		_ = errors.As(err, &refused)
		if c.want == 0 && (err != nil || got.State != job.Stopped) || c.want != 0 && (refused == nil || refused.Status != c.want) {
			t.Errorf("%s: %+v, %v", c.who.Name, got, err)
		}
	}
}

func TestJobMetrics(t *testing.T) {
	registry := prometheus.NewRegistry()
	m := NewJobMetrics(registry)
	f := newFixture(t, func(o *Options) { o.JobMetrics = m })
	f.add("a-1")
	f.worked(f.ordered("/v1/accounts:pause?all=true&job=true").ID)
	m.looked(map[job.State]int{job.Running: 2, job.Ended: 7})
	m.ended(job.Job{State: job.Stopped, Unknown: 3})
	m.ended(job.Job{State: job.Ended, Unknown: 3})
	m.failed()
	want := `# TYPE rounds_job_steps_failed_total counter
rounds_job_steps_failed_total 1
# TYPE rounds_jobs gauge
rounds_jobs{state="ended"} 7
rounds_jobs{state="running"} 2
rounds_jobs{state="stopped"} 0
rounds_jobs{state="stopping"} 0
# TYPE rounds_jobs_done_total counter
rounds_jobs_done_total{result="ended"} 1
rounds_jobs_done_total{result="stopped"} 1
rounds_jobs_done_total{result="unknown"} 1
`
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for _, family := range families {
		family.Help = nil
		if _, err := expfmt.MetricFamilyToText(&got, family); err != nil {
			t.Fatal(err)
		}
	}
	if got.String() != want {
		t.Error(got.String())
	}
}
