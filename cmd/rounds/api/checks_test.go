package api

import (
	"testing"
	"time"

	"github.com/rounds-dev/rounds/accounts/access"
	"github.com/rounds-dev/rounds/accounts/latest"
	"github.com/rounds-dev/rounds/cmd/rounds/key"
)

func TestLatestChecksOfAnAccount(t *testing.T) {
	f := newFixture(t, nil)
	f.call("PUT", "/v1/accounts/a%2Fb", `{"kind":"plain","labels":{"team":"x"}}`, 201, nil)
	var got AccountChecks
	f.call("GET", "/v1/accounts/a%2Fb/checks", "", 200, &got)
	if !got.Asked || got.Checks == nil || len(got.Checks) != 0 {
		t.Errorf("the first look: %+v", got)
	}
	checks := latest.Of(f.ring)
	if ids, err := checks.Watched(t.Context()); err != nil || len(ids) != 1 || ids[0] != "a/b" {
		t.Fatalf("pollers are asked for %q, %v", ids, err)
	}
	now := time.Now().Add(time.Minute).Truncate(time.Millisecond)
	if err := checks.Report(t.Context(), map[string][]latest.Check{"a/b": {
		{At: now.Add(-time.Hour), Outcome: "ok"}, // of an account that had the id before
		{At: now, Took: 1500 * time.Millisecond, Outcome: "transient", Error: "http_500: no", Status: 500, Bytes: 70, Messages: 1},
		{At: now.Add(-time.Second), Outcome: "ok"},
		{At: now, Took: 1500 * time.Millisecond, Outcome: "transient", Error: "http_500: no", Status: 500, Bytes: 70, Messages: 1},
	}}); err != nil {
		t.Fatal(err)
	}
	got = AccountChecks{}
	f.call("GET", "/v1/accounts/a%2Fb/checks", "", 200, &got)
	want := AccountCheck{Time: inUTC(now), Took: 1.5, Outcome: "transient", Error: "http_500: no", Status: 500, Bytes: 70, Messages: 1}
	if got.Asked || len(got.Checks) != 2 || got.Checks[0] != want || got.Checks[1].Outcome != "ok" {
		t.Errorf("%+v", got)
	}
	f.call("GET", "/v1/accounts/none/checks", "", 404, nil)
	blue := f.as(f.key(key.New{Name: "blue", Role: access.Viewer, Labels: access.Labels{"team": "blue"}}))
	blue.call("GET", "/v1/accounts/a%2Fb/checks", "", 404, nil)
	if ids, err := checks.Watched(t.Context()); err != nil || len(ids) != 1 {
		t.Errorf("who may not see an account has pollers report %q, %v", ids, err)
	}
}
