package api

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

func TestConcernsAreSilencedAndSeen(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil) // without a monitor
	find := func() (found Concern) {
		var list Concerns
		f.call(http.MethodGet, "/v1/concerns", "", http.StatusOK, &list)
		for _, c := range list.Concerns {
			if c.Code == "no_monitor" {
				found = c
			}
		}
		if found.Code == "" {
			t.Fatalf("%+v", list)
		}
		return found
	}
	const path = "/v1/concerns/no_monitor/"
	f.call(http.MethodPost, path+"acknowledge", `{"note":"on my way"}`, http.StatusNoContent, nil)
	f.call(http.MethodPost, path+"silence", `{"lasts":"4h","reason":"a test"}`, http.StatusNoContent, nil)
	if c := find(); c.Seen == nil || c.Seen.Note != "on my way" || c.Seen.By == "" || c.Silenced == nil || c.Silenced.Reason != "a test" {
		t.Errorf("%+v", c)
	}
	f.call(http.MethodPost, path+"unsilence", `{}`, http.StatusNoContent, nil)
	f.call(http.MethodPost, path+"unsilence", `{}`, http.StatusNotFound, nil)
	if c := find(); c.Seen != nil || c.Silenced != nil {
		t.Errorf("%+v", c)
	}
	for body, want := range map[string]string{`{"lasts":"4h"}`: "reason", `{"reason":"why"}`: "until", `{"reason":"why","lasts":"31d"}`: "until"} {
		if got := f.errorReply(http.MethodPost, path+"silence", body, http.StatusUnprocessableEntity); !strings.Contains(fmt.Sprint(got), want) {
			t.Errorf("%s: %v", body, got)
		}
	}
	f.errorReply(http.MethodPost, "/v1/concerns/odd/acknowledge", `{}`, http.StatusUnprocessableEntity)
}
