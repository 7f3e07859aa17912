package webhook_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/poller/delivery"
	"github.com/rounds-dev/rounds/poller/delivery/webhook"
	"github.com/rounds-dev/rounds/poller/secrets"
)

func TestOrderOfAnAccount(t *testing.T) {
	for _, ordered := range []bool{true, false} {
		inFakeTime(t, func(w *world) {
			sink := w.sink(func(e *webhook.Endpoint) { e.Ordered = ordered })
			w.receiver.say(func(_ int, r *http.Request, answer http.ResponseWriter) {
				if sent := read(t, r); sent.Data.ID == "a/2" {
					answer.WriteHeader(http.StatusBadRequest)
				}
			})
			errs := sink.Handle(w.Context(), messages("a/1", "b/1", "a/2", "a/3", "b/2", "a/4"))
			is(t, errs[2], webhook.Rejected, true)
			if errs[0] != nil || errs[1] != nil || errs[4] != nil {
				t.Errorf("got %v", errs)
			}
			for _, i := range []int{3, 5} {
				if held := errors.Is(errs[i], delivery.ErrHeld); held != ordered || (errs[i] == nil) == ordered {
					t.Errorf("ordered %t: message %d: %v", ordered, i, errs[i])
				}
			}
			got := w.receiver.seen()
			if ordered {
				of := slices.DeleteFunc(slices.Clone(got), func(name string) bool { return name[0] != 'a' })
				if !slices.Equal(of, []string{"a/1", "a/2"}) || len(got) != 4 || w.counted(webhook.Held) != 2 {
					t.Errorf("got %q", got)
				}
			} else if len(got) != 6 {
				t.Errorf("got %q", got)
			}
		})
	}
}

func TestConcurrencyIsBoundedOverAllBatches(t *testing.T) {
	inFakeTime(t, func(w *world) {
		sink := w.sink(func(e *webhook.Endpoint) { e.Concurrency = 3 })
		w.receiver.say(slow(time.Second))
		done := make(chan []error)
		for _, account := range []string{"a", "b"} {
			go func() { done <- sink.Handle(w.Context(), messages(names(account, 9)...)) }()
		}
		start := time.Now()
		for range 2 {
			for _, err := range <-done {
				if err != nil {
					t.Error(err)
				}
			}
		}
		if took := time.Since(start); took != 6*time.Second || w.receiver.most != 3 {
			t.Errorf("took %v, %d at once", took, w.receiver.most)
		}
	})
}

func TestOnlyWantedKindsAreSent(t *testing.T) {
	inFakeTime(t, func(w *world) {
		sink := w.sink(func(e *webhook.Endpoint) { e.Kinds = []string{"http", "mail"} })
		batch := messages("a/1", "a/2")
		batch[1].Kind = "mail"
		if errs := sink.Handle(w.Context(), batch); errs[0] != nil || errs[1] != nil {
			t.Error(errs)
		}
		w.receiver.expect(t, "a/2")
		if w.counted(webhook.Filtered) != 1 || w.counted(webhook.Delivered) != 1 {
			t.Error("miscounted")
		}
	})
}

func TestGoneDisablesInAllReplicasUntilEnabled(t *testing.T) {
	inFakeTime(t, func(w *world) {
		ring := w.Ring
		w.options.Store = ring.Endpoints()
		sink, peer := w.sink(nil), w.sink(nil)
		if err := one(w.Context(), peer, "p/1"); err != nil {
			t.Fatal(err)
		}
		// The store is unreachable just when the endpoint answers 410. The store is told
		// later.
		w.receiver.say(func(_ int, _ *http.Request, answer http.ResponseWriter) {
			w.Miniredis().SetError("LOADING Redis is loading the dataset in memory")
			answer.WriteHeader(http.StatusGone)
		})
		err := one(w.Context(), sink, "a/1")
		is(t, err, webhook.Disabled, false)
		if !errors.Is(err, webhook.ErrDisabled) {
			t.Errorf("got %v", err)
		}
		w.receiver.seen()
		w.receiver.status(http.StatusOK)
		is(t, one(w.Context(), sink, "a/1"), webhook.Disabled, false)
		w.Miniredis().SetError("")
		is(t, one(w.Context(), sink, "a/1"), webhook.Disabled, false)
		if d, ok, err := ring.Endpoints().Disabled(w.Context(), "crm"); !ok || err != nil || d.Reason != "answered 410 Gone" {
			t.Errorf("stored: %+v, %v, %v", d, ok, err)
		}
		time.Sleep(15 * time.Second)
		for _, s := range []*webhook.Sink{sink, peer, w.sink(nil)} {
			after := is(t, one(w.Context(), s, "a/1"), webhook.Disabled, false)
			within(t, "after", after, time.Second, time.Minute)
		}
		w.receiver.expect(t)
		if w.Counted("rounds_webhook_disabled", "crm") != 1 {
			t.Error("the metric does not show it")
		}

		if was, err := ring.Endpoints().Enable(w.Context(), "crm"); !was || err != nil {
			t.Fatal(was, err)
		}
		time.Sleep(15 * time.Second)
		if err := one(w.Context(), sink, "a/1"); err != nil {
			t.Error(err)
		}
		w.receiver.expect(t, "a/1")
		if w.Counted("rounds_webhook_disabled", "crm") != 0 {
			t.Error("the metric still shows it")
		}

		// A state that is known stays known while the store is unreachable. One that is
		// unknown stays unknown.
		w.Miniredis().SetError("LOADING Redis is loading the dataset in memory")
		time.Sleep(15 * time.Second)
		if err := one(w.Context(), sink, "a/2"); err != nil {
			t.Error(err)
		}
		is(t, one(w.Context(), w.sink(nil), "a/3"), webhook.Unready, false)
		w.receiver.expect(t, "a/2")
	})
}

