package command

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/accounts/concern"
	"github.com/rounds-dev/rounds/accounts/problem"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/cmd/rounds/api"
)

func TestProblems(t *testing.T) {
	s := startAPI(t)
	if got := s.must("problems"); got != "No monitor has looked at the accounts yet.\n" {
		t.Errorf("nothing: %q", got)
	}
	now := time.Now().Truncate(time.Second)
	g := problem.NewGathering(0)
	g.Failing(now, []circulate.FailingAccount{{
		ID: "news", Record: []byte(`{"kind":"feed","config":{"url":"https://a.example/"},"cadence":"every 1h"}`), Error: "http_404: Not \x1b[2JFound", Failures: 3, Rule: 'b',
		Due: now.Add(time.Minute), History: circulate.History{Succeeded: now.Add(-5 * time.Hour), Marks: []circulate.Mark{'t', '+'}},
	}})
	g.Parked(&circulate.FailingAccount{ID: "mail", Record: []byte(`{"kind":"imap","config":{"host":"m.example"}}`)},
		circulate.ParkedAccount{ID: "mail", Since: now, Reason: "auth: auth: refused"})
	if err := problem.Store(t.Context(), s.ring, g.Summary(now, 2)); err != nil {
		t.Fatal(err)
	}
	got := regexp.MustCompile(` +`).ReplaceAllString(regexp.MustCompile(`20[-0-9]+ [:0-9]+`).ReplaceAllString(s.must("problems"), "T"), " ")
	want := regexp.MustCompile(`^1 failing, 0 of them newly, 1 parked, 0 never succeeded, 0 late; as of T
About 2 more were not looked at: there are too many.
ACCOUNTS NEWLY PARKED KIND WHERE SINCE CAUSE WHAT WENT WRONG WHAT WILL HAPPEN FOR EXAMPLE
1 0 0 feed a.example T http_404~[0-9a-f]{8} Not \[2JFound backs off, up to 1h0m0s; parks after 16 in a row, at 3 now news
1 0 1 imap m.example [-0-9]+ [:0-9]+ auth~[0-9a-f]{8} refused parked until resumed mail
$`)
	if !want.MatchString(got) {
		t.Errorf("got\n%s", got)
	}
	// The stats tell the same, and do not say that nothing is wrong.
	stats := s.must("stats")
	for _, want := range []string{
		"failing   1 account, 0 newly; 0 never succeeded, as of " + clockTime(now) + "\n          feed: 1 failing, 0 newly; 0 never succeeded\n",
		"about 2 more that fail or are parked were not looked at\n",
		"\n1 account fails, and 1 account is parked for a failure, as of " + clockTime(now) + ": see rounds problems\n",
	} {
		if !strings.Contains(stats, want) || strings.Contains(stats, "nothing is wrong") {
			t.Errorf("no %q in\n%s", want, stats)
		}
	}
	var p api.Problems
	if got := s.must("problems", "--state", "parked", "--kind", "imap", "--host", "m.example", "--cause", "auth", "--json"); json.Unmarshal([]byte(got), &p) != nil || len(p.Groups) != 1 || p.Groups[0].Kind != "imap" {
		t.Errorf("as JSON: %s", got)
	}
	if got := s.must("problems", "--limit", "1"); !strings.HasSuffix(got, "\n1 more group has 1 account.\n") {
		t.Errorf("one: %s", got)
	}
	for _, bad := range [][]string{{"--limit", "-1"}, {"--state", "asleep"}, {"more"}} {
		if _, err := s.rounds(append([]string{"problems"}, bad...)...); err == nil {
			t.Errorf("%v: no error", bad)
		}
	}
}

// Figures that are not of one moment have their times, and so has the answer that nothing fails.
func TestProblemsAsOf(t *testing.T) {
	at := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	p := api.Problems{Now: at, Summary: problem.Summary{At: at}}
	shown := func() string {
		var out strings.Builder
		if err := printProblems(&out, &p, 0); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	const nothing = "0 failing, 0 of them newly, 0 parked, 0 never succeeded, 0 late; as of "
	if got := shown(); got != nothing+clockTime(at)+"\n" {
		t.Error(got)
	}
	p.Late.At = at.Add(-time.Minute)
	if got := shown(); got != nothing+clockTime(at)+", late as of "+clockTime(p.Late.At)+"\n" {
		t.Error(got)
	}
	p.Late.Moving = true
	if got := shown(); !strings.HasSuffix(got, "; the number of shards was changing, so some of the late ones may be counted twice\n") {
		t.Error(got)
	}
	var out strings.Builder
	if err := printWrong(&out, shownStats{Wrong: &concern.Concerns{}, problems: &p}); err != nil || out.String() != "\nnothing is wrong now; no account failed as of "+clockTime(at)+"\n" {
		t.Errorf("%q, %v", out.String(), err)
	}
}
