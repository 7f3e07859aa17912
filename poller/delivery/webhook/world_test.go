package webhook_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/poller/delivery"
	"github.com/rounds-dev/rounds/poller/delivery/webhook"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/poller/secrets"
	"github.com/rounds-dev/rounds/testing/faketime"
	"github.com/rounds-dev/rounds/testing/processes"
)

// The three longest run without the race detector. Shorter tests of a consumer do the same steps with it.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(processes.Apart(m, "TestSuite", "TestWhyAnEndpointIsNotReached", "TestARejectingEndpointShowsAndIsRetried", "TestARetryReopensTheBreaker"))
}

const (
	oldKey   = "whsec_b2xkLXNpZ25pbmcta2V5LW9mLTI0LWJ5dGVz"
	newKey   = "bmV3LXNpZ25pbmcta2V5LW9mLTI0LWJ5dGVz"
	apiToken = "tok-0123456789"
)

// vault is a source of secrets that a test may change.
type vault struct {
	mu     sync.Mutex
	values map[string]string
}

func newVault() *vault {
	return &vault{values: map[string]string{"OLD": oldKey, "NEW": newKey, "AUTH": "Bearer " + apiToken, "SHORT": "c2hvcnQ=", "LINES": "two\nlines"}}
}

func (v *vault) source() secrets.Source {
	return secrets.Source{Lookup: func(name string) (string, bool) {
		v.mu.Lock()
		defer v.mu.Unlock()
		value, ok := v.values[strings.TrimPrefix(name, secrets.EnvPrefix)]
		return value, ok
	}}
}

func (v *vault) set(name, value string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.values[name] = value
}

// receiver is an endpoint within the process, so that time may be fake. It is also the sink's
// client.
type receiver struct {
	mu      sync.Mutex
	answer  func(n int, r *http.Request, w http.ResponseWriter) // n counts from 1
	away    error                                               // of a call that gets no connection; nil: it gets one
	got     []string                                            // message ids, as they came
	ids     []string                                            // webhook ids, likewise
	running int
	most    int // at once
}

func (r *receiver) Validate(string) error { return nil }

func (r *receiver) Do(ctx context.Context, call fetch.Call) (*fetch.Response, error) {
	r.mu.Lock()
	if r.away != nil {
		defer r.mu.Unlock()
		return nil, r.away
	}
	var sent struct{ Data struct{ ID string } }
	if err := json.Unmarshal(call.Body, &sent); err != nil {
		r.mu.Unlock()
		return nil, err
	}
	r.got = append(r.got, sent.Data.ID)
	r.ids = append(r.ids, call.Header.Get("Webhook-Id"))
	r.running++
	r.most = max(r.most, r.running)
	n, answer := len(r.got), r.answer
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		r.running--
		r.mu.Unlock()
	}()

	httptrace.ContextClientTrace(ctx).GotConn(httptrace.GotConnInfo{})
	request := httptest.NewRequestWithContext(ctx, call.Method, call.URL, bytes.NewReader(call.Body))
	request.Header = call.Header
	w := httptest.NewRecorder()
	if answer != nil {
		answer(n, request, w)
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return nil, &fetch.Error{Code: fetch.CodeTimeout}
	}
	if ctx.Err() != nil {
		return nil, &fetch.Error{Code: fetch.CodeCanceled}
	}
	return &fetch.Response{Status: w.Code, Header: w.Header(), Body: w.Body.Bytes()}, nil
}

// say replaces the receiver's answer from now on.
func (r *receiver) say(answer func(n int, r *http.Request, w http.ResponseWriter)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer, r.away = answer, nil
}

func (r *receiver) status(code int) {
	r.say(func(_ int, _ *http.Request, w http.ResponseWriter) { w.WriteHeader(code) })
}

func (r *receiver) goAway() { r.goAwayWith(&fetch.Error{Code: fetch.CodeConnect}) }

func (r *receiver) goAwayWith(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.away = err
}

// seen returns the messages that came since the last call.
func (r *receiver) seen() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	got := r.got
	r.got = nil
	return got
}

func (r *receiver) expect(t *testing.T, want ...string) {
	t.Helper()
	if got := r.seen(); !slices.Equal(got, want) {
		t.Errorf("the endpoint got %q, want %q", got, want)
	}
}

// slow answers after a while, or when the sender has given up.
func slow(d time.Duration) func(int, *http.Request, http.ResponseWriter) {
	return func(_ int, r *http.Request, _ http.ResponseWriter) {
		select {
		case <-time.After(d):
		case <-r.Context().Done():
		}
	}
}

// world is a sink and its endpoint in fake time.
type world struct {
	*faketime.World
	receiver *receiver
	vault    *vault
	options  webhook.Options
}

func inFakeTime(t *testing.T, test func(w *world)) {
	t.Helper()
	faketime.Run(t, 1, func(b *faketime.World) {
		w := &world{World: b, receiver: &receiver{}, vault: newVault()}
		w.options = webhook.Options{
			Client: w.receiver, Secrets: w.vault.source(), Namespace: "rounds", Log: faketime.Log(b), Metrics: webhook.NewMetrics(b.Metrics),
		}
		test(w)
	})
}

func (w *world) sink(change func(*webhook.Endpoint)) *webhook.Sink {
	w.Helper()
	e := webhook.Endpoint{Name: "crm", URL: "http://crm.example/hook?token=" + apiToken, Secrets: []secrets.Ref{{Name: "NEW"}}}
	if change != nil {
		change(&e)
	}
	sink, err := webhook.New(e, w.options)
	if err != nil {
		w.Fatal(err)
	}
	return sink
}

// counted returns how many deliveries ended with an outcome.
func (w *world) counted(outcome webhook.Outcome) int {
	return int(w.Counted("rounds_webhook_deliveries_total", string(outcome)))
}

// message returns a found message: "a/1" is message 1 of account a.
func message(name string) delivery.Delivery {
	account, _, _ := strings.Cut(name, "/")
	return delivery.Delivery{Group: "webhook.crm", Attempt: 1, Found: circulate.Found{
		Position: "1767225600000-0", Account: account, Kind: "feed",
		Message: circulate.Message{ID: name, Type: "item", Time: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), Data: json.RawMessage(`{"n":1}`)},
	}}
}

func messages(names ...string) []delivery.Delivery {
	batch := make([]delivery.Delivery, len(names))
	for i, name := range names {
		batch[i] = message(name)
	}
	return batch
}

// one delivers one message.
func one(ctx context.Context, sink *webhook.Sink, name string) error {
	return sink.Handle(ctx, messages(name))[0]
}

// is expects an answer to have an outcome, and to count as a failed delivery or not. It
// returns how long the message waits before it is delivered again.
func is(t *testing.T, err error, outcome webhook.Outcome, counts bool) time.Duration {
	t.Helper()
	var failed *webhook.Error
	var later *delivery.Later
	if !errors.As(err, &failed) || failed.Outcome != outcome {
		t.Fatalf("got %v, want %s", err, outcome)
	}
	if errors.As(err, &later) == counts {
		t.Fatalf("counts: got %t, want %t: %v", !counts, counts, err)
	}
	if later == nil {
		return 0
	}
	return later.After
}

func within(t *testing.T, what string, got, least, most time.Duration) {
	t.Helper()
	if got < least || got > most {
		t.Errorf("%s: got %v, want %v to %v", what, got, least, most)
	}
}

func names(account string, n int) []string {
	var list []string
	for i := range n {
		list = append(list, fmt.Sprintf("%s/%d", account, i+1))
	}
	return list
}
