package command

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/cmd/rounds/api"
	"github.com/rounds-dev/rounds/testing/processes"
	"github.com/rounds-dev/rounds/testing/redistest"
)

// The number of shards of a service changes while it runs, and the service continues with the
// new number. A consumer of a group goes on too, with messages of both layouts in hand.
func TestReshardOfAService(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	addr := freeLoopback(t)
	variables := map[string]string{
		"ROUNDS_REDIS_URL": server.URL(), "ROUNDS_API_ADDR": addr, "ROUNDS_API_URL": "http://" + addr, "ROUNDS_SHARDS": "3", "ROUNDS_LOG_FORMAT": "json",
	}
	p := startProgram(t, variables, "serve")
	processes.AwaitStatus(t, "http://"+addr+"/readyz", 200)
	must := func(args ...string) string {
		t.Helper()
		printed, err := runWith(t.Context(), variables, "", args...)
		if err != nil {
			t.Fatalf("%q: %v\n%s", args, err, p.log.String())
		}
		return printed.out
	}
	for _, id := range []string{"a", "b", "c", "d", "e"} {
		must("account", "add", id, "--kind", "feed", "--set", "url=https://feeds.invalid/"+id, "--every", "1h")
	}
	must("account", "pause", "e")
	redis := redistest.Connect(t, server)
	find := func(id string, in func(ring *circulate.Ring) int) {
		t.Helper()
		ring, err := circulate.Open(t.Context(), redis, circulate.Options{})
		if err != nil {
			t.Fatal(err)
		}
		conn, err := redis.Conn(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := conn.Do("XADD", ring.Tag(in(ring))+":messages", "*", "account", "a", "kind", "feed", "id", id, "type", "item", "time", "", "data", "{}"); err != nil {
			t.Fatal(err)
		}
	}
	tail := startProgram(t, variables, "messages", "tail", "--group", "audit", "--from", "start", "--json")
	find("before", func(*circulate.Ring) int { return 0 })
	tail.out.Await(t, `"before"`)
	for _, step := range []struct {
		args []string
		want string
	}{
		{[]string{"reshard"}, "3 shards, 5 accounts"},
		{[]string{"reshard", "--to", "5", "--dry-run"}, "5 accounts would move from 3 to 5 shards"},
		{[]string{"reshard", "--to", "5", "--json"}, `"left":0`},
		{[]string{"audit"}, "nothing found"},
		{[]string{"account", "get", "e"}, "paused"},
		{[]string{"reshard", "--finish"}, "5 shards, 5 accounts; 1 messages in the old shards were dropped"},
	} {
		if slices.Contains(step.args, "--finish") {
			// The tail has this message in hand while the old shards go away, and with them the
			// number of its shard.
			find("during", func(ring *circulate.Ring) int { return ring.Shards() - 1 })
			tail.out.Await(t, `"during"`)
		}
		if got := must(step.args...); !strings.Contains(got, step.want) {
			t.Fatalf("%q: %s, want %q", step.args, got, step.want)
		}
	}
	p.log.Await(t, `"layout":"1:5"`)
	// Each layout has another replica of the process, and none of them was shut down.
	if said := p.log.String(); strings.Count(said, `"msg":"the number of shards changed: the process goes on under another name","process":"`) != 2 || strings.Contains(said, "shutting down") {
		t.Errorf("the log says: %s", said)
	}
	find("after", func(*circulate.Ring) int { return 4 })
	tail.out.Await(t, `"after"`)
	if strings.Contains(tail.log.String(), "shutting down") {
		t.Errorf("the tail says: %s", tail.log.String())
	}
	if err := tail.stop(); err != nil {
		t.Errorf("the tail ends: %v\n%s", err, tail.log.String())
	}
	must("account", "resume", "e")
	if err := p.stop(); err != nil {
		t.Error(err)
	}
	ring, err := circulate.Open(t.Context(), redistest.Connect(t, server), circulate.Options{})
	if err != nil || ring.Shards() != 5 || ring.Sources() != 0 {
		t.Errorf("%v, %v", ring, err)
	}
}

func TestReshardCommandRefusesNonsense(t *testing.T) {
	s := startAPI(t)
	for _, args := range [][]string{{"--dry-run"}, {"--to", "5", "--finish"}, {"--to", "5", "--abort"}, {"--abort", "--finish"}, {"--force"}, {"--to", "0"}, {"more"}} {
		if printed, err := s.rounds(append([]string{"reshard"}, args...)...); err == nil {
			t.Errorf("%q: %s", args, printed.out)
		}
	}
}

// A change that no monitor has begun can be aborted.
func TestReshardCommandGivesUp(t *testing.T) {
	s := startAPI(t)
	before := s.ring.Shards()
	if _, err := s.ring.Mover().Begin(t.Context(), before+1); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct{ flag, want string }{
		{"--json", `"phase":"moving"`},
		{"--abort", fmt.Sprintf("%d shards, ", before)},
		{"--abort", fmt.Sprintf("there is nothing to abort: %d shards, ", before)},
		{"--json", `"phase":"steady"`},
	} {
		printed, err := s.rounds("reshard", step.flag)
		if err != nil || !strings.Contains(printed.out, step.want) {
			t.Errorf("%s: %s, %v, want %q", step.flag, printed.out, err, step.want)
		}
		if strings.HasPrefix(printed.out, "there is nothing to abort") != strings.HasPrefix(step.want, "there") {
			t.Errorf("%s: %s", step.flag, printed.out)
		}
	}
}

func TestReshardCommandAdvisesPowersOfTwo(t *testing.T) {
	s := startAPI(t)
	for to, want := range map[string]string{"100": "100 is not a power of two, which the number of shards should be\n", "128": "", "1": ""} {
		if printed, err := s.rounds("reshard", "--to", to, "--dry-run"); err != nil || printed.err != want {
			t.Errorf("--to %s: %q, want %q: %v", to, printed.err, want, err)
		}
	}
}

// While no monitor is alive, the command that changes the number of shards says so, before and
// during the change.
func TestReshardCommandNeedsAMonitor(t *testing.T) {
	s := startAPI(t)
	const none = "no monitor is alive, and nothing moves until one is: start a process with the role monitor"
	s.must("account", "add", "a", "--kind", "feed", "--set", "url=u")
	if got := s.must("reshard", "--to", "5", "--dry-run"); got != "1 accounts would move from 4 to 5 shards\n"+none+"\n" {
		t.Errorf("dry run: %q", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	env := testEnvironment(map[string]string{"ROUNDS_API_URL": s.url, "ROUNDS_API_TOKEN": testToken})
	said := ""
	env.stderr = writerFunc(func(p []byte) (int, error) {
		said += string(p)
		cancel()
		return len(p), nil
	})
	if err := run(ctx, []string{"reshard", "--to", "5"}, env); err == nil || err.Error() != "interrupted: "+none {
		t.Errorf("interrupted: %v", err)
	}
	if !strings.HasPrefix(said, "4 to 5 shards: none of 1 accounts has moved; ") || !strings.HasSuffix(said, "; "+none+"\n") {
		t.Errorf("begun: %q", said)
	}
	roster, monitor := s.ring.Roster(), circulate.Process{Name: circulate.NewReplica(), Roles: "api,monitor"}
	if _, err := roster.Attend(t.Context(), monitor, nil); err != nil {
		t.Fatal(err)
	}
	if got := s.must("reshard"); strings.Contains(got, "no monitor") {
		t.Errorf("with a monitor: %q", got)
	}
}

// The progress of a change has one total, though accounts on their way are not counted.
func TestReshardProgressHasOneTotal(t *testing.T) {
	var shown shownReshard
	for _, step := range []struct {
		is   api.Resharding
		want string
	}{
		{api.Resharding{From: 4, To: 8, Accounts: 1000, Left: 900}, "4 to 8 shards: 100 of 1000 accounts have moved"},
		{api.Resharding{From: 4, To: 8, Accounts: 872, Left: 800, Transit: 1}, "4 to 8 shards: 200 of 1000 accounts have moved"},
		{api.Resharding{From: 4, To: 8, Accounts: 990, Left: 800, Transit: 1}, ""},
		{api.Resharding{From: 4, To: 8, Accounts: 1000, Left: 600}, "4 to 8 shards: 400 of 1000 accounts have moved"},
	} {
		if text, news := shown.next(step.is); news != (step.want != "") || news && text != step.want {
			t.Errorf("%+v: %q, %t; want %q", step.is, text, news, step.want)
		}
	}
}
