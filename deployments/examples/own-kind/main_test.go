package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/cmd/rounds/command"
	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/testing/checktest"
	"github.com/rounds-dev/rounds/testing/ports"
	"github.com/rounds-dev/rounds/testing/processes"
)

// page serves the incidents of a status page.
func page(t *testing.T) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/v2/incidents.json" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		_, _ = fmt.Fprint(w, `{"page":{},"incidents":[
			{"id":"b","name":"Pages are late","status":"resolved","updated_at":"2026-11-21T12:00:00Z"},
			{"id":"a","name":"Mail is late","status":"investigating","updated_at":"2026-11-20T12:00:00Z"}]}`)
	}))
	t.Cleanup(server.Close)
	return server
}

func config(url string) json.RawMessage { return fmt.Appendf(nil, `{"url":%q}`, url) }

func TestEachStateOfAnIncidentIsReportedOnce(t *testing.T) {
	checker, err := newStatuspage(command.Tools{Client: checktest.Client(t, fetch.Options{})})
	if err != nil {
		t.Fatal(err)
	}
	server := page(t)
	var ids []string
	var cursor []byte
	for range 3 {
		result, err := checker.Check(t.Context(), poller.Request{Config: config(server.URL), Cursor: cursor, Limit: 1})
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range result.Messages {
			ids = append(ids, m.ID)
		}
		if more := len(ids) == 1; result.HasMore != more {
			t.Errorf("after %q: more %v", ids, result.HasMore)
		}
		cursor = result.Cursor
	}
	if got := strings.Join(ids, " "); got != "a/1795176000000 b/1795262400000" {
		t.Errorf("got %s", got)
	}
	for url, code := range map[string]string{server.URL + "/elsewhere": "http_404", "http://127.0.0.1:1": "connect"} {
		_, err := checker.Check(t.Context(), poller.Request{Config: config(url)})
		if got := checktest.Failure(t, err); got.Code != code {
			t.Errorf("%s: got %v", url, got)
		}
	}
	if err := checker.Validate(json.RawMessage(`{"url":"gopher://x","zebra":1}`)); err == nil || err.Error() != "config.url: must begin with https:// or http://\nconfig.zebra: unknown field; the only field is url" {
		t.Errorf("got %v", err)
	}
}

func TestTheFieldsAreThoseOfValidate(t *testing.T) {
	checker, err := newStatuspage(command.Tools{Client: checktest.Client(t, fetch.Options{})})
	if err != nil {
		t.Fatal(err)
	}
	checktest.Declared(t, checker, ".")
}

// The program has everything that rounds has, and it knows its own kind wherever kinds matter.
func TestTheProgramKnowsItsKind(t *testing.T) {
	path := filepath.Join(t.TempDir(), "own-kind")
	if out, err := processes.Go(t.Context(), "build", "-ldflags=-w", "-o", path, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	addr, err := ports.Address()
	if err != nil {
		t.Fatal(err)
	}
	variables := []string{"ROUNDS_API_ADDR=" + addr, "ROUNDS_API_URL=http://" + addr, "ROUNDS_ALLOW_PRIVATE_ADDRESSES=true", "ROUNDS_LIMITS=statuspage rate=100/s", "ROUNDS_DATA_DIR=memory"}
	service, err := processes.Start("own-kind", path, variables, "serve")
	if err != nil {
		t.Fatal(err)
	}
	defer service.Kill()
	processes.AwaitStatus(t, "http://"+addr+"/readyz", http.StatusOK)

	run := func(args ...string) string {
		cmd := exec.CommandContext(t.Context(), path, args...)
		cmd.Env = append(append(os.Environ(), "LC_ALL=C"), variables...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			return string(out) + err.Error()
		}
		return string(out)
	}
	url := page(t).URL
	for _, c := range []struct {
		args string
		want string
	}{
		{"check --kind statuspage --set url=" + url, "page 1   2 messages"},
		{"account add status --kind statuspage --set uri=" + url, "config.uri: unknown field"},
		{"account add status --kind statuspages --set url=" + url, "the kinds are feed, graph, http, imap, statuspage"},
		{"account add status --kind statuspage --every 1h --set url=" + url, "status added"},
		{"messages tail --from start --limit 2", "Pages are late"},
		{"account why status", "statuspage"},
		{"version", "rounds "},
	} {
		if got := run(strings.Fields(c.args)...); !strings.Contains(got, c.want) {
			t.Errorf("%s: no %q in\n%s", c.args, c.want, got)
		}
	}
	if _, metrics := processes.Get(t, "http://"+addr+"/metrics", ""); !strings.Contains(metrics, `rounds_checks_total{kind="statuspage",outcome="ok"} 1`) {
		t.Error("its checks are not counted")
	}
	for _, path := range []string{"/docs", "/docs/guide/embedding", "/openapi.json"} {
		if status, _ := processes.Get(t, "http://"+addr+path, ""); status != http.StatusOK {
			t.Errorf("%s answers %d", path, status)
		}
	}
	if err := service.Terminate(30 * time.Second); err != nil {
		t.Error(err)
	}
}
