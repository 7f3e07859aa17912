package client

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/cmd/rounds/api"
)

// faked returns a client of an API whose answers come from handler.
func faked(t *testing.T, handler http.HandlerFunc) *Client {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	c := New(server.URL+"/", "s3cret")
	t.Cleanup(c.Close)
	c.firstPause = 2 * time.Millisecond
	return c
}

func answer(w http.ResponseWriter, status int, kind, body string) {
	w.Header().Set("Content-Type", kind)
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
}

func TestRequests(t *testing.T) {
	var got []string
	c := faked(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer s3cret" {
			t.Errorf("%s: no token", r.URL)
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		got = append(got, strings.TrimSpace(r.Method+" "+r.RequestURI+" "+string(body)))
		if r.Method == http.MethodDelete {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		answer(w, http.StatusOK, "application/json", "{}")
	})
	ctx := t.Context()
	_, err := c.List(ctx, Query{Selector: accounts.Selector{
		Kinds: []string{"a b", "c"}, States: []string{"parked"}, Labels: map[string]string{"x": "=", "team": "a&b"}, Prefixes: []string{"p/"}, Reasons: []string{"auth"},
	}, Cursor: "x", Limit: 5})
	_, err2 := c.List(ctx, Query{})
	_, err3 := c.Put(ctx, accounts.Account{ID: "a/b?c", Kind: "feed"}, "")
	_, err4 := c.Schedule(ctx, "a/b")
	_, err5 := c.Parked(ctx, ParkedQuery{Kind: "a b", Reason: "auth: &", Cursor: "x", Limit: 5})
	_, err6 := c.Parked(ctx, ParkedQuery{})
	_, err7 := c.Revive(ctx, api.ReviveRequest{Reason: "auth", Rate: 2.5})
	_, err8 := c.Trail(ctx, TrailQuery{Account: "a/b", By: "press", Since: time.Hour, Cursor: "x", Limit: 5})
	_, err9 := c.AccountTrail(ctx, "a/b", 5)
	err = errors.Join(err, err2, err3, err4, err5, err6, err7, err8, err9, c.Remove(ctx, ".."), c.Pause(ctx, "."), c.Resume(ctx, "ü%", ""),
		c.Nudge(ctx, "a", api.NudgeRequest{Within: "5s", Hint: []byte(`{}`)}))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"GET /v1/accounts?cursor=x&kind=a+b&kind=c&label=team%3Da%26b&label=x%3D%3D&limit=5&prefix=p%2F&reason=auth&state=parked",
		"GET /v1/accounts",
		`PUT /v1/accounts/a%2Fb%3Fc {"id":"a/b?c","kind":"feed"}`,
		"GET /v1/accounts/a%2Fb/schedule",
		"GET /v1/parked?cursor=x&kind=a+b&limit=5&reason=auth%3A+%26",
		"GET /v1/parked",
		`POST /v1/parked:revive {"reason":"auth","rate":2.5}`,
		"GET /v1/trail?account=a%2Fb&by=press&cursor=x&limit=5&since=1h0m0s",
		"GET /v1/accounts/a%2Fb/trail?limit=5",
		"DELETE /v1/accounts/%2E%2E",
		"POST /v1/accounts/%2E/pause",
		"POST /v1/accounts/%C3%BC%25/resume",
		`POST /v1/accounts/a/nudge {"within":"5s","hint":{}}`,
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestErrors(t *testing.T) {
	for _, c := range []struct {
		name, kind, body string
		status           int
		want             string
	}{
		{"faults", "application/problem+json", `{"title":"T","status":422,"detail":"validation failed","errors":[{"location":"body.config.url","message":"must not be empty"},{"message":"all is bad"}]}`,
			422, "validation failed (422 Unprocessable Entity)\n  config.url: must not be empty\n  all is bad"},
		{"title only", "application/problem+json; charset=utf-8", `{"title":"Gone away"}`, 410, "Gone away (410 Gone)"},
		{"no token", "application/problem+json", `{"detail":"a token is needed"}`, 401, "a token is needed (401 Unauthorized): ROUNDS_API_TOKEN here is not that of the service at SERVER"},
		{"a proxy's page", "text/html", "<html>", 502, "the API refused (502 Bad Gateway)"},
		{"a broken document", "application/problem+json", "{", 500, "the API refused (500 Internal Server Error)"},
		{"another program", "text/html", "<html>", 404, "what answers at SERVER is not rounds (404 Not Found): set ROUNDS_API_URL"},
		{"another program, asked to add", "text/html;charset=utf-8", "<html>", 501, "what answers at SERVER is not rounds (501 Not Implemented): set ROUNDS_API_URL"},
		{"an account that is unknown", "application/problem+json", `{"detail":"no such account"}`, 404, "no such account (404 Not Found)"},
		{"about the service", "application/problem+json", `{"detail":"the service has no key"}`, 409, "the service at SERVER has no key (409 Conflict)"},
		{"elsewhere", "text/html", "", 302, "the API refused (302 Found)"},
	} {
		client := faked(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", "/elsewhere")
			answer(w, c.status, c.kind, c.body)
		})
		_, err := client.Stats(t.Context())
		if err == nil || strings.ReplaceAll(err.Error(), client.At(), "SERVER") != c.want || Status(err) != c.status {
			t.Errorf("%s: got %v, want %s", c.name, err, c.want)
		}
	}
	c := faked(t, func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, "text/html", "<html>") })
	if _, err := c.Stats(t.Context()); err == nil || !strings.Contains(err.Error(), "is not rounds: set ROUNDS_API_URL") {
		t.Errorf("a page: got %v", err)
	}
	c = faked(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	if _, err := c.Stats(t.Context()); err == nil || !strings.Contains(err.Error(), "did not answer") || Status(err) != 0 {
		t.Errorf("cut: got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Stats(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: got %v", err)
	}
}

