package api

import (
	"fmt"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/accounts/api/outlook"
	trouble "github.com/rounds-dev/rounds/accounts/problem"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/failing"
)

func TestProblems(t *testing.T) {
	f := newFixture(t, nil)
	get := func(query string) outlook.Problems {
		t.Helper()
		var p outlook.Problems
		f.call("GET", "/v1/problems"+query, "", 200, &p)
		return p
	}
	if p := get(""); !p.At.IsZero() || p.Now.IsZero() || len(p.Groups) != 0 || p.Late.Accounts != 0 {
		t.Errorf("before the first: %+v", p)
	}
	now := time.Now().Truncate(time.Second).UTC()
	gathering := trouble.NewGathering(trouble.Probes{})
	for i, host := range []string{"a.example", "a.example", "b.example"} {
		gathering.Failing(now, []failing.Account{{
			ID: fmt.Sprint("id", i), Record: fmt.Appendf(nil, `{"kind":"feed","config":{"url":"https://%s/"}}`, host), Error: "http_404: <b>Not Found</b>",
			History: circulate.History{Succeeded: now.Add(-5 * time.Minute), Marks: []circulate.Mark{'t', '+'}},
		}})
	}
	gathering.Parked(&failing.Account{ID: "m", Record: []byte(`{"kind":"imap","config":{"host":"m.example"}}`)},
		circulate.ParkedAccount{ID: "m", Since: now, Reason: "auth: auth: refused"})
	if err := trouble.Keep(t.Context(), f.ring, gathering.Summary(now, 7)); err != nil {
		t.Fatal(err)
	}
	if err := f.ring.KeepStaleness(t.Context(), []byte(`{"at":"2026-11-20T08:00:00Z","failing":{"behind":3,"missed_slots_max":9,"most_missed":"z","kinds":[{"kind":"feed","behind":3},{"kind":"imap"}]}}`)); err != nil {
		t.Fatal(err)
	}
	p := get("")
	if !p.At.Equal(now) || p.Failing != 3 || p.Parked != 1 || p.LeftOut != 7 || len(p.Groups) != 3 || p.Groups[0].Host != "a.example" || p.Groups[0].Text != "<b>Not Found</b>" {
		t.Errorf("got %+v", p)
	}
	if l := p.Late; l.Accounts != 3 || l.Most != 9 || l.Example != "z" || len(l.Kinds) != 1 || l.At.IsZero() {
		t.Errorf("late: %+v", l)
	}
	for query, want := range map[string]int{
		"?state=failing": 2, "?state=newly": 2, "?state=parked": 1, "?state=never_succeeded": 0, "?state=parked&state=failing": 3, "?kind=imap": 1, "?kind=imap&state=failing": 0,
		"?host=B.example": 1, "?cause=http_404": 2, "?cause=" + p.Groups[0].Cause: 2, "?cause=none": 0,
	} {
		if got := get(query); len(got.Groups) != want || got.Failing != 3 {
			t.Errorf("%s: %+v", query, got.Groups)
		}
	}
	if p := get("?counts=true"); p.Failing != 3 || p.Parked != 1 || len(p.Groups) != 0 || !p.At.Equal(now) || p.Late.Accounts != 3 {
		t.Errorf("counts: %+v", p)
	}
	f.call("GET", "/v1/problems?state=asleep", "", 422, nil)
}
