package webhook_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/poller/delivery"
	"github.com/rounds-dev/rounds/poller/delivery/sink"
	"github.com/rounds-dev/rounds/poller/delivery/webhook"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/poller/secrets"
	"github.com/rounds-dev/rounds/testing/faketime"
	"github.com/rounds-dev/rounds/testing/sinktest"
)

// hook is a receiver for the suite. A process dies before a request arrives, or behind it.
type hook struct {
	receiver

	at     sync.Mutex
	stored []sinktest.Stored
	steps  int // until the process dies; less than 0: it does not
	dead   bool
	away   bool
}

func (h *hook) Do(_ context.Context, call fetch.Call) (*fetch.Response, error) {
	h.at.Lock()
	defer h.at.Unlock()
	if h.dead || h.away {
		return nil, &fetch.Error{Code: fetch.CodeConnect}
	}
	behind := h.steps == 1
	if h.steps == 0 || behind {
		h.dead = true
	}
	if h.dead && !behind {
		return nil, &fetch.Error{Code: fetch.CodeConnect}
	}
	h.steps -= 2
	var sent struct {
		Data struct {
			Account, ID string
			Data        json.RawMessage
		}
	}
	if err := json.NewDecoder(bytes.NewReader(call.Body)).Decode(&sent); err != nil {
		return nil, err
	}
	h.stored = append(h.stored, sinktest.Stored{Key: call.Header.Get("Webhook-Id"), Account: sent.Data.Account, ID: sent.Data.ID, Data: string(sent.Data.Data)})
	if h.dead {
		return nil, errors.New("cut off")
	}
	return &fetch.Response{Status: http.StatusNoContent}, nil
}

func (h *hook) Open(t testing.TB) delivery.Sink {
	h.steps, h.dead = -1, false
	to, err := webhook.New(webhook.Endpoint{Name: "crm", URL: "https://crm.example/", Secrets: []secrets.Ref{{Name: "NEW"}}, Ordered: true},
		webhook.Options{Client: h, Secrets: newVault().source(), Namespace: sinktest.Namespace, Log: faketime.Log(t)})
	if err != nil {
		t.Fatal(err)
	}
	return to
}

func (h *hook) KillAt(n int) {
	h.at.Lock()
	defer h.at.Unlock()
	h.steps = n
}

func (h *hook) Died() bool {
	h.at.Lock()
	defer h.at.Unlock()
	return h.dead
}

func (h *hook) SetAway(away bool) {
	h.at.Lock()
	defer h.at.Unlock()
	h.away = away
}

func (h *hook) Stored(testing.TB) []sinktest.Stored { return h.stored }

// A webhook is a sink like any other. Its receiver knows a message by its key.
func TestSuite(t *testing.T) {
	sinktest.Run(t, sinktest.Suite{
		New:     func(*testing.T) sinktest.Place { return &hook{steps: -1} },
		Doubles: true, Fake: true, Back: 15 * time.Minute, // the breaker's longest wait is 12.5 min
	})
}

// The format and the filter of an endpoint hold for webhooks, too, and what is filtered is counted.
func TestCloudEventsBehindAFilter(t *testing.T) {
	h := &hook{steps: -1}
	var bodies []string
	var kind string
	client := spy{h, func(call fetch.Call) {
		bodies, kind = append(bodies, string(call.Body)), call.Header.Get("Content-Type")
	}}
	inFakeTime(t, func(w *world) {
		w.options.Client = client
		all, err := sink.Types{webhook.Type{Options: w.options}}.Read(strings.NewReader(`{"endpoints":[
			{"name":"crm","url":"https://crm.example/","secrets":[{"secret":"NEW"}],"types":["item"],"format":"cloudevents"}]}`))
		if err != nil {
			w.Fatal(err)
		}
		opened, err := all[0].Config.Open()
		if err != nil {
			w.Fatal(err)
		}
		behind := opened.(*webhook.Sink).Behind(all[0].Filter)
		batch := messages("a/1", "a/2")
		batch[0].Message.Type = "other"
		if errs := behind.Handle(w.Context(), batch); len(errs) != 2 || errs[0] != nil || errs[1] != nil {
			w.Errorf("got %v", errs)
		}
		if w.counted(webhook.Filtered) != 1 || w.counted(webhook.Delivered) != 1 {
			w.Error("the messages are not counted")
		}
		if _, tells := behind.(interface{ TellsRefusals() }); !tells {
			w.Error("the consumer would log refusals a second time")
		}
		want := fmt.Sprintf(`{"specversion":"1.0","id":%q,"source":"/rounds/rounds","type":"dev.rounds.message.found","subject":"a","time":"2026-01-01T00:00:00Z",`+
			`"datacontenttype":"application/json","data":{"account":"a","kind":"feed","id":"a/2","type":"item","time":"2026-01-01T00:00:00Z","data":{"n":1}}}`, h.stored[0].Key)
		if len(bodies) != 1 || bodies[0] != want || kind != "application/cloudevents+json" {
			w.Errorf("%s: got %q\nwant %s", kind, bodies, want)
		}
	})
}

type spy struct {
	*hook
	saw func(fetch.Call)
}

func (s spy) Do(ctx context.Context, call fetch.Call) (*fetch.Response, error) {
	s.saw(call)
	return s.hook.Do(ctx, call)
}
