package examples

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// The guide's consumer goes on after a 503 and after a broken connection, with the same request.
func TestConsumerOfTheGuideRepeatsAnUnansweredRead(t *testing.T) {
	for language, page := range map[string]string{"English": "../guide/messages.md", "Chinese": "../guide/zh-CN/messages.md"} {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			python := interpreted("python3", "")(t)[0]
			text, err := os.ReadFile(page)
			if err != nil {
				t.Fatal(err)
			}
			_, program, _ := strings.Cut(string(text), "```python\n")
			program, _, found := strings.Cut(program, "```")
			const at = "http://127.0.0.1:8080/"
			if !found || strings.Count(program, at) != 1 {
				t.Fatalf("the page has no such program: %q", program)
			}
			bodies := repeats(t, python, func(url string) string {
				return "import time\ntime.sleep = lambda seconds: None\n" + strings.Replace(program, at, url+"/", 1)
			})
			first, then := `{"from":"start","wait":"10s"}`, `{"consumer":"c","acknowledge":["h1"],"wait":"10s"}`
			if want := []string{first, first, then, then, then}; !slices.Equal(bodies, want) {
				t.Errorf("the consumer asked %q, want %q", bodies, want)
			}
		})
	}
}

// repeats runs the program against an API with trouble until it has read its second page, and returns the
// bodies of its requests.
func repeats(t *testing.T, python string, program func(url string) string) (bodies []string) {
	t.Helper()
	const page = `{"consumer":"c","messages":[{"account":"a","id":"1","data":{},"handle":"h1"}]}`
	answers := []func(w http.ResponseWriter){
		func(w http.ResponseWriter) { w.WriteHeader(http.StatusServiceUnavailable) },
		func(w http.ResponseWriter) { _, _ = io.WriteString(w, page) },
		func(http.ResponseWriter) { panic(http.ErrAbortHandler) },
		func(w http.ResponseWriter) {
			w.Header().Set("Content-Length", "1000")
			_, _ = io.WriteString(w, page)
			panic(http.ErrAbortHandler)
		},
		func(w http.ResponseWriter) { w.WriteHeader(http.StatusTeapot) }, // which ends the program
	}
	requests := make(chan string, len(answers))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		requests <- string(body)
		answers[min(len(requests), len(answers))-1](w)
	}))
	defer server.Close()
	cmd := exec.CommandContext(t.Context(), python, "-c", program(server.URL))
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "418") {
		t.Errorf("the program ended with %v:\n%s", err, out)
	}
	server.Close() // all requests have been written down
	close(requests)
	for body := range requests {
		var b bytes.Buffer
		if err := json.Compact(&b, []byte(body)); err != nil {
			t.Fatal(err)
		}
		bodies = append(bodies, b.String())
	}
	return bodies
}
