package service

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/cmd/rounds/api"
	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/testing/processes"
)

// parrots are a kind whose accounts say what they are told.
type parrots struct{ said chan poller.SendRequest }

func (parrots) Kind() string                   { return "parrot" }
func (parrots) Validate(json.RawMessage) error { return nil }
func (parrots) RateKey(json.RawMessage) string { return "" }

func (parrots) Check(context.Context, poller.Request) (poller.Result, error) {
	return poller.Result{}, nil
}

func (parrots) Sending(json.RawMessage) poller.Sending {
	return poller.Sending{Types: []string{"text"}}
}

func (parrots) PrepareSend(json.RawMessage, *poller.Outgoing, *poller.Message) error { return nil }

func (p parrots) Send(_ context.Context, r poller.SendRequest) (poller.Sent, error) {
	p.said <- r
	switch r.Peer {
	case "nobody":
		return poller.Sent{}, poller.Refused("nobody", "nobody listens")
	case "fog":
		return poller.Sent{}, io.ErrUnexpectedEOF
	}
	return poller.Sent{VendorID: "said " + r.ID}, nil
}

// A send goes from the API to the third party, once, and its outcome back. One whose end nobody
// knows stays unknown, and is sent again when somebody says so.
func TestASendGoesOutAndItsOutcomeComesBack(t *testing.T) {
	r := startReceiver(t)
	variables := map[string]string{"ROUNDS_API_ADDR": "127.0.0.1:0", "ROUNDS_ALLOW_NETWORKS": "127.0.0.1", "ROUNDS_SERVICE_SECRET_HOOK": signingKey,
		"ROUNDS_ROLES": "api,poller,monitor,delivery", "ROUNDS_WEBHOOKS_FILE": writeFile(t, `{"endpoints":[{"name":"hook","url":"`+r.url+`","secrets":[{"secret":"HOOK"}],"events":true}]}`)}
	s, err := read(variables)
	if err != nil {
		t.Fatal(err)
	}
	said := make(chan poller.SendRequest, 10)
	addr := make(chan string, 1)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- Run(ctx, s, Options{
			Lookup: lookupIn(variables), Log: slog.New(slog.DiscardHandler),
			Kinds: []Kind{func(Tools) (poller.Checker, error) { return parrots{said}, nil }}, Serving: func(a string) { addr <- a },
		})
	}()
	base := "http://" + <-addr
	processes.AwaitStatus(t, base+"/readyz", 200)
	call := func(method, path, key, body string) (send api.Send) {
		t.Helper()
		r, err := http.NewRequest(method, base+path, bytes.NewBufferString(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Idempotency-Key", key)
		reply, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer reply.Body.Close()
		if reply.StatusCode >= 300 {
			t.Fatalf("%s %s: %d", method, path, reply.StatusCode)
		}
		if strings.Contains(path, "/sends") {
			err = json.NewDecoder(reply.Body).Decode(&send)
		}
		if err != nil {
			t.Fatal(err)
		}
		return send
	}
	await := func(id, state string) api.Send {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); ; {
			send := call("GET", "/v1/sends/"+id, "", "")
			if send.State == state {
				return send
			}
			if time.Now().After(deadline) {
				t.Fatalf("it is not %s: %+v", state, send)
			}
		}
	}
	for deadline, asks := time.Now().Add(time.Minute), false; !asks; {
		_, text := processes.Get(t, base+"/v1/groups", "")
		if asks = strings.Contains(text, `"events":true`); !asks && time.Now().After(deadline) {
			t.Fatalf("the webhook has not asked for events: %s", text)
		}
	}
	call("PUT", "/v1/accounts/p", "", `{"kind":"parrot","cadence":"every 1h"}`)
	queued := call("POST", "/v1/accounts/p/sends", "k", `{"to":"anna","data":{"text":"hello"}}`)
	if r := <-said; r.Account != "p" || r.ID != queued.ID || r.Peer != "anna" || string(r.Data) != `{"text":"hello"}` || r.Attempt != 1 {
		t.Errorf("it said %+v", r)
	}
	if got := await(queued.ID, "accepted"); got.VendorID != "said "+queued.ID || got.Attempts != 1 {
		t.Errorf("got %+v", got)
	}
	if again := call("POST", "/v1/accounts/p/sends", "k", `{"to":"anna","data":{"text":"hello"}}`); again.ID != queued.ID || again.State != "accepted" {
		t.Errorf("asked again: %+v", again)
	}
	refused := call("POST", "/v1/accounts/p/sends", "k2", `{"to":"nobody","data":{"text":"hello"}}`)
	if got := await(refused.ID, "rejected"); got.Code != "nobody" || got.Reason != "nobody listens" {
		t.Errorf("got %+v", got)
	}
	<-said
	lost := call("POST", "/v1/accounts/p/sends", "k3", `{"to":"fog","data":{"text":"hello"}}`)
	await(lost.ID, "unknown")
	<-said
	call("POST", "/v1/sends/"+lost.ID+"/retry", "", "")
	if r := <-said; r.ID != lost.ID || r.Attempt != 2 {
		t.Errorf("sent again: %+v", r)
	}
	if got := await(lost.ID, "unknown"); got.Attempts != 2 {
		t.Errorf("got %+v", got)
	}
	call("POST", "/v1/sends/"+lost.ID+"/resolve", "", `{"state":"accepted"}`)

	// The kind http sends to the connector's send_url, and an answer goes to who wrote the message.
	got := make(chan string, 10)
	connector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/check" {
			_, _ = io.WriteString(w, `{"messages":[{"id":"m1","data":{"from":"anna"}}],"next_cursor":"1","error":null}`)
			return
		}
		var sent struct {
			To     string `json:"to"`
			SendID string `json:"send_id"`
		}
		if err := json.NewDecoder(r.Body).Decode(&sent); err != nil {
			t.Error(err)
		}
		got <- sent.To + " " + sent.SendID
	}))
	defer connector.Close()
	call("PUT", "/v1/accounts/c", "", `{"kind":"http","cadence":"every 1h","config":{"url":"`+connector.URL+`/check","send_url":"`+connector.URL+`/send"}}`)
	var page api.MessageList
	for deadline := time.Now().Add(time.Minute); len(page.Messages) == 0; {
		if _, text := processes.Get(t, base+"/v1/messages?account=c", ""); json.Unmarshal([]byte(text), &page) != nil || time.Now().After(deadline) {
			t.Fatalf("found %s", text)
		}
	}
	ref := fmt.Sprint(page.Messages[0].Shard, ":", page.Messages[0].Position)
	answer := call("POST", "/v1/accounts/c/sends", "k", `{"reply_to":"`+ref+`","data":{"text":"hello"}}`)
	if to := <-got; to != "anna "+answer.ID {
		t.Errorf("the connector got %q", to)
	}
	if s := await(answer.ID, "accepted"); s.To != "anna" || s.ReplyTo != ref {
		t.Errorf("got %+v", s)
	}
	// The webhook got a message and what became of each send.
	r.await(t, 7)
	events := make(map[string][]string) // by send
	for _, bodies := range r.bodies {
		var body struct {
			Type string
			Data struct{ ID, To string }
		}
		if err := json.Unmarshal([]byte(bodies[0]), &body); err != nil {
			t.Fatal(err)
		}
		events[body.Data.ID] = append(events[body.Data.ID], body.Type)
	}
	slices.Sort(events[lost.ID])
	want := map[string][]string{
		"m1": {"message.found"}, queued.ID: {"send.accepted"}, refused.ID: {"send.rejected"}, answer.ID: {"send.accepted"},
		lost.ID: {"send.accepted", "send.unknown", "send.unknown"},
	}
	if !reflect.DeepEqual(events, want) {
		t.Errorf("the webhook got %v, want %v", events, want)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if len(said) != 0 {
		t.Errorf("it said %d times more", len(said))
	}
}
