package connector

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/poller/secrets"
	"github.com/rounds-dev/rounds/testing/checktest"
	"github.com/rounds-dev/rounds/testing/hostile"
)

// Any answer of a connector costs a bounded amount of memory. Its failure counts against the
// connector.
func TestHostileAnswers(t *testing.T) {
	const most = 100 << 20 // bytes allocated in all, including the answer and its sending
	for _, b := range hostile.Bodies() {
		if b.Route != "connector" {
			continue
		}
		body := b.Make(hostile.Size)
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(body) }))
		checker := New(checktest.Client(t, fetch.Options{}), secrets.Source{})
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := checker.Check(t.Context(), poller.Request{Account: "a", CheckID: "c", Config: json.RawMessage(`{"url":"` + server.URL + `"}`), Limit: 200})
		runtime.ReadMemStats(&after)
		if cost := after.TotalAlloc - before.TotalAlloc; cost > most {
			t.Errorf("%s: %d MiB allocated", b.Name, cost>>20)
		}
		var failed *poller.CheckError
		if errors.As(err, &failed) && (failed.Kind != poller.Protocol || failed.Scope != poller.ScopeChecker) {
			t.Errorf("%s: got %v, scope %s", b.Name, failed, failed.Scope)
		}
		server.Close()
	}
}

// Deep answers are refused, because a message's data is passed on unchanged to readers that
// may fail at deep nesting.
func TestDeepAnswersAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		body string
		ok   bool
	}{
		"deep":     {`{"messages":[{"id":"1","data":` + nest(100) + `}]}`, true},
		"too deep": {`{"messages":[{"id":"1","data":` + nest(130) + `}]}`, false},
	} {
		_, err := decode([]byte(c.body), 10)
		if (err == nil) != c.ok {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func nest(depth int) string {
	text := ""
	for range depth {
		text = "[" + text + "]"
	}
	return text
}

// A connector may repeat in its error what it was sent, in any form.
func TestNoFormOfASecretIsTold(t *testing.T) {
	const secret = `Bearer a/b+c d&"<>50%41-token-of-ours`
	word := strings.Fields(secret)[1]
	source := secrets.Source{Lookup: func(name string) (string, bool) { return secret, strings.HasPrefix(name, secrets.EnvPrefix) }}
	for _, status := range []int{200, 401, 500} {
		for _, echo := range append(checktest.Echoes(secret), checktest.Echoes(strings.Join(strings.Fields(secret)[1:], " "))...) {
			answer, err := json.Marshal(map[string]any{"error": map[string]string{"kind": "auth", "code": echo, "message": "refused: " + echo + "!"}})
			if err != nil {
				t.Fatal(err)
			}
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(status)
				_, _ = w.Write(answer)
			}))
			checker := New(checktest.Client(t, fetch.Options{}), source)
			raw := `{"url":"` + server.URL + `","headers":{"Authorization":{"secret":"S"}}}`
			_, err = checker.Check(t.Context(), poller.Request{Account: "a", CheckID: "c", Config: json.RawMessage(raw), Limit: 200})
			got := checktest.Failure(t, err)
			if strings.Contains(got.Message, echo) || strings.Contains(got.Code, echo) || strings.Contains(got.Message, word) {
				t.Errorf("%d with %q: %v", status, echo, got)
			}
			if !strings.HasPrefix(got.Message, "refused: ") || !strings.Contains(got.Message, "[secret]") && !strings.Contains(got.Message, "?…") {
				t.Errorf("%d with %q: %v", status, echo, got)
			}
			server.Close()
		}
	}
}
