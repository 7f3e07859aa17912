package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/cmd/rounds/command"
	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/testing/checktest"
)

// server is a ntfy server.
type server struct {
	*httptest.Server

	mu        sync.Mutex
	published []notice
	fault     func(w http.ResponseWriter) // instead of an answer to a publication; nil: none
	calls     int                         // publications
}

func newServer(t *testing.T) *server {
	t.Helper()
	s := &server{}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Method == http.MethodPost {
		s.calls++
		if s.fault != nil {
			s.fault(w)
			return
		}
		var asked struct{ Topic, Message string }
		_ = json.NewDecoder(r.Body).Decode(&asked) // nothing was published to no topic
		n := notice{ID: fmt.Sprintf("id-%d", len(s.published)), Time: 1795176000, Event: "message", Title: asked.Topic, Message: asked.Message}
		s.published = append(s.published, n)
		_ = json.NewEncoder(w).Encode(n) // after an error the caller has gone
		return
	}
	topic, isPoll := strings.CutSuffix(r.URL.Path, "/json")
	if !isPoll || r.URL.Query().Get("poll") != "1" {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	from := slices.IndexFunc(s.published, func(n notice) bool { return n.ID == r.URL.Query().Get("since") })
	for _, n := range s.published[from+1:] {
		if "/"+n.Title == topic {
			_ = json.NewEncoder(w).Encode(n)
		}
	}
}

// become has the server answer publications with a fault from now on.
func (s *server) become(fault func(w http.ResponseWriter)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault, s.calls = fault, 0
}

func newSender(t *testing.T) poller.Sender {
	t.Helper()
	checker, err := newNtfy(command.Tools{Client: checktest.Client(t, fetch.Options{})})
	if err != nil {
		t.Fatal(err)
	}
	return checker.(poller.Sender)
}

func config(url string) json.RawMessage { return fmt.Appendf(nil, `{"url":%q,"topic":"desk"}`, url) }

func TestWhatIsSentToATopicIsFoundThereOnce(t *testing.T) {
	s, sender := newServer(t), newSender(t)
	for i, topic := range []string{"desk", "phone", "desk", "desk"} {
		r := poller.SendRequest{ID: fmt.Sprint(i), Attempt: 1, Peer: topic, Type: "text", Data: fmt.Appendf(nil, `{"text":"no. %d"}`, i), Config: config(s.URL)}
		if sent, err := sender.Send(t.Context(), r); err != nil || sent.VendorID != fmt.Sprintf("id-%d", i) {
			t.Fatalf("%d: %+v, %v", i, sent, err)
		}
	}
	var found []string
	var cursor []byte
	for range 3 {
		result, err := sender.Check(t.Context(), poller.Request{Config: config(s.URL), Cursor: cursor, Limit: 2})
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range result.Messages {
			var n notice
			if err := json.Unmarshal(m.Data, &n); err != nil || m.ID != n.ID {
				t.Errorf("%s: %s, %v", m.ID, m.Data, err)
			}
			found = append(found, n.Message)
		}
		if more := len(found) == 2; result.HasMore != more {
			t.Errorf("after %q: more %v", found, result.HasMore)
		}
		if result.Cursor != nil {
			cursor = result.Cursor
		}
	}
	if want := []string{"no. 0", "no. 2", "no. 3"}; !slices.Equal(found, want) {
		t.Errorf("got %q, want %q", found, want)
	}
}

// An error says that a send was refused only if that is certain, and each attempt is one call.
func TestWhatAnErrorSaysAboutASend(t *testing.T) {
	s, sender := newServer(t), newSender(t)
	status := func(code int) func(w http.ResponseWriter) {
		return func(w http.ResponseWriter) {
			w.Header().Set("Retry-After", "30")
			w.WriteHeader(code)
		}
	}
	for name, c := range map[string]struct {
		fault func(w http.ResponseWriter)
		want  *poller.SendError // nil: nobody knows
	}{
		"no permission": {status(http.StatusForbidden), &poller.SendError{Final: true}},
		"too many":      {status(http.StatusTooManyRequests), &poller.SendError{After: 30 * time.Second}},
		"a bad gateway": {status(http.StatusBadGateway), nil},
		"a cut answer":  {func(http.ResponseWriter) { panic(http.ErrAbortHandler) }, nil},
		"another page":  {func(w http.ResponseWriter) { _, _ = fmt.Fprint(w, "<html>") }, nil},
	} {
		s.become(c.fault)
		_, err := sender.Send(t.Context(), poller.SendRequest{Peer: "phone", Type: "text", Data: json.RawMessage(`{"text":"hello"}`), Config: config(s.URL)})
		got, known := errors.AsType[*poller.SendError](err)
		if err == nil || known != (c.want != nil) || known && (got.Final != c.want.Final || got.After != c.want.After) || s.calls != 1 {
			t.Errorf("%s: %v after %d calls", name, err, s.calls)
		}
	}
	_, err := sender.Send(t.Context(), poller.SendRequest{Peer: "phone", Type: "text", Data: json.RawMessage(`{"text":"hello"}`), Config: config("http://127.0.0.1:1")})
	if got, ok := errors.AsType[*poller.SendError](err); !ok || !got.Unsent {
		t.Errorf("nobody listens: %v", err)
	}
}

func TestAWrongSendIsRefusedWithItsFields(t *testing.T) {
	sender := newSender(t)
	for _, c := range []struct{ to, data, want string }{
		{"phone", `{"text":"hello"}`, ""},
		{"", `{"text":"hello"}`, "to"},
		{"a/b", `{}`, "to data.text"},
		{"phone", `[]`, "data.text"},
	} {
		err := sender.PrepareSend(config("https://ntfy.sh"), &poller.Outgoing{Peer: c.to, Type: "text", Data: json.RawMessage(c.data)}, nil)
		var fields []string
		if err != nil {
			for line := range strings.Lines(err.Error()) {
				field, _, _ := strings.Cut(line, ": ")
				fields = append(fields, field)
			}
		}
		if got := strings.Join(fields, " "); got != c.want {
			t.Errorf("to %q, %s: got %q, want %q", c.to, c.data, got, c.want)
		}
	}
}

func TestTheFieldsAreThoseOfValidate(t *testing.T) { checktest.Declared(t, newSender(t), ".") }
