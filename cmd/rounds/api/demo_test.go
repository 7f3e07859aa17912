package api

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

func TestDemo(t *testing.T) {
	var pollers []DemoPoller
	var killed []string
	var failed error
	f := newFixture(t, func(o *Options) {
		o.Demo = &Demo{
			Pollers: func() []DemoPoller { return pollers },
			Kill: func(_ context.Context, replica string) error {
				killed = append(killed, replica)
				return failed
			},
		}
	})
	if got := f.call("GET", "/v1/demo", "", 200, nil); got.body != `{"pollers":[]}`+"\n" {
		t.Errorf("none: %q", got.body)
	}
	next := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	pollers = []DemoPoller{{Replica: "r1", PID: 7, State: DemoRunning}, {State: DemoKilled, Next: &next}}
	want := `{"pollers":[{"replica":"r1","pid":7,"state":"running"},{"state":"killed","next":"2030-01-02T03:04:05Z"}]}` + "\n"
	if got := f.call("GET", "/v1/demo", "", 200, nil); got.body != want {
		t.Errorf("got %q", got.body)
	}

	f.call("POST", "/v1/demo:kill", `{"replica":"r1"}`, 204, nil)
	failed = ErrNoPoller
	var p problemBody
	f.call("POST", "/v1/demo:kill", `{"replica":"r2"}`, 404, &p)
	if p.Detail != ErrNoPoller.Error() {
		t.Errorf("no such poller: %+v", p)
	}
	failed = errors.New("no")
	f.call("POST", "/v1/demo:kill", `{"replica":"r3"}`, 503, nil)
	if got := strings.Join(killed, " "); got != "r1 r2 r3" {
		t.Errorf("killed: %s", got)
	}
	for body, at := range map[string]string{
		`{}`: "body", `{"replica":""}`: "body.replica", `{"replica":7}`: "body.replica",
		`{"replica":"r1","all":true}`:                   "body.all",
		`{"replica":"` + strings.Repeat("r", 65) + `"}`: "body.replica",
	} {
		var p problemBody
		f.call("POST", "/v1/demo:kill", body, 422, &p)
		if got := p.locations(); len(got) != 1 || got[0] != at {
			t.Errorf("%s: faults at %v", body, got)
		}
	}
	if len(killed) != 3 {
		t.Errorf("a request with a fault kills: %v", killed)
	}

	var subjects []string
	for _, e := range f.trail("limit=100") {
		subjects = append(subjects, e.Subject+" "+string(e.Outcome))
	}
	for _, want := range []string{"replica r1 done", "replica r2 refused", "replica r3 unknown"} {
		if !strings.Contains(strings.Join(subjects, "\n"), want) {
			t.Errorf("the trail lacks %q: %q", want, subjects)
		}
	}

	other := newFixture(t, nil)
	other.call("GET", "/v1/demo", "", 404, nil)
	other.call("POST", "/v1/demo:kill", `{"replica":"r1"}`, 404, nil)
}
