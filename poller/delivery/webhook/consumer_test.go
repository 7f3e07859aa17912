package webhook_test

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/group"
	"github.com/rounds-dev/rounds/poller/delivery"
	"github.com/rounds-dev/rounds/poller/delivery/webhook"
	"github.com/rounds-dev/rounds/testing/faketime"
)

// When an endpoint was unreachable, no message is lost and none becomes a dead letter. A
// message that makes it fail each time becomes a dead letter, and those behind it are
// delivered.
func TestUnderAConsumer(t *testing.T) {
	inFakeTime(t, func(w *world) {
		ring := w.Ring
		add := func(name string) {
			account, _, _ := strings.Cut(name, "/")
			w.Do("XADD", w.Key(ring.ShardOf(account), "messages"), "*", "account", account, "kind", "feed", "id", name, "type", "item", "time", "", "data", "{}")
		}
		var want []string
		for _, account := range []string{"a", "b", "c"} {
			want = append(want, names(account, 5)...)
		}
		for _, name := range want {
			add(name)
		}

		w.options.Store = ring.Endpoints()
		sink := w.sink(func(e *webhook.Endpoint) { e.Ordered = true })
		w.receiver.goAway()
		consumer := delivery.Consumer{
			Ring: ring, Group: webhook.Endpoint{Name: "crm"}.Group(), Handler: sink, HandlerTimeout: sink.HandlerTimeout(),
			Backoff: func(int) time.Duration { return 30 * time.Second }, Log: faketime.Log(w),
		}
		stop := faketime.Go(w, consumer.Run)
		time.Sleep(3 * time.Minute)
		w.receiver.expect(t)

		// The endpoint is back and takes all messages but one.
		taken := func() (names []string) {
			w.receiver.mu.Lock()
			defer w.receiver.mu.Unlock()
			for _, name := range w.receiver.got {
				if name != "b/2" {
					names = append(names, name)
				}
			}
			return names
		}
		w.receiver.say(func(_ int, r *http.Request, answer http.ResponseWriter) {
			if read(t, r).Data.ID == "b/2" {
				answer.WriteHeader(http.StatusUnprocessableEntity)
			}
		})
		time.Sleep(90 * time.Second) // by then a probe is due
		if got := taken(); len(got) != 11 {
			t.Errorf("while b/2 fails: got %q", got)
		}
		time.Sleep(5 * time.Minute)
		stop()
		got := taken()
		for _, account := range []string{"a", "b", "c"} {
			of := func(names []string) []string {
				return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return name[:1] != account || name == "b/2" })
			}
			if got, want := of(got), of(want); !slices.Equal(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
		}
		dead, err := group.Of(ring).DeadLetters(w.Context(), 0, circulate.StreamStart, 10)
		if err != nil || len(dead) != 1 || dead[0].Message.ID != "b/2" || dead[0].Error != "webhook crm: answered 422" {
			t.Errorf("dead letters: %+v, %v", dead, err)
		}
		if tried := len(w.receiver.got) - len(got); tried != 8 || w.counted(webhook.Rejected) != 8 {
			t.Errorf("b/2 was tried %d times", tried)
		}
	})
}

// An endpoint that asks for events gets what became of a send, under an id that stays the same. One
// that does not ask gets messages only.
func TestEventsUnderAConsumer(t *testing.T) {
	inFakeTime(t, func(w *world) {
		w.Register(circulate.Registration{ID: "a"})
		bodies := make(map[string]string) // endpoint -> what it got, and the last webhook-id
		refuse := true
		w.receiver.say(func(_ int, r *http.Request, answer http.ResponseWriter) {
			body, _ := io.ReadAll(r.Body)
			bodies[r.Host] += r.Header.Get("Webhook-Id") + " " + string(body) + "\n"
			if refuse {
				refuse = false
				answer.WriteHeader(http.StatusBadRequest)
			}
		})
		var stops []func()
		for name, events := range map[string]bool{"asks": true, "plain": false} {
			sink := w.sink(func(e *webhook.Endpoint) { e.Name, e.URL, e.Events = name, "http://"+name+"/", events })
			stops = append(stops, faketime.Go(w, delivery.Consumer{
				Ring: w.Ring, Group: webhook.Endpoint{Name: name}.Group(), Handler: sink, Events: events, HandlerTimeout: sink.HandlerTimeout(), Log: faketime.Log(w),
			}.Run))
		}
		time.Sleep(2 * time.Second)
		sends := w.Ring.Sends()
		s := circulate.Send{ID: circulate.NewSendID("a"), Account: "a", Kind: "chat", Peer: "anna", Type: "text", Data: []byte(`{"text":"hello"}`), ReplyTo: "0:1-1"}
		queued, _, err := sends.Queue(w.Context(), s, "", circulate.SendBounds{})
		if err != nil {
			t.Fatal(err)
		}
		attempts, _, err := sends.Attempt(w.Context(), 0, circulate.AttemptOrder{Replica: "replica000", Step: "1", Kinds: []string{"chat"}, Most: 1, Lasts: time.Minute})
		if err != nil || len(attempts) != 1 {
			t.Fatal(attempts, err)
		}
		if _, err := sends.Settle(w.Context(), []circulate.Settlement{{ID: s.ID, Fence: attempts[0].Fence, Outcome: circulate.AttemptAccepted, VendorID: "v<1>"}}); err != nil {
			t.Fatal(err)
		}
		now, err := w.Ring.Now(w.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		for _, stop := range stops {
			stop()
		}
		if got := bodies["plain"]; got != "" {
			t.Errorf("who did not ask got %s", got)
		}
		lines := strings.Split(strings.TrimSpace(bodies["asks"]), "\n")
		if len(lines) != 2 || lines[0] != lines[1] {
			t.Fatalf("got %q, want the same twice, because the first was refused", lines)
		}
		_, body, _ := strings.Cut(lines[0], " ")
		var event struct {
			Type      string
			Timestamp time.Time
			Data      circulate.SendEvent
		}
		if err := json.Unmarshal([]byte(body), &event); err != nil {
			t.Fatal(err)
		}
		want := circulate.SendEvent{
			ID: s.ID, Account: "a", Kind: "chat", To: "anna", Type: "text", ReplyTo: "0:1-1", State: "accepted", Attempts: 1, VendorID: "v<1>", Queued: event.Data.Queued,
		}
		if event.Type != "send.accepted" || !event.Timestamp.Equal(now) || event.Data != want || !event.Data.Queued.Equal(queued.Queued) || strings.Contains(body, "hello") {
			t.Errorf("got %s", body)
		}
	})
}
