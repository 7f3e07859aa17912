package command

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/cmd/rounds/api"
)

func TestJobsAreOrderedShownAndTakenBack(t *testing.T) {
	s := startAPI(t)
	s.must("account", "add", "a-1", "--kind", "feed", "--set", "url=https://example.com/1")
	s.must("account", "add", "a-2", "--kind", "feed", "--set", "url=https://example.com/2")
	var j api.Job
	if got := s.must("account", "pause", "--prefix", "a-", "--job", "--json"); json.Unmarshal([]byte(got), &j) != nil || j.ID == "" {
		t.Fatal(got)
	}
	got := s.must("jobs", "list")
	if !strings.Contains(got, j.ID+"  pause") || !strings.Contains(got, "prefix=a-") {
		t.Error(got)
	}
	if got := s.must("jobs", "stop", j.ID); !strings.HasPrefix(got, j.ID+"  pause  stop") && !strings.Contains(got, "ended") {
		t.Error(got)
	}
	if got := s.must("jobs", "show", j.ID); !strings.Contains(got, "changed=") {
		t.Error(got)
	}
	for _, bad := range [][]string{{"jobs", "undo", "none"}, {"jobs", "stop"}, {"account", "pause", "a-1", "--job"}, {"account", "pause", "--all", "--job", "--dry-run"}} {
		if _, err := s.rounds(bad...); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

// Accounts that are selected are changed and retried by jobs.
func TestSelectedAccountsAreSetByAJob(t *testing.T) {
	s := startAPI(t)
	for _, id := range []string{"a-1", "a-2", "b-1"} {
		s.must("account", "add", id, "--kind", "feed", "--set", "url=https://example.com/"+id, "--label", "old=x")
	}
	var j api.Job
	got := s.must("account", "set", "--where", "prefix=a-", "--where", "label=old=x", "--every", "5m", "--priority", "", "--label", "team=a=b", "--unlabel", "old", "--json")
	if err := json.Unmarshal([]byte(got), &j); err != nil || j.Action != accounts.SetAll {
		t.Fatal(got, err)
	}
	if set := fmt.Sprint(j.Select, j.Set); set != "map[label:[old=x] prefix:[a-]] map[cadence:every 5m labels:map[old:<nil> team:a=b] priority:<nil>]" {
		t.Error(set)
	}
	got = s.must("account", "retry", "--prefix", "a-", "--rate", "2", "--job", "--json")
	if err := json.Unmarshal([]byte(got), &j); err != nil || j.Action != accounts.RetryAll {
		t.Error(got, err)
	}
	s.must("account", "pause", "b-1")
	if got, err := s.rounds("account", "retry", "b-1"); err == nil {
		t.Errorf("a paused account is retried: %s", got.out)
	}
	s.must("account", "resume", "b-1")
	if got := s.must("account", "retry", "b-1"); got != "b-1 retried\n" {
		t.Error(got)
	}
	for args, want := range map[string]string{
		"set a-1 --where kind=feed --every 5m":             "cannot be combined with names",
		"set a-1 --all --every 5m":                         "cannot be combined with names",
		"set --every 5m":                                   "name accounts",
		"set --where kind=feed --where lable=x --every 5m": `--where "lable=x" must be NAME=VALUE`,
		"set --where state=asleep --every 5m":              "state: must be one of",
		"set --where kind=feed --all --every 5m":           "--all: must not be true",
		"set --where kind=feed --set url=x":                "--config: cannot be set for many accounts",
		"set --where kind=feed --every never":              "--cadence",
		"retry --kind feed --rate -1":                      "--rate",
		"retry a-1 --rate 2":                               "cannot be combined with names",
	} {
		if _, err := s.rounds(append([]string{"account"}, strings.Fields(args)...)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", args, err, want)
		}
	}
}
