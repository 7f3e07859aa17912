package webhook_test

import (
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/connect"
	"github.com/rounds-dev/rounds/poller/delivery"
	"github.com/rounds-dev/rounds/poller/delivery/webhook"
)

// An endpoint that was away loses nothing and buries nothing; a message
// that it cannot stand ends in the dead letters, and those behind it go on.
func TestUnderAConsumer(t *testing.T) {
	inFakeTime(t, func(w *world) {
		server := connect.NewEmbedded()
		defer func() {
			_ = server.Close()
			synctest.Wait()
		}()
		ring, err := circulate.Open(w.Context(), server, circulate.Options{Shards: 1})
		if err != nil {
			t.Fatal(err)
		}
		add := func(name string) {
			account, _, _ := strings.Cut(name, "/")
			conn, err := server.Conn(context.Background(), "")
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			key := ring.Tag(ring.ShardOf(account)) + ":messages"
			if _, err := conn.Do("XADD", key, "*", "account", account, "kind", "feed", "id", name, "type", "item", "time", "", "data", "{}"); err != nil {
				t.Fatal(err)
			}
		}
		var want []string
		for _, account := range []string{"a", "b", "c"} {
			want = append(want, names(account, 5)...)
		}
		for _, name := range want {
			add(name)
		}

		w.options.Store = ring
		sink := w.sink(func(e *webhook.Endpoint) { e.Ordered = true })
		w.receiver.goAway()
		ctx, cancel := context.WithCancel(w.Context())
		done := make(chan error, 1)
		consumer := delivery.Consumer{
			Ring: ring, Group: webhook.Endpoint{Name: "crm"}.Group(), Handler: sink, HandlerTimeout: sink.HandlerTimeout(),
			Backoff: func(int) time.Duration { return 30 * time.Second }, Log: testLog(t, io.Discard),
		}
		go func() { done <- consumer.Run(ctx) }()
		time.Sleep(3 * time.Minute)
		w.receiver.expect(t)

		// Back, but for one message.
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
		time.Sleep(90 * time.Second) // by which a probe is due
		if got := taken(); len(got) != 11 {
			t.Errorf("while b/2 fails: got %q", got)
		}
		time.Sleep(5 * time.Minute)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		got := taken()
		for _, account := range []string{"a", "b", "c"} {
			of := func(names []string) []string {
				return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return name[:1] != account || name == "b/2" })
			}
			if got, want := of(got), of(want); !slices.Equal(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
		}
		dead, err := ring.DeadLetters(w.Context(), 0, circulate.StreamStart, 10)
		if err != nil || len(dead) != 1 || dead[0].Message.ID != "b/2" || dead[0].Error != "webhook crm: answered 422" {
			t.Errorf("dead letters: %+v, %v", dead, err)
		}
		if tried := len(w.receiver.got) - len(got); tried != 8 || w.counted(webhook.Rejected) != 8 {
			t.Errorf("b/2 was tried %d times", tried)
		}
	})
}
