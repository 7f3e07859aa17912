package command

import (
	"encoding/json"
	"strings"
	"testing"

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
