package command

import (
	"strings"
	"testing"
)

func TestAccountResumeSaysFromWhere(t *testing.T) {
	s := startAPI(t)
	s.must("account", "add", "a", "--kind", "feed", "--set", "url=u")
	s.must("account", "pause", "a")
	for _, wrong := range [][]string{{"a", "--from", "then"}, {"--all", "--from", "now"}} {
		if _, err := s.rounds(append([]string{"account", "resume"}, wrong...)...); err == nil || !strings.Contains(err.Error(), "--from") {
			t.Errorf("%q: %v", wrong, err)
		}
	}
	if got := s.must("account", "resume", "a", "--from", "now"); got != "a resumed\n" {
		t.Errorf("got %q", got)
	}
	if got := s.must("account", "why", "a"); !strings.Contains(got, "begun         from now: what came before 2") {
		t.Errorf("got\n%s", got)
	}
	s.must("account", "pause", "a")
	s.must("account", "resume", "a", "--from", "backfill")
	if got := s.must("account", "why", "a"); strings.Contains(got, "passed over") {
		t.Errorf("got\n%s", got)
	}
}