func TestMissingSecretKeepsMessagesWaiting(t *testing.T) {
	inFakeTime(t, func(w *world) {
		for name, value := range map[string]string{"LATER": newKey, "SHORT": newKey, "AUTH": newKey} {
			sink := w.sink(func(e *webhook.Endpoint) { e.Secrets = append(e.Secrets, secrets.Ref{Name: name}) })
			err := one(w.Context(), sink, "a/1")
			is(t, err, webhook.Unready, false)
			if text := err.Error(); !strings.Contains(text, "secret "+name) || strings.Contains(text, apiToken) || strings.Contains(text, "c2hv") {
				t.Errorf("got %q", text)
			}
			w.receiver.expect(t)
			w.vault.set(name, value)
			if err := one(w.Context(), sink, "a/1"); err != nil {
				t.Error(err)
			}
			w.receiver.expect(t, "a/1")
		}
		sink := w.sink(func(e *webhook.Endpoint) {
			e.Headers = []webhook.Header{{Name: "X-Lines", Secret: secrets.Ref{Name: "LINES"}}}
		})
		is(t, one(w.Context(), sink, "a/1"), webhook.Unready, false)
	})
}

// A secret that must not go to the endpoint keeps messages waiting, and nothing is sent.
func TestSecretsGoToTheirEndpointOnly(t *testing.T) {
	inFakeTime(t, func(w *world) {
		for i, c := range []struct {
			url, binding, want string // want is empty where it is sent
			header             bool
		}{
			{"http://crm.example/", "", "over TLS only", true},
			{"https://crm.example/", "", "", true},
			{"https://crm.example/", "hosts=crm.example kinds=webhook", "", true},
			{"https://crm.example/", "hosts=other.example", "names other hosts", true},
			{"https://crm.example/", "kinds=http", "other kinds than webhook", true},
			{"http://crm.example/", "", "", false}, // the key itself is not sent
		} {
			name := fmt.Sprint("AUTH", i)
			w.vault.set(name, "Bearer s3cret-s3cret")
			if c.binding != "" {
				w.vault.set(secrets.BindingEnvPrefix+name, c.binding)
			}
			sink := w.sink(func(e *webhook.Endpoint) {
				if e.URL = c.url; c.header {
					e.Headers = []webhook.Header{{Name: "Authorization", Secret: secrets.Ref{Name: name}}}
				}
			})
			err := one(w.Context(), sink, "a/1")
			if c.want == "" {
				if err != nil {
					t.Errorf("%+v: %v", c, err)
				}
				w.receiver.expect(t, "a/1")
				continue
			}
			is(t, err, webhook.Unready, false)
			if !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "s3cret") {
				t.Errorf("%+v: %v", c, err)
			}
			w.receiver.expect(t)
		}
		w.vault.set(secrets.BindingEnvPrefix+"NEW", "hosts=other.example")
		is(t, one(w.Context(), w.sink(nil), "a/1"), webhook.Unready, false)
		w.receiver.expect(t)
	})
}

func TestWhatCannotBeSentCounts(t *testing.T) {
	inFakeTime(t, func(w *world) {
		sink := w.sink(nil)
		batch := messages("a/1", "b/1")
		batch[0].Message.Data = json.RawMessage(`{"s3cret":`)
		errs := sink.Handle(w.Context(), batch)
		is(t, errs[0], webhook.Unusable, true)
		if errs[1] != nil || strings.Contains(errs[0].Error(), "s3cret") {
			t.Error(errs)
		}
		w.receiver.say(func(int, *http.Request, http.ResponseWriter) { panic("s3cret") })
		err := one(w.Context(), sink, "a/1")
		is(t, err, webhook.Failed, true)
		if strings.Contains(err.Error(), "s3cret") {
			t.Error(err)
		}
	})
}

func TestNewTellsAllFaults(t *testing.T) {
	_, err := webhook.New(webhook.Endpoint{Name: "A b", Timeout: time.Hour, Headers: []webhook.Header{{Name: "X-A", Value: "s3cret\n"}}},
		webhook.Options{Client: &receiver{}, Namespace: "rounds"})
	want := "webhook \"A b\": name: must be 1 to 56 of a-z 0-9 _ -\nurl: missing\nsecrets: missing: every delivery is signed\n" +
		"timeout: must be 1s to 30s\nheaders.X-A: must be one line of at most 4096 bytes"
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	if _, err := webhook.New(webhook.Endpoint{}, webhook.Options{}); err == nil {
		t.Error("without a client: no error")
	}
}
