package webhook_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/rounds-dev/rounds/poller/delivery"
	"github.com/rounds-dev/rounds/poller/delivery/sink"
	"github.com/rounds-dev/rounds/poller/delivery/webhook"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/poller/secrets"
	"github.com/rounds-dev/rounds/testing/faketime"
)

type sent struct {
	Type      string
	Timestamp time.Time
	Data      struct {
		Account, Kind, ID, Type string
		Time                    *time.Time
		Data                    json.RawMessage
	}
}

func read(t *testing.T, r *http.Request) sent {
	t.Helper()
	var s sent
	if err := json.NewDecoder(r.Body).Decode(&s); err != nil {
		t.Error(err)
	}
	return s
}

// wired is a sink that calls a real server on loopback, with its log and its metrics.
type wired struct {
	client *fetch.Client
	*webhook.Sink
	log      bytes.Buffer
	registry *prometheus.Registry
}

func wire(t *testing.T, url string, keys []string, options fetch.Options) *wired {
	t.Helper()
	client := fetch.New(options)
	t.Cleanup(client.Close)
	w := &wired{client: client, registry: prometheus.NewRegistry()}
	e := webhook.Endpoint{Name: "crm", URL: url, Timeout: time.Second, Headers: []webhook.Header{
		{Name: "X-Plain", Value: "yes"}, {Name: "Authorization", Secret: secrets.Ref{Name: "AUTH"}},
	}}
	for _, key := range keys {
		e.Secrets = append(e.Secrets, secrets.Ref{Name: key})
	}
	sink, err := webhook.New(e, webhook.Options{
		Client: client, Secrets: newVault().source(), Namespace: "rounds", Log: faketime.Log(t, &w.log), Metrics: webhook.NewMetrics(w.registry),
	})
	if err != nil {
		t.Fatal(err)
	}
	w.Sink = sink
	return w
}

var loopback = fetch.Options{AllowPrivate: true}

func serve(t *testing.T, handler http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.URL
}

func TestSignedWithAllKeys(t *testing.T) {
	for _, keys := range [][]string{{"OLD"}, {"NEW"}, {"NEW", "OLD"}} {
		var body []byte
		var header http.Header
		url := serve(t, func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodPost {
				t.Errorf("method %s", r.Method)
			}
			body, _ = io.ReadAll(r.Body)
			header = r.Header.Clone()
			w.WriteHeader(http.StatusNoContent)
		})
		sink := wire(t, url, keys, loopback)
		if err := one(t.Context(), sink.Sink, "a/1"); err != nil {
			t.Fatal(err)
		}
		for name, key := range map[string]string{"OLD": oldKey, "NEW": newKey} {
			receiver, err := standardwebhooks.NewWebhook(key)
			if err != nil {
				t.Fatal(err)
			}
			signed := strings.Contains(strings.Join(keys, " "), name)
			if err := receiver.Verify(body, header); (err == nil) != signed {
				t.Errorf("%v verified with %s: %v", keys, name, err)
			}
		}
		for name, want := range map[string]string{"Authorization": "Bearer " + apiToken, "X-Plain": "yes", "Content-Type": "application/json"} {
			if got := header.Get(name); got != want {
				t.Errorf("%s: got %q", name, got)
			}
		}
		want := `{"type":"message.found","timestamp":"2026-01-01T00:00:00Z","data":{"account":"a","kind":"feed","id":"a/1",` +
			`"type":"item","time":"2026-01-01T00:00:00Z","data":{"n":1}}}`
		if string(body) != want {
			t.Errorf("got  %s\nwant %s", body, want)
		}
	}
}

func TestPayloadOfAMessageWithoutTimeAndData(t *testing.T) {
	var body []byte
	url := serve(t, func(_ http.ResponseWriter, r *http.Request) { body, _ = io.ReadAll(r.Body) })
	m := message("a/<1>")
	m.Message.Time, m.Message.Data, m.Handle = time.Time{}, nil, "1.12:1767225600000-0"
	if errs := wire(t, url, []string{"NEW"}, loopback).Handle(t.Context(), append(messages(), m)); errs[0] != nil {
		t.Fatal(errs[0])
	}
	want := `{"type":"message.found","timestamp":"2026-01-01T00:00:00Z","data":{"account":"a","kind":"feed","id":"a/<1>","type":"item","time":null,"data":null,"handle":"1.12:1767225600000-0"}}`
	if string(body) != want {
		t.Errorf("got  %s\nwant %s", body, want)
	}
}

