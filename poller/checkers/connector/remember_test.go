package connector

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/testing/checktest"
)

// The config says by what an account remembers its messages.
func TestRemember(t *testing.T) {
	messages := `{"messages":[
		{"id":"1","type":"note","time":"2026-11-26T12:00:00Z","data":{"a":1,"b":[2]}},
		{"id":"2","type":"note","time":"2026-11-26T20:00:00+08:00","data":{ "b": [2], "a": 1 }},
		{"id":"3","type":"note","time":"2026-11-26T12:00:01Z","data":{"a":1,"b":[2]}},
		{"id":"4","type":"memo","time":"2026-11-26T12:00:00Z","data":{"a":1,"b":[2]}},
		{"id":"5","type":"note","time":"2026-11-26T12:00:00Z","data":{"a":2,"b":[2]}}]}`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(messages)) }))
	t.Cleanup(server.Close)
	checker := New(checktest.Client(t, fetch.Options{}), source())
	for _, by := range []string{"", byIDs, byContent} {
		config := json.RawMessage(fmt.Sprintf(`{"url":%q}`, server.URL))
		if by != "" {
			config = json.RawMessage(fmt.Sprintf(`{"url":%q,"remember":%q}`, server.URL, by))
		}
		if err := checker.Validate(config); err != nil {
			t.Fatal(err)
		}
		want := poller.UsualRemember()
		if by == "" {
			want = poller.Remember{}
		}
		if got := checker.Remembers(config); got != want {
			t.Errorf("%q: remembers %+v, want %+v", by, got, want)
		}
		r, err := checker.Check(t.Context(), poller.Request{Account: "a", CheckID: "c", Config: config, Limit: 200})
		if err != nil || len(r.Messages) != 5 {
			t.Fatalf("%q: got %+v, %v", by, r, err)
		}
		contents := make(map[string]int)
		for _, m := range r.Messages {
			if m.NoID != (by == byContent) || (m.Content != "") != (by == byContent) {
				t.Errorf("%q: got %+v", by, m)
			}
			contents[m.Content]++
		}
		if by == byContent && (len(contents) != 4 || contents[r.Messages[0].Content] != 2) {
			t.Errorf("%q: contents %v", by, contents)
		}
	}
	for _, bad := range []string{`"all"`, `true`, `""`} {
		if err := checker.Validate(json.RawMessage(`{"url":"https://example.com/","remember":` + bad + `}`)); err == nil {
			t.Errorf("%s is accepted", bad)
		}
	}
}
