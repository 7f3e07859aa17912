package command

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/rounds-dev/rounds/cmd/rounds/api"
)

func TestTrail(t *testing.T) {
	s := startAPI(t)
	if got := s.must("trail"); got != "TIME  BY  FROM  ACTION  OUTCOME  ABOUT\n" {
		t.Errorf("nothing: %q", got)
	}
	for _, id := range []string{"a", "b"} {
		s.must("account", "add", id, "--kind", "feed", "--set", "url=u")
	}
	s.must("account", "set", "a", "--set", "url=v", "--every", "1h")
	s.must("account", "pause", "--kind", "feed")
	s.must("parked", "revive", "a")
	if _, err := s.rounds("account", "rm", "none"); err == nil {
		t.Error("none was deleted")
	}
	got := regexp.MustCompile(`(?m)^[-0-9]+ [:0-9]+  +`).ReplaceAllString(s.must("trail"), "")
	got = regexp.MustCompile(` +`).ReplaceAllString(got, " ")
	const want = "TIME BY FROM ACTION OUTCOME ABOUT\n" +
		"token 127.0.0.1 delete-account refused (404) none\n" +
		"token 127.0.0.1 revive-parked done a revived=1\n" +
		"token 127.0.0.1 pause-accounts done kind=feed changed=2 matched=2\n" +
		"token 127.0.0.1 patch-account done a changed cadence,config.url\n" +
		"token 127.0.0.1 create-account done b\n" +
		"token 127.0.0.1 create-account done a\n"
	if got != want {
		t.Errorf("got\n%s", got)
	}
	var e api.TrailEntry
	if got := s.must("trail", "--json", "--limit", "1", "--account", "b"); json.Unmarshal([]byte(got), &e) != nil || e.Account != "b" || e.Via != "token" {
		t.Errorf("as JSON: %s", got)
	}
	if got := s.must("trail", "--limit", "2", "--by", "token", "--since", "1h"); strings.Count(got, "\n") != 3 {
		t.Errorf("two: %s", got)
	}
	if got := s.must("trail", "--by", "nobody"); strings.Count(got, "\n") != 1 {
		t.Errorf("nobody's: %s", got)
	}
	for _, bad := range [][]string{{"--limit", "-1"}, {"--since", "-1h"}, {"--since", "x"}, {"more"}} {
		if _, err := s.rounds(append([]string{"trail"}, bad...)...); err == nil {
			t.Errorf("%v: no error", bad)
		}
	}

	why := s.must("account", "why", "a")
	if !strings.Contains(why, "\n\nchanges, the latest first:\n  ") || !strings.Contains(why, "  revive-parked by token  revived=1\n") || strings.Contains(why, "pause-accounts") {
		t.Errorf("why:\n%s", why)
	}
	for _, part := range []string{"\n\nlately, the latest first:\n  ", "  resumed, by token\n"} {
		if !strings.Contains(why, part) {
			t.Errorf("no %q in\n%s", part, why)
		}
	}
	var asJSON struct {
		ID       string
		Timeline []api.TimelineEvent
		Trail    []api.TrailEntry
	}
	if got := s.must("account", "why", "a", "--json"); json.Unmarshal([]byte(got), &asJSON) != nil || asJSON.ID != "a" || len(asJSON.Trail) != 3 || len(asJSON.Timeline) != 3 {
		t.Errorf("why as JSON: %s", got)
	}
}