func TestOneIDForAMessageForEver(t *testing.T) {
	var ids []string
	url := serve(t, func(_ http.ResponseWriter, r *http.Request) { ids = append(ids, r.Header.Get("Webhook-Id")) })
	sink := wire(t, url, []string{"NEW"}, loopback)
	deliver := func(account, id, position string) string {
		t.Helper()
		m := message("x")
		m.Account, m.Message.ID, m.Position = account, id, position
		if errs := sink.Handle(t.Context(), append(messages(), m)); errs[0] != nil {
			t.Fatal(errs[0])
		}
		return ids[len(ids)-1]
	}
	first := deliver("a", "1", "5-0")
	// Receivers rely on this value. If it changed, every receiver would take old messages for
	// new ones.
	if want := "msg_rMDrdgZGldMQ9aeQyPmV50HUXKNJXjBo"; first != want {
		t.Errorf("got %s, want %s", first, want)
	}
	if again := deliver("a", "1", "99-7"); again != first {
		t.Errorf("found again elsewhere: got %s", again)
	}
	for _, other := range []string{deliver("a", "2", "5-0"), deliver("b", "1", "5-0"), deliver("a1", "", "5-0"), deliver("", "a1", "5-0")} {
		if other == first || strings.Contains(other, ".") {
			t.Errorf("got %s", other)
		}
	}
	if ids[4] == ids[5] {
		t.Error("where the account ends makes no difference")
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	var followed atomic.Bool
	target := serve(t, func(http.ResponseWriter, *http.Request) { followed.Store(true) })
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, target, http.StatusPermanentRedirect)
	})
	is(t, one(t.Context(), wire(t, url, []string{"NEW"}, loopback).Sink, "a/1"), webhook.Rejected, true)
	if followed.Load() {
		t.Error("followed")
	}
}

// The header of an answer counts, whatever becomes of its body.
func TestBrokenAnswers(t *testing.T) {
	for status, want := range map[int]webhook.Outcome{http.StatusOK: webhook.Delivered, http.StatusGone: webhook.Disabled, http.StatusTooManyRequests: webhook.Throttled, http.StatusBadRequest: webhook.Rejected} {
		var asked atomic.Int32
		url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			asked.Add(1)
			w.Header().Set("Content-Length", "1000")
			w.WriteHeader(status)
			_, _ = w.Write([]byte("half of"))
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		})
		sink := wire(t, url, []string{"NEW"}, loopback)
		err := one(t.Context(), sink.Sink, "a/1")
		if (err == nil) != (status == http.StatusOK) {
			t.Errorf("%d: %v", status, err)
		}
		if faketime.Counted(t, sink.registry, "rounds_webhook_deliveries_total", string(want)) != 1 || asked.Load() != 1 {
			t.Errorf("%d: not %s, asked %d times", status, want, asked.Load())
		}
	}
}

func TestOversizedAnswers(t *testing.T) {
	for status, want := range map[int]webhook.Outcome{http.StatusOK: webhook.Delivered, http.StatusBadRequest: webhook.Rejected} {
		var asked atomic.Int32
		url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			asked.Add(1)
			w.WriteHeader(status)
			page := bytes.Repeat([]byte("s3cret "), 1<<10)
			for range 4 << 10 { // 28 MiB, which nobody waits for
				if _, err := w.Write(page); err != nil {
					return
				}
			}
		})
		sink := wire(t, url, []string{"NEW"}, loopback)
		if err := one(t.Context(), sink.Sink, "a/1"); err != nil {
			is(t, err, want, true)
		}
		if faketime.Counted(t, sink.registry, "rounds_webhook_deliveries_total", string(want)) != 1 || asked.Load() != 1 {
			t.Errorf("%d: not %s, asked %d times", status, want, asked.Load())
		}
	}
}

