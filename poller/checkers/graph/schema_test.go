package graph

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/testing/mailtest"
	"github.com/rounds-dev/rounds/testing/upstream/graphd"
)

// schema returns a part of the schemas of Graph's requests and answers.
func schema(t *testing.T, part string) *jsonschema.Schema {
	t.Helper()
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	s, err := compiler.Compile("../../../testing/upstream/graphd/schema.json#/$defs/" + part)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// judged is a fake whose requests and answers are judged by the schemas.
type judged struct {
	t *testing.T
	*graphd.Graph
	request, messages, failure *jsonschema.Schema

	mu   sync.Mutex
	seen map[string]int // by what the request is for
}

func judging(t *testing.T, g *graphd.Graph) *judged {
	return &judged{t: t, Graph: g, request: schema(t, "request"), messages: schema(t, "messages"), failure: schema(t, "error"), seen: make(map[string]int)}
}

// RoundTrip answers one request without a network.
func (j *judged) RoundTrip(r *http.Request) (*http.Response, error) {
	query := make(map[string]any)
	for name, values := range r.URL.Query() {
		query[name] = strings.Join(values, "; ")
	}
	header := make(map[string]any)
	for name, values := range r.Header {
		header[name] = strings.Join(values, "; ")
	}
	asked := map[string]any{"method": r.Method, "path": strings.TrimPrefix(r.URL.EscapedPath(), "/v1.0/me"), "query": query, "header": header}
	if r.Body != nil {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		asked["body"] = string(body)
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	if err := j.request.Validate(asked); err != nil {
		j.t.Errorf("a request: %v\n%v", err, asked)
	}
	recorder := httptest.NewRecorder()
	j.ServeHTTP(recorder, r)
	answer := recorder.Result()
	j.mu.Lock()
	j.seen[r.Method+" "+answer.Header.Get("Content-Type")+" "+answer.Status[:3]]++
	j.mu.Unlock()
	if answer.Header.Get("Content-Type") == "application/json" {
		by := j.messages
		if answer.StatusCode >= 300 {
			by = j.failure
		}
		body, _ := jsonschema.UnmarshalJSON(bytes.NewReader(recorder.Body.Bytes()))
		if err := by.Validate(body); err != nil {
			j.t.Errorf("an answer: %v\n%s", err, recorder.Body)
		}
	}
	return answer, nil
}

// The requests of the kind and the answers of the fake are as Graph's description has them.
func TestRequestsAndAnswers(t *testing.T) {
	g := graphd.New(graphd.Options{})
	j := judging(t, g)
	c := New(fetch.New(fetch.Options{Transport: j}), issued{g})
	mail, _ := mailtest.Nested()
	g.Post("a", 3)
	g.Mark("a", graphd.ID("a", 1), true, true, true)
	g.Deliver("a", mail)
	var messages []poller.Message
	check := func(cursor []byte, folder string) []byte {
		config, _ := json.Marshal(map[string]any{"oauth": map[string]string{"secret": "T"}, "folder": folder})
		for {
			result, err := c.Check(t.Context(), poller.Request{Account: "a", Config: config, Cursor: cursor, Limit: 2})
			if err != nil {
				return cursor
			}
			if messages = append(messages, result.Messages...); result.Cursor != nil {
				cursor = result.Cursor
			}
			if !result.HasMore {
				return cursor
			}
		}
	}
	cursor := check(nil, "inbox")
	check(cursor, "inbox")
	g.Forget()
	check(cursor, "inbox") // by a filter
	check(nil, graphd.FolderID("inbox"))
	check(nil, "no such/folder?")
	g.Delete("a", graphd.ID("a", 2))
	for i := range messages {
		if len(c.Files(&messages[i])) > 0 {
			body, err := c.FetchFile(t.Context(), poller.FileRequest{Account: "a", Config: configOf(""), Message: &messages[i]})
			if err != nil {
				t.Fatal(err)
			}
			_ = body.Close()
		}
	}
	for _, want := range []string{"GET application/json 200", "GET text/plain 200", "GET application/json 410", "GET application/json 404"} {
		if j.seen[want] == 0 {
			t.Errorf("no answer was %s: %v", want, j.seen)
		}
	}
}
