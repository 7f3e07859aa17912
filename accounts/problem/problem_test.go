package problem_test

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/accounts/cadence"
	"github.com/rounds-dev/rounds/accounts/problem"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/document"
	"github.com/rounds-dev/rounds/testing/processes"
	"github.com/rounds-dev/rounds/testing/redistest"
)

// Failures in large numbers, which one goroutine gathers, run without the race detector.
func TestMain(m *testing.M) { os.Exit(processes.Apart(m, "TestBounds").Run()) }

var noon = time.Date(2026, 11, 16, 12, 0, 0, 0, time.UTC)

// failed is an account at a host that has been failing for a while.
func failed(id, host, text string, age time.Duration) circulate.FailingAccount {
	return circulate.FailingAccount{
		ID: id, Record: fmt.Appendf(nil, `{"id":%q,"kind":"feed","config":{"url":"https://%s/feed"},"cadence":"every 5m"}`, id, host),
		Error: text, ErrorAt: noon.Add(-time.Minute), Failures: 3, Due: noon.Add(time.Minute), Rule: 'b',
		History: circulate.History{Succeeded: noon.Add(-age), Marks: []circulate.Mark{'t', '+'}},
	}
}

func gathering() *problem.Gathering {
	return problem.NewGathering(6 * time.Hour)
}

func TestGroups(t *testing.T) {
	t.Parallel()
	g := gathering()
	var all []circulate.FailingAccount
	for i := range 10 {
		all = append(all, failed(fmt.Sprint("press", i), "news.example.org", fmt.Sprintf("http_404: no feed %d", i), time.Duration(10+i)*time.Minute))
	}
	never := failed("old", "old.example", "http_404: no feed 77", 50*time.Hour)
	never.History.Marks, never.Failures, never.ErrorAt = []circulate.Mark{'t', 't'}, 12, noon
	waits := failed("corp", "x", "45009: too many calls", 2*time.Hour)
	waits.Record = []byte(`{"id":"corp","kind":"wecom-kf","config":{"corp_id":"WW81","base_url":"https://proxy.example"}}`)
	waits.Rule, waits.History.Marks, waits.Failures, waits.Due = 'h', []circulate.Mark{'r', '+'}, 0, noon.Add(10*time.Minute)
	g.Failing(noon, append(all, never, waits))
	for i, reason := range []string{"auth: http_401: Unauthorized", "gone: http_410: Gone", "quarantine: 5 requeues"} {
		a := failed(fmt.Sprint("parked", i), "mail.example", "", 3*time.Hour)
		a.ErrorAt, a.Due = time.Time{}, time.Time{}
		g.Parked(&a, circulate.ParkedAccount{ID: a.ID, Since: noon.Add(-time.Hour), Reason: reason})
	}
	g.AtRest(4)
	s := g.Summary(noon, 0)
	if want := (problem.Counts{Accounts: 15, Failing: 12, Newly: 10, NeverSucceeded: 1, Parked: 3}); s.Counts != want || s.AtRest != 4 || !s.At.Equal(noon) {
		t.Errorf("got %+v", s.Counts)
	}
	about := func(host string, code string) *problem.FailingGroup {
		t.Helper()
		for i := range s.Groups {
			if s.Groups[i].Host == host && s.Groups[i].Code == code {
				return &s.Groups[i]
			}
		}
		t.Fatalf("%s, %s: no group in %+v", host, code, s.Groups)
		return nil
	}
	press := about("news.example.org", "http_404")
	if &s.Groups[0] != press {
		t.Errorf("the newest are not first: %+v", s.Groups)
	}
	if press.Accounts != 10 || press.Newly != 10 || press.Class != "transient" || press.Hosts != 1 || !strings.HasPrefix(press.Text, "no feed ") ||
		!slices.Equal(press.Examples, []string{"press0", "press1", "press2"}) || !press.Oldest.Equal(noon.Add(-19*time.Minute)) || !press.Newest.Equal(noon.Add(-10*time.Minute)) {
		t.Errorf("got %+v", press)
	}
	if want := []problem.NextStep{
		{Code: "backs_off", Accounts: 10, First: noon.Add(time.Minute), Last: noon.Add(time.Minute), Most: 3600},
		{Code: "parks", Accounts: 10, After: 16, Least: 3, Worst: 3},
	}; !slices.Equal(press.Next, want) {
		t.Errorf("next: %+v", press.Next)
	}
	if old := about("old.example", "http_404"); old.Cause != press.Cause || old.NeverSucceeded != 1 || old.Newly != 0 {
		t.Errorf("got %+v", old)
	}
	corp := about("ww81", "45009")
	if want := []problem.NextStep{{Code: "waits", Accounts: 1, First: noon.Add(10 * time.Minute), Last: noon.Add(10 * time.Minute)}}; !slices.Equal(corp.Next, want) || corp.Class != "rate_limited" {
		t.Errorf("got %+v", corp)
	}
	refused := about("mail.example", "http_401")
	if want := []problem.NextStep{{Code: "probed", Accounts: 1, First: noon.Add(5 * time.Hour), Last: noon.Add(5 * time.Hour)}}; !slices.Equal(refused.Next, want) || refused.Parked != 1 || refused.Failing != 0 {
		t.Errorf("got %+v", refused)
	}
	if gone := about("mail.example", "http_410"); len(gone.Next) != 1 || gone.Next[0].Code != "stays" || !gone.LastAt.Equal(noon.Add(-time.Hour)) {
		t.Errorf("got %+v", gone)
	}
	about("mail.example", "quarantine")
	fields, err := accounts.ParseSelector(press.Select)
	if err != nil || !slices.Equal(fields.Hosts, []string{"news.example.org"}) || !slices.Equal(fields.Causes, []string{press.Cause}) {
		t.Errorf("selects by %v, %v", press.Select, err)
	}
}

