package command

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/accounts/cadence"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/cmd/rounds/api"
)

// fails lets the checks of all due accounts fail, and parks the accounts.
func (s *apiServer) fails(reason string) {
	s.t.Helper()
	codes := accounts.NewCodes()
	for shard := range s.ring.Shards() {
		batch, err := s.ring.Claim(s.t.Context(), shard, circulate.NewReplica(), 100, 0)
		if err != nil {
			s.t.Fatal(err)
		}
		for i := range batch.Claims {
			_, err := s.ring.Return(s.t.Context(), shard, []circulate.Return{{
				Claim: &batch.Claims[i], Park: reason, Failures: 3,
				Rule: codes.Rule(cadence.RuleAuth), Mark: codes.Mark("auth"), Error: "refused\nhere",
			}})
			if err != nil {
				s.t.Fatal(err)
			}
		}
	}
}

func TestParked(t *testing.T) {
	s := startAPI(t)
	for _, id := range []string{"a", "b/c", "d", "e"} {
		s.must("account", "add", id, "--kind", "feed", "--set", "url=u")
	}
	s.fails("auth: refused")
	s.must("account", "pause", "e")
	got := s.must("parked", "list")
	if !strings.HasPrefix(got, "ID ") || strings.Count(got, "\n") != 5 || strings.Count(got, "auth: refused") != 3 || !strings.Contains(got, `refused\nhere`) {
		t.Errorf("list:\n%s", got)
	}
	if got := s.must("parked", "list", "--reason", "paused", "--kind", "feed"); strings.Count(got, "\n") != 2 || !strings.Contains(got, "\ne ") {
		t.Errorf("paused:\n%s", got)
	}
	if got := s.must("parked", "list", "--limit", "2"); strings.Count(got, "\n") != 3 {
		t.Errorf("two:\n%s", got)
	}
	var a api.ParkedAccount
	if got := s.must("parked", "ls", "--json", "--reason", "paused"); json.Unmarshal([]byte(got), &a) != nil || a.ID != "e" || a.Failures != 3 || a.Since.IsZero() {
		t.Errorf("as JSON: %s", got)
	}

	if got := s.must("parked", "revive", "--kind", "feed", "--dry-run"); !strings.HasPrefix(got, "3 would be revived, the last due 2") || !strings.HasSuffix(got, ", 1 skipped, 0 not found\n") {
		t.Errorf("dry run: %q", got)
	}
	if got := s.must("parked", "revive", "e", "none"); !strings.HasPrefix(got, "1 revived, the last due 2") || !strings.HasSuffix(got, ", 0 skipped, 1 not found\n") {
		t.Errorf("named: %q", got)
	}
	var done api.Revived
	if got := s.must("parked", "revive", "--reason", "auth", "--rate", "6/m", "--json"); json.Unmarshal([]byte(got), &done) != nil || done.Revived != 3 {
		t.Errorf("by reason: %s", got)
	}
	if got := s.must("parked", "revive", "--reason", "auth"); got != "0 revived, 0 skipped, 0 not found\n" {
		t.Errorf("once more: %q", got)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "name accounts, or select them with --reason, --kind, --cause or --host"},
		{[]string{"a", "--kind", "feed"}, "cannot be combined with names"},
		{[]string{"a", "--rate", "0"}, `--rate is "0": must be more than 0: 0.001 to 10000 a second`},
		{[]string{"a", "--rate", "NaN/s"}, "must be more than 0"},
		{[]string{"a", "--rate", "-1/s"}, "must be more than 0"},
		{[]string{"a", "--rate", "1/d"}, "must be a number and /s, /m or /h"},
		{[]string{"a", "--rate", "fast"}, "must be a number and /s, /m or /h"},
	} {
		if _, err := s.rounds(append([]string{"parked", "revive"}, c.args...)...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: got %v, want %q", c.args, err, c.want)
		}
	}
}

// A revival shows its progress at a terminal, and nowhere else.
func TestReviveShowsProgressOnATerminal(t *testing.T) {
	s := startAPI(t)
	s.must("account", "add", "a", "--kind", "feed", "--set", "url=u")
	s.fails("auth: refused")
	var out, errs strings.Builder
	env := testEnvironment(map[string]string{"ROUNDS_API_URL": s.url, "ROUNDS_API_TOKEN": testToken})
	env.stdin, env.stdout, env.stderr = strings.NewReader(""), &out, &errs
	env.isTerminal = func(stream any) bool { return reflect.DeepEqual(stream, &errs) }
	if err := run(t.Context(), []string{"parked", "revive", "--reason", "auth"}, env); err != nil {
		t.Fatal(err)
	}
	if got := errs.String(); got != "\r\x1b[K1 accounts revived\r\x1b[K" {
		t.Errorf("got %q", got)
	}
}

func TestAParkedAccountSaysItsWordOnce(t *testing.T) {
	if row := parkedRow(api.ParkedAccount{ID: "a", Reason: "gone: gone: deleted"}); !strings.Contains(row, "\tgone: deleted\t") {
		t.Errorf("got %q", row)
	}
	if text := stateOf(api.State{Place: circulate.Parked, Reason: "gone: gone: deleted"}); !strings.HasSuffix(text, ": gone: deleted") || strings.Contains(text, "gone: gone") {
		t.Errorf("got %q", text)
	}
}

