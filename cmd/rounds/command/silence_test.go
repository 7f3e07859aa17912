package command

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/circulate"
)

// A tail whose messages stop says why, if its account fails or the service cannot tell.
func TestMessagesTailSaysWhyNoMoreComes(t *testing.T) {
	s := startAPI(t)
	s.must("account", "add", "news", "--kind", "feed", "--set", "url=u")
	s.find("news", circulate.Message{ID: "1", Type: "item", Data: []byte("{}")})
	at, err := url.Parse(s.url)
	if err != nil {
		t.Fatal(err)
	}
	var away atomic.Bool
	through := httputil.NewSingleHostReverseProxy(at)
	through.FlushInterval = -1
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if away.Load() && r.Header.Get("Accept") != "text/event-stream" {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = io.WriteString(w, `{"status":503,"detail":"Redis cannot be reached"}`)
			return
		}
		through.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	for _, c := range []struct {
		args string
		then func()
		want string
	}{
		{"", func() { away.Store(true) }, "no messages now: Redis cannot be reached (503 Service Unavailable)\n"},
		{"--account news", func() {
			away.Store(false)
			s.must("account", "nudge", "news")
			s.check("news", circulate.Return{Failures: 1, Mark: accounts.NewCodes().Mark("transient"), Error: "http_500: the server fails"})
		}, "nothing new; news fails: see rounds account why news\n"},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		env := testEnvironment(map[string]string{"ROUNDS_API_URL": front.URL, "ROUNDS_API_TOKEN": testToken})
		var came atomic.Bool
		env.quiet = 10 * time.Millisecond
		env.stdout = writerFunc(func(p []byte) (int, error) {
			c.then()
			came.Store(true)
			return len(p), nil
		})
		got := ""
		env.stderr = writerFunc(func(p []byte) (int, error) {
			if came.Load() {
				got = string(p)
				cancel()
			}
			return len(p), nil
		})
		if err := run(ctx, append([]string{"messages", "tail", "--from", "start"}, strings.Fields(c.args)...), env); err != nil || got != c.want {
			t.Errorf("%q: %q, want %q: %v", c.args, got, c.want, err)
		}
		cancel()
	}
}

// What is said of a silence is said once, and only what the service has told.
func TestASilenceIsSpokenOfOnce(t *testing.T) {
	var said strings.Builder
	env := testEnvironment(nil)
	env.stderr = &said
	s := &silence{env: env}
	away := errors.New("Redis cannot be reached")
	for i, step := range []struct {
		do   func()
		want string
	}{
		{func() { s.say(0, "", away) }, "no messages now: Redis cannot be reached\n"},
		{func() { s.say(0, "", away) }, ""},
		{s.disconnected, ""},
		{func() { s.say(0, "", away) }, ""}, // the tail says it
		{func() { s.say(0, "nothing yet", nil) }, "nothing yet\n"},
		{func() { s.say(0, "", nil) }, ""},
		{func() { s.say(0, "", away) }, "no messages now: Redis cannot be reached\n"},
		{s.heard, ""},
		{func() { s.say(0, "nothing yet", nil) }, ""}, // a message came meanwhile
		{func() { s.say(1, "nothing new", nil) }, "nothing new\n"},
		{func() { s.say(1, "nothing new", nil) }, ""},
		{s.heard, ""},
		{func() { s.say(2, "nothing new", nil) }, "nothing new\n"},
	} {
		said.Reset()
		if step.do(); said.String() != step.want {
			t.Errorf("step %d: %q, want %q", i, said.String(), step.want)
		}
	}
}
