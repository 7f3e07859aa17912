package webhook_test

import (
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
