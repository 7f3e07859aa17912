package service

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/rounds-dev/rounds/cmd/rounds/telemetry"
	"github.com/rounds-dev/rounds/poller/span"
	"github.com/rounds-dev/rounds/testing/processes"
	"github.com/rounds-dev/rounds/testing/redistest"
	"github.com/rounds-dev/rounds/testing/spantest"
)

// spansInMemory are exported spans that outlive their recorder.
type spansInMemory struct{ *tracetest.InMemoryExporter }

func (spansInMemory) Shutdown(context.Context) error { return nil }

// named returns the spans of one trace in the order in which they began, as spantest has them.
func (s spansInMemory) of(trace string) (spans []spantest.Span) {
	all := s.GetSpans()
	slices.SortStableFunc(all, func(a, b tracetest.SpanStub) int { return a.StartTime.Compare(b.StartTime) })
	for _, one := range all {
		if one.SpanContext.TraceID().String() != trace {
			continue
		}
		parent := ""
		if one.Parent.IsValid() {
			parent = one.Parent.SpanID().String()
		}
		spans = append(spans, spantest.Span{Name: one.Name, ID: one.SpanContext.SpanID().String(), Parent: parent})
	}
	return spans
}

// A message is one trace from its check to its webhook, and a send from the caller's request to what
// the webhook is told of it. Connectors and webhooks get the traceparent, and no span has a secret, a query
// or a text.
func TestAMessageAndASendAreOneTraceEach(t *testing.T) {
	const caller = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	type request struct{ what, trace string }
	came := make(chan request, 100)
	third := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, err := io.ReadAll(q.Body)
		if err != nil {
			return
		}
		what := strings.TrimPrefix(q.URL.Path, "/hidden")
		var event struct{ Type string }
		if _ = json.Unmarshal(body, &event); event.Type != "" && what == "/hook" {
			what = event.Type
		}
		came <- request{what, q.Header.Get("Traceparent")}
		switch what {
		case "/check":
			fmt.Fprint(w, `{"messages":[{"id":"1","type":"text","time":"2026-03-01T12:00:00Z","data":{"text":"hidden"}}],"next_cursor":"1"}`)
		case "/send":
			fmt.Fprint(w, `{"id":"vendor"}`)
		}
	}))
	t.Cleanup(third.Close)
	exported := spansInMemory{tracetest.NewInMemoryExporter()}
	recorder, err := telemetry.Open(t.Context(), telemetry.Options{Version: "1", Exporter: exported})
	if err != nil {
		t.Fatal(err)
	}
	p := startWith(t, map[string]string{
		"ROUNDS_API_ADDR": "127.0.0.1:0", "ROUNDS_ALLOW_PRIVATE_ADDRESSES": "true", "ROUNDS_ROLES": "api,poller,delivery", "ROUNDS_SERVICE_SECRET_CRM": signingKey,
		"ROUNDS_WEBHOOKS_FILE": writeFile(t, fmt.Sprintf(`{"endpoints":[{"name":"crm","url":"%s/hidden/hook?key=hidden","secrets":[{"secret":"CRM"}],"events":true}]}`, third.URL)),
	}, Options{Redis: redistest.Embedded(t), spans: recorder})
	base := p.base(t, "api")
	processes.AwaitStatus(t, base+"/readyz", http.StatusOK)
	call := func(method, path, body string, status int) {
		t.Helper()
		q, err := http.NewRequestWithContext(t.Context(), method, base+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		q.Header.Set("Content-Type", "application/json")
		q.Header.Set("Idempotency-Key", "k")
		q.Header.Set("Traceparent", caller)
		answer, err := http.DefaultClient.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != status {
			t.Fatalf("%s %s: %d", method, path, answer.StatusCode)
		}
	}
	// await returns the trace of the next request of a sort.
	await := func(what string) string {
		t.Helper()
		for deadline := time.After(30 * time.Second); ; {
			select {
			case got := <-came:
				if got.what != what {
					continue
				}
				if !span.Valid(got.trace) {
					t.Fatalf("%s came with the traceparent %q", what, got.trace)
				}
				return got.trace[3:35]
			case <-deadline:
				t.Fatalf("%s did not come", what)
			}
		}
	}
	call("PUT", "/v1/accounts/a", fmt.Sprintf(`{"kind":"http","cadence":"every 1h","config":{"url":"%[1]s/hidden/check?key=hidden","send_url":"%[1]s/hidden/send?key=hidden"}}`, third.URL), http.StatusCreated)
	checked := await("/check")
	if found := await("message.found"); found != checked {
		t.Errorf("the check has the trace %s, the webhook %s", checked, found)
	}
	call("POST", "/v1/accounts/a/sends", `{"to":"peer","type":"text","data":{"text":"hidden"}}`, http.StatusAccepted)
	if sent, told := await("/send"), await("send.accepted"); sent != caller[3:35] || told != sent {
		t.Errorf("the caller has the trace %s, the send %s, the event about it %s", caller[3:35], sent, told)
	}
	if err := p.stop(); err != nil {
		t.Error(err)
	}
	recorder.Close()
	const check = "check http\n  claim\n  call\n    POST\n  commit messages\n    process messages\n      POST\n"
	if got := spantest.Tree(exported.of(checked)); got != check {
		t.Errorf("the check is\n%swant\n%s", got, check)
	}
	const send = "queue sends\n  attempt sends\n    POST\n  process messages\n    POST\n"
	if got := spantest.Tree(exported.of(caller[3:35])); got != send {
		t.Errorf("the send is\n%swant\n%s", got, send)
	}
	for _, s := range exported.GetSpans() {
		text, err := json.Marshal(s.Attributes)
		if err != nil || strings.Contains(string(text), "hidden") || strings.Contains(s.Name+s.Status.Description, "hidden") {
			t.Errorf("%s: %s, %v", s.Name, text, err)
		}
	}
}
