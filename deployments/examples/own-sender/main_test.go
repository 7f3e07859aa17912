package main

import (
	"encoding/json"
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

// server is a ntfy server for each account, at a path of its own.
type server struct {
	*httptest.Server

	mu        sync.Mutex
	published map[string][]notice                                 // by account
	faults    map[string]func(http.ResponseWriter, *http.Request) // in place of an answer to a publication
	takes     map[string]bool                                     // the account's fault comes after a publication
	calls     int                                                 // publications, of all accounts
}

func newServer(t *testing.T) *server {
	t.Helper()
	s := &server{
		published: make(map[string][]notice), faults: make(map[string]func(http.ResponseWriter, *http.Request)), takes: make(map[string]bool),
	}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	account, rest, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	if r.Method == http.MethodPost {
		s.publish(w, r, account)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	topic, isPoll := strings.CutSuffix(rest, "/json")
	if !isPoll || r.URL.Query().Get("poll") != "1" {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	all := s.published[account]
	from := slices.IndexFunc(all, func(n notice) bool { return n.ID == r.URL.Query().Get("since") })
	for _, n := range all[from+1:] {
		if n.Title == topic {
			_ = json.NewEncoder(w).Encode(n)
		}
	}
}

// publish publishes a message, with its topic as the title.
func (s *server) publish(w http.ResponseWriter, r *http.Request, account string) {
	var asked struct{ Topic, Message string }
	_ = json.NewDecoder(r.Body).Decode(&asked) // nothing was published to no topic
	s.mu.Lock()
	s.calls++
	n := notice{ID: fmt.Sprintf("id-%d", len(s.published[account])), Time: 1795176000, Event: "message", Title: asked.Topic, Message: asked.Message}
	fault := s.faults[account]
	if fault == nil || s.takes[account] {
		s.published[account] = append(s.published[account], n)
	}
	s.mu.Unlock()
	if fault != nil {
		fault(w, r)
		return
	}
	_ = json.NewEncoder(w).Encode(n) // after an error the caller has gone
}

// set gives an account a fault; nil ends it.
func (s *server) set(account string, takes bool, fault func(http.ResponseWriter, *http.Request)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults[account], s.takes[account] = fault, takes
}

func (s *server) config(account string) json.RawMessage {
	return fmt.Appendf(nil, `{"url":%q,"topic":"desk"}`, s.URL+"/"+account)
}

func newSender(t *testing.T) poller.Sender {
	t.Helper()
	checker, err := newNtfy(command.Tools{Client: checktest.Client(t, fetch.Options{})})
	if err != nil {
		t.Fatal(err)
	}
	return checker.(poller.Sender)
}

func TestWhatIsSentToATopicIsFoundThereOnce(t *testing.T) {
	s, sender := newServer(t), newSender(t)
	for i, topic := range []string{"desk", "phone", "desk", "desk"} {
		r := poller.SendRequest{ID: fmt.Sprint(i), Attempt: 1, Peer: topic, Type: "text", Data: fmt.Appendf(nil, `{"text":"no. %d"}`, i), Config: s.config("a")}
		if sent, err := sender.Send(t.Context(), r); err != nil || sent.VendorID != fmt.Sprintf("id-%d", i) {
			t.Fatalf("%d: %+v, %v", i, sent, err)
		}
	}
	var found []string
	var cursor []byte
	for range 3 {
		result, err := sender.Check(t.Context(), poller.Request{Config: s.config("a"), Cursor: cursor, Limit: 2})
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

// The suite has a server that fails in every way, and judges what an error says about a send.
func TestSendSuite(t *testing.T) {
	text := json.RawMessage(`{"text":"On our way."}`)
	checktest.RunSends(t, checktest.SendKind{
		Start: func(t *testing.T) checktest.SendParty { return startParty(t, text) },
		Refused: []checktest.RefusedSend{
			{Send: poller.Outgoing{Peer: "a/b", Type: "text", Data: text}, Field: "to"},
			{Send: poller.Outgoing{Peer: "phone", Type: "text", Data: json.RawMessage(`{"text":""}`)}, Field: "data.text"},
		},
	})
}

func startParty(t *testing.T, text json.RawMessage) checktest.SendParty {
	t.Helper()
	s := newServer(t)
	fault := func(f checktest.SendFault, how func(http.ResponseWriter, *http.Request)) checktest.SendFault {
		f.Break = func(account string) { s.set(account, f.Takes, how) }
		return f
	}
	status := func(f checktest.SendFault, code int) checktest.SendFault {
		f.Name, f.Code = fmt.Sprint(code), fmt.Sprintf("http_%d", code)
		return fault(f, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "30")
			w.WriteHeader(code)
		})
	}
	return checktest.SendParty{
		New:    func() poller.Sender { return newSender(t) },
		Config: s.config,
		Closed: func(string) json.RawMessage { return json.RawMessage(`{"url":"http://127.0.0.1:1","topic":"desk"}`) },
		Valid:  []checktest.ValidSend{{Send: poller.Outgoing{Peer: "phone", Type: "text", Data: text}}},
		Taken: func(account string) (taken []checktest.Taken) {
			s.mu.Lock()
			defer s.mu.Unlock()
			for _, n := range s.published[account] {
				taken = append(taken, checktest.Taken{Peer: n.Title})
			}
			return taken
		},
		Calls: func() int {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.calls
		},
		Heal: func(account string) { s.set(account, false, nil) },
		Faults: []checktest.SendFault{
			status(checktest.SendFault{End: checktest.SendRefused}, http.StatusForbidden),
			status(checktest.SendFault{End: checktest.SendAgain, After: 30 * time.Second}, http.StatusTooManyRequests),
			status(checktest.SendFault{End: checktest.SendUnknown, Takes: true}, http.StatusBadGateway),
			fault(checktest.SendFault{Name: "cut", End: checktest.SendUnknown, Takes: true}, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }),
			fault(checktest.SendFault{Name: "another page", End: checktest.SendUnknown}, func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, "<html>") }),
			fault(checktest.SendFault{Name: "hang", Hangs: true}, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }),
		},
	}
}

func TestTheFieldsAreThoseOfValidate(t *testing.T) { checktest.Declared(t, newSender(t), ".") }