func TestAccountWhySaysWhatParks(t *testing.T) {
	two := 2
	for want, s := range map[string]api.Schedule{
		"; parked after 16, so 2 more park it": {Left: &two, Parks: &api.Parks{Rule: "retry-budget", After: 16}},
		"; parked after 3 refusals of its credential over at least 10m0s: 2 more, not before " + clockTime(time.Unix(1e9, 0)): {
			Left: &two, Parks: &api.Parks{Rule: "auth", After: 3, Over: 600, From: time.Unix(1e9, 0)},
		},
		"": {Left: &two}, // an API of an earlier version
	} {
		if got := parksOf(&s); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestAccountWhyShowsTheWay(t *testing.T) {
	for way, want := range map[string]bool{"berlin": true, "": false} {
		var out strings.Builder
		if err := printSchedule(&out, api.Schedule{ID: "a", Way: way}); err != nil {
			t.Fatal(err)
		}
		if got := out.String(); strings.Contains(got, "way out") != want || !strings.Contains(got, way+"\n") {
			t.Errorf("by %q:\n%s", way, got)
		}
	}
}

func TestAccountWhy(t *testing.T) {
	s := startAPI(t)
	s.must("account", "add", "a/b", "--kind", "feed", "--set", "url=u", "--every", "5m", "--priority", "low")
	has := func(parts ...string) {
		t.Helper()
		got := s.must("account", "why", "a/b")
		for _, part := range parts {
			if !strings.Contains(got, part) {
				t.Errorf("no %q in\n%s", part, got)
			}
		}
	}
	has("id            a/b\n", "scheduled, due 2", "rule          registered\n", "cadence       every 5m\n", "priority      low\n", "never; registered 2", "next slots    2")
	s.fails("auth: refused")
	has("parked since 2", ": auth: refused\n", "rule          auth\n", "last checks   auth\n", "failures      3 in a row\n", `: refused\nhere`)
	s.must("account", "resume", "a/b")
	has("rule          resumed\n")
	s.release()
	has("rule          priority\n", "waiting       0 urgent, 0 normal, 1 low in shard ", "it has waited in the low lane since 2")

	var schedule api.Schedule
	if got := s.must("account", "why", "a/b", "--json"); json.Unmarshal([]byte(got), &schedule) != nil || schedule.Rule != "priority" || len(schedule.Slots) != 3 {
		t.Errorf("as JSON: %s", got)
	}
	if _, err := s.rounds("account", "why", "none"); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("got %v", err)
	}
	if got := s.must("stats"); !strings.Contains(got, "\nwaiting   0 urgent, 0 normal, 1 low\n") {
		t.Errorf("stats:\n%s", got)
	}
	if a := getAccount(s, "a/b"); a.Priority != accounts.PriorityLow {
		t.Errorf("priority %q", a.Priority)
	}
	if got := s.must("account", "list"); !strings.Contains(got, "PRIORITY") || !strings.Contains(got, "  low ") {
		t.Errorf("list:\n%s", got)
	}
}

// release moves all due accounts into message_queue.
func (s *apiServer) release() {
	s.t.Helper()
	for shard := range s.ring.Shards() {
		batch, err := s.ring.Claim(s.t.Context(), shard, circulate.NewReplica(), 100, 0)
		if err != nil {
			s.t.Fatal(err)
		}
		for i := range batch.Claims {
			if _, err := s.ring.Release(s.t.Context(), shard, []*circulate.Claim{&batch.Claims[i]}); err != nil {
				s.t.Fatal(err)
			}
		}
	}
}

// One answer has its times in one time zone.
func TestWhyTellsLocalTimes(t *testing.T) {
	at := time.Date(2026, 11, 25, 21, 2, 6, 0, time.UTC)
	got := localTimes("somebody paused it at 2026-11-25T21:02:06Z; version 2026-11-25, 2026-99-25T21:02:06Z")
	if want := "somebody paused it at " + clockTime(at) + "; version 2026-11-25, 2026-99-25T21:02:06Z"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	s := startAPI(t)
	s.must("account", "add", "a", "--kind", "feed", "--set", "url=u")
	s.must("account", "pause", "a")
	why := s.must("account", "why", "a")
	since := clockTime(getAccount(s, "a").State.Since)
	for _, want := range []string{"parked since " + since + ": paused\n", "somebody paused it at " + since + "; `rounds account resume a` resumes it\n"} {
		if !strings.Contains(why, want) {
			t.Errorf("no %q in\n%s", want, why)
		}
	}
	refused := "messages[0].time: must be RFC 3339, as in 2026-01-31T12:00:00Z"
	got = localTimes("due 2026-11-25T21:02:06Z; the last: protocol: "+refused, "", "protocol: "+refused, "paused")
	if !strings.HasSuffix(got, "; the last: protocol: "+refused) || strings.Contains(got, "21:02:06Z") {
		t.Errorf("got %q", got)
	}
}
