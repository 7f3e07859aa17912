package api

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/rounds-dev/rounds/accounts/access"
	"github.com/rounds-dev/rounds/cmd/rounds/key"
	"github.com/rounds-dev/rounds/cmd/rounds/trail"
)

// Each change of a record leaves the version before it and what it changed. A restore brings a version
// back as any other change is made: judged, under its condition, and in the trail.
func TestVersionsComeBack(t *testing.T) {
	f := newFixture(t, withTrailLog(t))
	f.call("POST", "/v1/accounts", `{"id":"a","kind":"web","config":{"url":"https://one.example","key":"plain-secret"},"labels":{"team":"x"}}`, 201, nil)
	f.conditional("PATCH", "/v1/accounts/a", "", `{"config":{"url":"https://two.example","key":{"secret":"KEY"}}}`, 200)
	f.conditional("PATCH", "/v1/accounts/a", "", `{"config":{"url":"https://two.example"}}`, 200) // changes nothing
	f.conditional("PATCH", "/v1/accounts/a", "", `{"cadence":"every 5m","labels":{"team":null}}`, 200)
	f.call("PUT", "/v1/accounts/b", `{"kind":"plain"}`, 201, nil)

	var all AccountVersions
	f.call("GET", "/v1/accounts/a/versions", "", 200, &all)
	if len(all.Versions) != 2 {
		t.Fatalf("%+v", all)
	}
	shown := func(changes []FieldChange) string {
		text, err := json.Marshal(changes)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	newer, older := all.Versions[0], all.Versions[1]
	if got := shown(newer.Changes); got != `[{"field":"cadence","after":"every 5m"},{"field":"labels.team","before":"x"}]` {
		t.Errorf("the later change: %s", got)
	}
	if got := shown(older.Changes); got != `[{"field":"config.key","before":"***","after":{"secret":"KEY"}},{"field":"config.url","before":"https://one.example","after":"https://two.example"}]` {
		t.Errorf("the earlier change: %s", got)
	}
	if older.By == "" || older.Action != "patch-account" || older.Until.IsZero() || !strings.Contains(string(older.Record), "one.example") {
		t.Errorf("%+v", older)
	}
	if strings.Contains(f.logs.String(), "one.example") || strings.Contains(f.logs.String(), "plain-secret") {
		t.Error("the log has values")
	}

	ask := func(version, more string) string { return `{"version":"` + version + `"` + more + `}` }
	var would, done Restored
	before := len(f.trail("limit=100"))
	f.call("POST", "/v1/accounts/a/restore", ask(older.Version, `,"dry_run":true`), 200, &would)
	if got := shown(would.Changes); !would.DryRun || !strings.Contains(got, `"before":"https://two.example","after":"https://one.example"`) || !strings.Contains(got, "cadence") || strings.Contains(got, "config.key") {
		t.Errorf("it would change %s", got)
	}
	if n := len(f.trail("limit=100")); n != before || strings.Contains(string(would.Account.Config), "one.example") {
		t.Errorf("a dry run left %d entries, and %s", n-before, would.Account.Config)
	}
	f.call("POST", "/v1/accounts/a/restore", ask(older.Version, ""), 200, &done)
	if string(done.Account.Config) != `{"key":{"secret":"KEY"},"url":"https://one.example"}` || done.Account.Cadence != "" || done.Account.Labels["team"] != "x" || done.Account.Revision != 4 {
		t.Errorf("%+v", done.Account)
	}
	if e := f.trail("limit=1")[0]; e.Action != "restore-account" || e.Outcome != trail.Done || len(e.Fields) < 3 {
		t.Errorf("%+v", e)
	}
	f.call("GET", "/v1/accounts/a/versions?limit=1", "", 200, &all)
	if len(all.Versions) != 1 || all.Next == "" || all.Versions[0].Action != "restore-account" {
		t.Errorf("the restore cannot be taken back: %+v", all)
	}

	// Who is bound to labels sees the versions that had them, and no others.
	press := f.as(f.key(key.New{Name: "press", Role: access.Editor, Labels: access.Labels{"team": "x"}}))
	press.call("GET", "/v1/accounts/a/versions", "", 200, &all)
	if len(all.Versions) != 2 {
		t.Errorf("a bound principal sees %+v", all.Versions)
	}
	f.call("GET", "/v1/accounts/a/versions", "", 200, &all)
	press.call("POST", "/v1/accounts/a/restore", ask(all.Versions[0].Version, ""), 404, nil)
	press.call("POST", "/v1/accounts/a/restore", ask(older.Version, `,"dry_run":true`), 200, nil)

	// Refusals change nothing.
	for _, record := range []string{`{"id":"a","kind":"web","config":{}}`, `{"id":"b","kind":"plain"}`} { // valid no more, and another's
		f.api.options.Trail.Add(t.Context(), trail.Entry{Action: "put-account", Outcome: trail.Done, Account: "a", Record: json.RawMessage(record)})
		f.call("POST", "/v1/accounts/a/restore", ask(f.trail("limit=1")[0].ID, ""), 422, nil)
	}
	f.call("POST", "/v1/accounts/b/restore", ask(older.Version, ""), 404, nil)
	f.call("POST", "/v1/accounts/none/restore", ask(older.Version, ""), 404, nil)
	f.call("POST", "/v1/accounts/a/restore", ask("1-1", ""), 404, nil)
	f.call("POST", "/v1/accounts/a/restore", ask(`\u0000`, ""), 404, nil)
	f.conditional("POST", "/v1/accounts/a/restore", `"1-0000000000000000"`, ask(newer.Version, ""), 412)
}
