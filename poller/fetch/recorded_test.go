package fetch

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/poller/span"
	"github.com/rounds-dev/rounds/testing/spantest"
)

// Of a call only method, host, port and status are recorded, and only servers of the operator's own are
// told.
func TestCallsAreRecorded(t *testing.T) {
	told := make(chan string, 10)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		told <- q.Header.Get("Traceparent")
		if strings.HasSuffix(q.URL.Path, "/away") {
			http.Redirect(w, q, strings.Replace(q.Host, "127.0.0.1", "http://localhost", 1)+"/hidden/none", http.StatusFound)
			return
		}
		w.WriteHeader(map[string]int{"/hidden/ok": 200, "/hidden/none": 404}[q.URL.Path])
	}))
	t.Cleanup(server.Close)
	c := New(Options{AllowPrivate: true})
	t.Cleanup(c.Close)
	for _, test := range []struct {
		path, class string
		call        Call
		told        []bool
	}{
		{"/hidden/ok?key=hidden", "", Call{}, []bool{false}},
		{"/hidden/none?key=hidden", "404", Call{Method: "POST", Traced: true}, []bool{true}},
		{"/hidden/ok", "", Call{Held: true, Traced: true}, []bool{true}},
		{"/hidden/away", "404", Call{Traced: true, MaxRedirects: 1}, []bool{true, false}}, // another origin
	} {
		r := &spantest.Recorder{}
		call := test.call
		call.URL = server.URL + test.path
		if _, err := c.Do(span.With(t.Context(), r.Begin(span.Internal, "call", time.Now(), "")), call); err != nil {
			t.Fatalf("%s: %v", test.path, err)
		}
		if call.Header != nil {
			t.Error("the caller's header was changed")
		}
		recorded := r.Ended()
		if len(recorded) != 1 || recorded[0].Class != test.class || recorded[0].Attributes[span.ServerAddress] != "127.0.0.1" || strings.Contains(fmt.Sprint(recorded), "hidden") {
			t.Fatalf("%s: recorded %+v", test.path, recorded)
		}
		for i, want := range test.told {
			got := <-told
			if want && (!span.Valid(got) || got[36:52] != recorded[0].ID) || !want && got != "" {
				t.Errorf("%s: server %d was told %q", test.path, i, got)
			}
		}
	}
	server.Close()
	r := &spantest.Recorder{}
	if _, err := c.Do(span.With(t.Context(), r.Begin(span.Internal, "call", time.Now(), "")), Call{URL: server.URL}); err == nil || r.Ended()[0].Class != "connect" {
		t.Errorf("without a server: %v, %+v", err, r.Ended())
	}
}

// A call without a span costs nothing more.
func TestCallsWithoutASpanAreNot(t *testing.T) {
	if n := testing.AllocsPerRun(100, func() {
		if span.Of(t.Context()) != nil {
			t.Error("there is a span")
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