// The next step of an account follows from how its last check failed: refusals park it
// early, and failures that it did not cause neither park it nor let its pauses grow.
func TestStepsFollowTheFailure(t *testing.T) {
	t.Parallel()
	for mark, want := range map[circulate.Mark][]problem.NextStep{
		'a': {{Code: "backs_off", Accounts: 1, Most: 480}, {Code: "parks", Accounts: 1, After: 3, Over: 600}},
		'b': {{Code: "backs_off", Accounts: 1, Most: 60}},
		'p': {{Code: "backs_off", Accounts: 1, Most: 3600}, {Code: "parks", Accounts: 1, After: 16, Least: 2, Worst: 2}},
	} {
		g := gathering()
		a := failed("a", "one.example", "x: y", time.Hour)
		a.Failures, a.Due, a.History.Marks = 2, time.Time{}, []circulate.Mark{mark}
		g.Failing(noon, []circulate.FailingAccount{a})
		if s := g.Summary(noon, 0); len(s.Groups) != 1 || !slices.Equal(s.Groups[0].Next, want) {
			t.Errorf("%c: got %+v", mark, s.Groups)
		}
	}
}

// A group and the page of an account say the same of what parks it, whatever the last checks were.
func TestAGroupParksAsItsAccountDoes(t *testing.T) {
	t.Parallel()
	for _, marks := range []string{"a", "ab", "ta", "at", "p", "h", "a+", "t+"} {
		a := failed("a", "one.example", "x: y", time.Hour)
		a.Failures, a.History.Marks = 1, []circulate.Mark(marks)
		words := make([]string, len(marks))
		for i, mark := range a.History.Marks {
			words[i] = accounts.MarkWord(mark)
		}
		alone := accounts.ParkingOf(cadence.Policy{}, words, cadence.State{Failures: 1})
		g := gathering()
		g.Failing(noon, []circulate.FailingAccount{a})
		steps := g.Summary(noon, 0).Groups[0].Next
		last := steps[len(steps)-1]
		if last.Code != problem.StepParks || last.After != alone.After || last.Over != int(alone.Over/time.Second) {
			t.Errorf("%s: the group says %+v, its account %+v", marks, last, alone)
		}
	}
}

// A host with few accounts shares a group with others, and the group's selector leaves
// out the hosts with groups of their own.
func TestSmallHostsShareAGroup(t *testing.T) {
	t.Parallel()
	g := gathering()
	var all []circulate.FailingAccount
	for i := range 41 {
		all = append(all, failed(fmt.Sprint("a", i), fmt.Sprintf("h%d.example", i), "html: an HTML page, not a feed", time.Hour))
	}
	for i := range 7 {
		all = append(all, failed(fmt.Sprint("b", i), "h7.example", "html: an HTML page, not a feed", time.Hour))
	}
	all[0].Record = []byte(`{"id":"a0","kind":"feed"}`)
	g.Failing(noon, all)
	s := g.Summary(noon, 0)
	if len(s.Groups) != 2 {
		t.Fatalf("got %+v", s.Groups)
	}
	if one := s.Groups[1]; one.Host != "h7.example" || one.Accounts != 8 {
		t.Errorf("got %+v", one)
	}
	rest := s.Groups[0]
	if rest.Host != "" || rest.Hosts != 39 || rest.Accounts != 40 || !slices.Equal(rest.Select["except_host"], []string{"h7.example"}) || rest.Select["host"] != nil {
		t.Errorf("got %+v", rest)
	}
}