// A bad line is reported while records are still being sent. A user whose import takes hours
// must not wait for its end.
func TestImportTellsWhileItSends(t *testing.T) {
	c := faked(t, func(w http.ResponseWriter, r *http.Request) {
		connection := http.NewResponseController(w)
		if err := connection.EnableFullDuplex(); err != nil {
			t.Error(err)
		}
		line := make([]byte, len("{}\n"))
		if _, err := io.ReadFull(r.Body, line); err != nil {
			t.Error(err)
		}
		_, _ = io.WriteString(w, `{"line":1,"errors":[{"field":"id","reason":"is empty"}]}`+"\n\n")
		if err := connection.Flush(); err != nil {
			t.Error(err)
		}
		if rest, err := io.ReadAll(r.Body); err != nil || string(rest) != "rest\n" {
			t.Errorf("got %q, %v", rest, err)
		}
		_, _ = io.WriteString(w, `{"summary":{"lines":2,"created":1,"failed":1}}`)
	})
	records, sender := io.Pipe()
	go func() { _, _ = io.WriteString(sender, "{}\n") }()
	summary, err := c.Import(t.Context(), records, "", func(bad api.BadLine) error {
		if bad.Line != 1 || len(bad.Errors) != 1 {
			t.Errorf("got %+v", bad)
		}
		go func() {
			_, _ = io.WriteString(sender, "rest\n")
			_ = sender.Close()
		}()
		return nil
	})
	if want := (api.ImportSummary{Lines: 2, Created: 1, Failed: 1}); err != nil || summary != want {
		t.Errorf("got %+v, %v", summary, err)
	}
}

func TestImportThatFails(t *testing.T) {
	stop := errors.New("stop")
	for _, c := range []struct{ name, body, want string }{
		{"no summary", `{"line":1,"errors":[]}` + "\n", "cut off before its summary"},
		{"nothing", "", "cut off before its summary"},
		{"half a line", `{"line":1`, "cannot be read"},
		{"an error", `{"error":"Redis is away","summary":{"lines":7}}`, "Redis is away"},
		{"the caller's", `{"line":9,"errors":[]}` + "\n", "stop"},
	} {
		client := faked(t, func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, "application/x-ndjson", c.body) })
		_, err := client.Import(t.Context(), strings.NewReader("{}"), "", func(bad api.BadLine) error {
			if bad.Line == 9 {
				return stop
			}
			return nil
		})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v", c.name, err)
		}
	}
}

// An answer that is cut off must never look complete.
func TestExportThatIsCutOff(t *testing.T) {
	for name, body := range map[string]string{"in a line": "{\"id\":\"a\"}\n{\"id\":", "after a line": "{\"id\":\"a\"}\n"} {
		c := faked(t, func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, body)
			if err := http.NewResponseController(w).Flush(); err != nil {
				t.Error(err)
			}
			panic(http.ErrAbortHandler)
		})
		if _, err := c.Export(t.Context(), accounts.Exporting{}, io.Discard); !errors.Is(err, errCutOff) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	var out strings.Builder
	c := faked(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "{\"id\":\"a\"}\n{\"id\":\"b\"}")
	})
	if lines, err := c.Export(t.Context(), accounts.Exporting{}, &out); err != nil || lines != 2 || out.String() != "{\"id\":\"a\"}\n{\"id\":\"b\"}\n" {
		t.Errorf("got %d, %v, %q", lines, err, out.String())
	}
}