func TestPrivateAddressesAreRefused(t *testing.T) {
	var asked atomic.Bool
	url := serve(t, func(http.ResponseWriter, *http.Request) { asked.Store(true) })
	loopback, err := fetch.ParseNetworks("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	sink := wire(t, url, []string{"NEW"}, fetch.Options{Networks: loopback})
	sink.client.Permit(fetch.Networks{})
	err = one(t.Context(), sink.Sink, "a/1")
	is(t, err, webhook.Unreachable, false)
	if !errors.Is(err, fetch.ErrRefusedAddress) || asked.Load() {
		t.Errorf("got %v, asked %t", err, asked.Load())
	}
	client := fetch.New(fetch.Options{})
	defer client.Close()
	_, err = webhook.New(webhook.Endpoint{Name: "crm", URL: url, Secrets: []secrets.Ref{{Name: "NEW"}}}, webhook.Options{Client: client, Namespace: "rounds"})
	if err == nil || !strings.Contains(err.Error(), "url: must not be a private address") {
		t.Errorf("a literal address: got %v", err)
	}
}

func TestNoSecretIsTold(t *testing.T) {
	const inURL, inAnswer = "url-s3cret", "answer-s3cret"
	statuses := []int{200, 302, 400, 408, 410, 429, 500, 503, 0}
	for _, status := range statuses {
		t.Run(strconv.Itoa(status), func(t *testing.T) {
			t.Parallel()
			url := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if status == 0 {
					panic(http.ErrAbortHandler)
				}
				w.Header().Set("Location", "http://127.0.0.1/"+inAnswer)
				w.Header().Set("Retry-After", inAnswer)
				w.WriteHeader(status)
				_, _ = io.WriteString(w, inAnswer+r.Header.Get("Authorization"))
			})
			sink := wire(t, url+"/"+inURL+"?token="+inURL, []string{"NEW", "OLD"}, loopback)
			var told strings.Builder
			for range 3 { // enough for the breaker to open
				err := one(t.Context(), sink.Sink, "secret-account/secret-id")
				for ; err != nil; err = errors.Unwrap(err) {
					told.WriteString(err.Error() + "\n")
				}
			}
			families, err := sink.registry.Gather()
			if err != nil {
				t.Fatal(err)
			}
			for _, family := range families {
				told.WriteString(family.String())
			}
			text := told.String() + sink.log.String()
			for _, secret := range []string{inURL, inAnswer, apiToken, strings.TrimPrefix(oldKey, "whsec_"), newKey, "secret-account", "127.0.0.1"} {
				if strings.Contains(text, secret) {
					t.Errorf("%d: %s is told: %s", status, secret, text)
				}
			}
		})
	}
}

// A payload tells the files of its message. While they cannot be told, the message waits.
func TestPayloadOfAMessageWithFiles(t *testing.T) {
	var body []byte
	url := serve(t, func(_ http.ResponseWriter, r *http.Request) { body, _ = io.ReadAll(r.Body) })
	client := fetch.New(loopback)
	t.Cleanup(client.Close)
	var away error
	sink, err := webhook.New(webhook.Endpoint{Name: "crm", URL: url, Secrets: []secrets.Ref{{Name: "OLD"}}}, webhook.Options{
		Client: client, Secrets: newVault().source(), Namespace: "rounds",
		Files: func(_ context.Context, d *delivery.Delivery) ([]sink.File, error) {
			return []sink.File{{N: 0, Name: d.Message.ID + ".png", Size: 3, Link: "/v1/links/x?y&z", Until: time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)}, {N: 1}}, away
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	away = errors.New("redis is away")
	var later *delivery.Later
	if err := one(t.Context(), sink, "a/1"); !errors.As(err, &later) || body != nil {
		t.Errorf("%v, %s", err, body)
	}
	away = nil
	if err := one(t.Context(), sink, "a/1"); err != nil {
		t.Fatal(err)
	}
	if want := `,"files":[{"n":0,"name":"a/1.png","size":3,"link":"/v1/links/x?y&z","link_until":"2026-01-02T00:00:00Z"},{"n":1}]}}`; !strings.HasSuffix(string(body), want) {
		t.Errorf("got %s, want it to end with %s", body, want)
	}
}

// A receiver gets the trace of a message that is traced, also from a process that records nothing.
func TestATracedMessageTellsItsTrace(t *testing.T) {
	const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	var got string
	url := serve(t, func(_ http.ResponseWriter, r *http.Request) { got = r.Header.Get("Traceparent") })
	sink := wire(t, url, []string{"OLD"}, loopback)
	for in, want := range map[string]string{trace: trace, "": "", "nonsense": "", strings.TrimSuffix(trace, "1") + "0": ""} {
		d := message("a/1")
		d.Trace = in
		if errs := sink.Handle(t.Context(), []delivery.Delivery{d}); errs[0] != nil || got != want {
			t.Errorf("%q: told %q, %v", in, got, errs)
		}
	}
}
