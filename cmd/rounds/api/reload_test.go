package api

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/rounds-dev/rounds/accounts"
)

func TestReload(t *testing.T) {
	var done Reloaded
	var failed error
	f := newFixture(t, func(o *Options) {
		o.Reload = func(context.Context) (Reloaded, error) { return done, failed }
	})
	if got := f.call("POST", "/v1/reload", "", 200, nil); got.body != `{"changed":[],"restart":[]}`+"\n" {
		t.Errorf("nothing: %q", got.body)
	}
	done = Reloaded{Changed: []string{"ROUNDS_LIMITS", "webhook crm: new"}, Restart: []string{"ROUNDS_ROLES"}}
	var got Reloaded
	f.call("POST", "/v1/reload", "", 200, &got)
	if strings.Join(got.Changed, "|") != "ROUNDS_LIMITS|webhook crm: new" || len(got.Restart) != 1 {
		t.Errorf("%+v", got)
	}
	failed = accounts.Faults{{Field: "ROUNDS_LIMITS", Reason: "must be less"}, {Field: "ROUNDS_ROLES", Reason: "must be some"}}
	var p problemBody
	f.call("POST", "/v1/reload", "", 422, &p)
	if got := p.locations(); len(got) != 2 || got[0] != "ROUNDS_LIMITS" {
		t.Errorf("faults at %v", got)
	}
	failed = errors.New("no")
	f.call("POST", "/v1/reload", "", 503, nil)
	newFixture(t, nil).call("POST", "/v1/reload", "", 404, nil)
}

// Requests are checked against the new token as soon as it is valid. Long requests with the
// old token end. If the token stays the same, they go on.
func TestUpdate(t *testing.T) {
	f := newFixture(t, func(o *Options) { o.Token = "one" })
	follow := func() *http.Response {
		t.Helper()
		r := f.request("GET", "/v1/messages", "")
		r.Header.Set("Accept", "text/event-stream")
		reply, err := http.DefaultClient.Do(r)
		if err != nil || reply.StatusCode != http.StatusOK {
			t.Fatal(reply, err)
		}
		return reply
	}
	stream := follow()
	defer stream.Body.Close()
	update := func(token string) {
		t.Helper()
		change, err := f.api.Update(token, nil)
		if err != nil {
			t.Fatal(err)
		}
		change()
	}
	update("one")
	if f.api.following.Load() != 1 {
		t.Error("with the same token a follower was cut off")
	}
	change, err := f.api.Update("two", nil) // the change is not applied yet
	if err != nil {
		t.Fatal(err)
	}
	f.call("GET", "/v1/groups", "", 200, nil)
	change()
	f.call("GET", "/v1/groups", "", 401, nil)
	if _, err := io.ReadAll(stream.Body); err != nil {
		t.Logf("the follower's stream ended: %v", err)
	}
	f.token = "two"
	f.call("GET", "/v1/groups", "", 200, nil)
	again := follow()
	defer again.Body.Close()
	f.api.Close()
	if _, err := io.ReadAll(again.Body); err != nil {
		t.Logf("the follower's stream ended: %v", err)
	}
	update("three")
	f.token = "three"
	f.call("GET", "/v1/groups", "", 200, nil)
	if f.api.closing.Err() == nil {
		t.Error("an update has opened what was closed")
	}
}
