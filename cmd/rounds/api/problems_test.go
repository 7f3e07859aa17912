package api

import (
	"fmt"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/accounts/access"
	"github.com/rounds-dev/rounds/accounts/problem"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/cmd/rounds/key"
)

func TestProblems(t *testing.T) {
	f := newFixture(t, nil)
	get := func(query string) Problems {
		t.Helper()
		var p Problems
		f.call("GET", "/v1/problems"+query, "", 200, &p)
		return p
	}
	if p := get(""); !p.At.IsZero() || p.Now.IsZero() || len(p.Groups) != 0 || p.Late.Accounts != 0 {
		t.Errorf("before the first: %+v", p)
	}
	now := time.Now().Truncate(time.Second).UTC()
	gathering := problem.NewGathering(0)
	for i, host := range []string{"a.example", "a.example", "b.example"} {
		gathering.Failing(now, []circulate.FailingAccount{{
			ID: fmt.Sprint("id", i), Record: fmt.Appendf(nil, `{"kind":"feed","config":{"url":"https://%s/"}}`, host), Error: "http_404: <b>Not Found</b>",
			History: circulate.History{Succeeded: now.Add(-5 * time.Minute), Marks: []circulate.Mark{'t', '+'}},
		}})
	}
	gathering.Parked(&circulate.FailingAccount{ID: "m", Record: []byte(`{"kind":"imap","config":{"host":"m.example"}}`)},
		circulate.ParkedAccount{ID: "m", Since: now, Reason: "auth: auth: refused"})
	if err := problem.Store(t.Context(), f.ring, gathering.Summary(now, 7)); err != nil {
		t.Fatal(err)
	}
	if err := f.ring.KeepStaleness(t.Context(), []byte(`{"at":"2026-11-20T08:00:00Z","shards_change":true,"failing":{"behind":3,"missed_slots_max":9,"most_missed":"z","kinds":[{"kind":"feed","behind":3},{"kind":"imap"}]}}`)); err != nil {
		t.Fatal(err)
	}
	p := get("")
	if !p.At.Equal(now) || p.Failing != 3 || p.Parked != 1 || p.LeftOut != 7 || len(p.Groups) != 3 || p.Groups[0].Host != "a.example" || p.Groups[0].Text != "<b>Not Found</b>" {
		t.Errorf("got %+v", p)
	}
	if l := p.Late; l.Accounts != 3 || l.Most != 9 || l.Example != "z" || len(l.Kinds) != 1 || l.At.IsZero() || !l.Moving {
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

// A key with labels sees the problems of its own accounts, as a caller without labels sees those of
// all.
func TestProblemsOfLabels(t *testing.T) {
	f := newFixture(t, func(o *Options) { o.ProbeParked = time.Hour })
	for _, id := range []string{"press-1", "press-2", "press-3", "sales-1", "sales-2"} {
		f.call("PUT", "/v1/accounts/"+id, fmt.Sprintf(`{"kind":"plain","labels":{"team":%q}}`, id[:5]), 201, nil)
	}
	f.call("POST", "/v1/accounts/press-3/pause", "", 200, nil)
	for shard := range f.ring.Shards() {
		batch, err := f.ring.Claim(t.Context(), shard, "alice00000", 10, 0)
		if err != nil {
			t.Fatal(err)
		}
		var returns []circulate.Return
		for i := range batch.Claims {
			c := &batch.Claims[i]
			item := circulate.Return{Claim: c, Due: time.Now().Add(time.Hour), Mark: 't', Failures: 1, Error: "http_404: of " + c.ID[:5]}
			if c.ID == "press-2" {
				item.Park = "auth: refused"
			}
			returns = append(returns, item)
		}
		if len(returns) > 0 {
			if _, err := f.ring.Return(t.Context(), shard, returns); err != nil {
				t.Fatal(err)
			}
		}
	}

	bound := f.as(f.key(key.New{Name: "press", Role: access.Viewer, Labels: access.Labels{"team": "press"}}))
	var p Problems
	bound.call("GET", "/v1/problems", "", 200, &p)
	if p.At.IsZero() || p.Failing != 1 || p.Parked != 1 || p.AtRest != 1 || p.LeftOut != 0 || len(p.Groups) != 2 || p.Late.At.IsZero() {
		t.Fatalf("got %+v", p)
	}
	for _, g := range p.Groups {
		switch {
		case g.Failing == 1 && g.Text == "of press" && g.Examples[0] == "press-1":
		case g.Parked == 1 && g.Text == "refused" && g.Examples[0] == "press-2" && g.Next[0].Code == problem.StepProbed:
		default:
			t.Errorf("group %+v", g)
		}
	}
	// One request narrowed the list. The next one must not get the narrowed list.
	bound.call("GET", "/v1/problems?state=parked", "", 200, &p)
	if len(p.Groups) != 1 {
		t.Errorf("narrowed: %+v", p.Groups)
	}
	bound.call("GET", "/v1/problems?counts=true", "", 200, &p)
	if len(p.Groups) != 0 || p.Failing != 1 {
		t.Errorf("counts: %+v", p)
	}
	bound.call("GET", "/v1/problems", "", 200, &p)
	if len(p.Groups) != 2 {
		t.Errorf("again: %+v", p.Groups)
	}
	nobodys := f.as(f.key(key.New{Name: "nobodys", Role: access.Viewer, Labels: access.Labels{"team": "nobodys"}}))
	nobodys.call("GET", "/v1/problems", "", 200, &p)
	if p.Accounts != 0 || len(p.Groups) != 0 || p.At.IsZero() {
		t.Errorf("nobody's: %+v", p)
	}
}