// Whatever fails, a summary stays within its bounds, and no account is lost from the
// counts. Each port of a host has a group of its own, and the selector of one selects
// none of the others.
func TestPortsAreApart(t *testing.T) {
	t.Parallel()
	g := gathering()
	const text = "html: an HTML page, not a feed"
	for i, host := range []string{"one.example", "one.example:8001", "one.example:8002"} {
		g.Failing(noon, []circulate.FailingAccount{failed(fmt.Sprint("a", i), host, text, time.Hour)})
	}
	s := g.Summary(noon, 0)
	for _, group := range s.Groups {
		selector, err := accounts.ParseSelector(group.Select)
		if err != nil || !slices.Equal(selector.Hosts, []string{group.Host}) || (len(selector.Except) > 0) != (group.Host == "one.example") {
			t.Errorf("%+v is selected by %v, %v", group, group.Select, err)
		}
	}
	if len(s.Groups) != 3 {
		t.Errorf("got %+v", s.Groups)
	}
	// A host whose other ports are too small for groups of their own shares one with them.
	g = gathering()
	for i := range 30 {
		g.Failing(noon, []circulate.FailingAccount{failed(fmt.Sprint("b", i), fmt.Sprintf("one.example:%d", 8000+i), text, time.Hour), failed(fmt.Sprint("c", i), "one.example", text, time.Hour),
			failed(fmt.Sprint("d", i), "two.example", text, time.Hour)})
	}
	if s := g.Summary(noon, 0); len(s.Groups) != 2 || s.Groups[0].Hosts != 31 || s.Groups[1].Host != "two.example" || !slices.Equal(s.Groups[0].Select["except_host"], []string{"two.example"}) {
		t.Errorf("got %+v", s.Groups)
	}
}

func TestBounds(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("\x01\u2028<", 100)
	for name, account := range map[string]func(i int) circulate.FailingAccount{
		"hosts": func(i int) circulate.FailingAccount {
			return failed(fmt.Sprint("a", i), fmt.Sprintf("h%d.example", i), "http_404: Not Found", time.Hour)
		},
		"causes": func(i int) circulate.FailingAccount {
			word := strings.NewReplacer("0", "a", "1", "b", "2", "c", "3", "d", "4", "e", "5", "f", "6", "g", "7", "h", "8", "i", "9", "j").Replace(fmt.Sprint(i))
			return failed(strings.Repeat("&", 250)+fmt.Sprint(i), "one.example", word+": "+word+long, time.Hour)
		},
		"hosts of several accounts": func(i int) circulate.FailingAccount {
			return failed(strings.Repeat("&", 250)+fmt.Sprint(i), fmt.Sprintf("h%d.example", i%4000), fmt.Sprintf("c%d: text", i%300), time.Hour)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := gathering()
			const n = 21_000
			for i := range n {
				g.Failing(noon, []circulate.FailingAccount{account(i)})
			}
			server := redistest.Embedded(t)
			ring, err := circulate.Open(t.Context(), server, circulate.Options{Namespace: "ns", Shards: 1})
			if err != nil {
				t.Fatal(err)
			}
			if err := problem.Store(t.Context(), ring, g.Summary(noon, 5)); err != nil {
				t.Fatal(err)
			}
			s, now, ok, err := problem.Last(t.Context(), ring)
			if err != nil || !ok || now.IsZero() {
				t.Fatal(ok, err)
			}
			text, err := json.Marshal(s)
			if err != nil || len(text) > document.MaxNotice || len(s.Groups) > problem.MostGroups || s.LeftOut != 5 {
				t.Errorf("%d bytes, %d groups, %v", len(text), len(s.Groups), err)
			}
			sum := s.Other.Accounts
			for i := range s.Groups {
				sum += s.Groups[i].Accounts
				if len(s.Groups[i].Examples) > problem.MostExamples {
					t.Errorf("%d examples", len(s.Groups[i].Examples))
				}
			}
			if sum != n || s.Accounts != n || s.Failing != n {
				t.Errorf("%d in groups, %d in all, of %d", sum, s.Accounts, n)
			}
		})
	}
}

func TestLastOfNone(t *testing.T) {
	t.Parallel()
	ring, err := circulate.Open(t.Context(), redistest.Embedded(t), circulate.Options{Namespace: "ns", Shards: 1})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, ok, err := problem.Last(t.Context(), ring); ok || err != nil {
		t.Error(ok, err)
	}
	if _, err := document.Of(ring).Notices().Post(t.Context(), "problems", []byte("{")); err != nil {
		t.Fatal(err)
	}
	if _, _, ok, err := problem.Last(t.Context(), ring); ok || err == nil {
		t.Error("an unreadable summary is read")
	}
}

// Failures that no account caused, and unreadable records, are summed up too.
func TestUnreadableRecords(t *testing.T) {
	t.Parallel()
	g := gathering()
	a := failed("a", "x", "http_500: Oops", time.Hour)
	a.Record = []byte("{")
	b := failed("b", strings.Repeat("h", 300), "", time.Hour)
	b.Rule = 'z'
	g.Failing(noon, []circulate.FailingAccount{a, b})
	s := g.Summary(noon, 0)
	if len(s.Groups) != 2 || s.Accounts != 2 {
		t.Fatalf("got %+v", s)
	}
	for _, group := range s.Groups {
		if group.Host != "" || group.Hosts != 0 || (group.Kind == "") != (group.Select == nil) || len(group.Next) != 2 {
			t.Errorf("got %+v", group)
		}
	}
}
