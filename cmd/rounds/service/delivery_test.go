package service

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/cmd/rounds/message"
	"github.com/rounds-dev/rounds/cmd/rounds/settings"
	"github.com/rounds-dev/rounds/poller/delivery"
	"github.com/rounds-dev/rounds/poller/delivery/sink"
	"github.com/rounds-dev/rounds/poller/delivery/webhook"
	"github.com/rounds-dev/rounds/testing/redistest"
)

const signingKey = "whsec_b2xkLXNpZ25pbmcta2V5LW9mLTI0LWJ5dGVz"

// receiver accepts signed requests, and counts them by id.
type receiver struct {
	url string

	mu     sync.Mutex
	bodies map[string][]string // by webhook-id
	got    chan struct{}
}

func startReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{bodies: make(map[string][]string), got: make(chan struct{}, 1)}
	verifier, err := standardwebhooks.NewWebhook(signingKey)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, err := io.ReadAll(q.Body)
		if err != nil || verifier.Verify(body, q.Header) != nil {
			t.Errorf("a delivery that is not signed: %v", q.Header)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		id := q.Header.Get("Webhook-Id")
		r.bodies[id] = append(r.bodies[id], string(body))
		select {
		case r.got <- struct{}{}:
		default:
		}
	}))
	t.Cleanup(server.Close)
	r.url = server.URL
	return r
}

// await waits until n messages have arrived, each under an id of its own.
func (r *receiver) await(t *testing.T, n int) {
	t.Helper()
	for deadline := time.After(30 * time.Second); ; {
		r.mu.Lock()
		got := len(r.bodies)
		r.mu.Unlock()
		if got >= n {
			break
		}
		select {
		case <-r.got:
		case <-deadline:
			t.Fatalf("%d messages came, want %d", got, n)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	seen := make(map[string]string)
	for id, bodies := range r.bodies {
		for _, body := range bodies {
			if other, ok := seen[body]; ok && other != id || body != bodies[0] {
				t.Errorf("one message under %s and %s, or two under one: %s", other, id, body)
			}
			seen[body] = id
		}
	}
}

func writeFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file.json")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// returns puts messages into the ring, as a check of the account does.
func returns(t *testing.T, ring *circulate.Ring, id string, messages []circulate.Message) {
	t.Helper()
	shard := ring.ShardOf(id)
	batch, err := ring.Claim(t.Context(), shard, circulate.NewReplica(), 100, 0)
	if err != nil {
		t.Fatal(err)
	}
	for i := range batch.Claims {
		if batch.Claims[i].ID != id {
			continue
		}
		outcomes, err := ring.Return(t.Context(), shard, []circulate.Return{{Claim: &batch.Claims[i], Kind: "feed", Messages: messages}})
		if err != nil || outcomes[0] == circulate.Fenced {
			t.Fatalf("return: %v, %v", outcomes, err)
		}
		return
	}
	t.Fatalf("%s was not claimed", id)
}

func TestServeDelivers(t *testing.T) {
	server := redistest.Start(t)
	ring, err := circulate.Open(t.Context(), redistest.Connect(t, server), circulate.Options{Shards: 4})
	if err != nil {
		t.Fatal(err)
	}
	registry := registryOf(t, ring)
	find := func(id string, n int) {
		t.Helper()
		if _, err := registry.Create(t.Context(), accounts.Account{ID: id, Kind: "feed", Config: []byte(`{"url":"https://example.com/"}`)}); err != nil {
			t.Fatal(err)
		}
		messages := make([]circulate.Message, n)
		for i := range messages {
			messages[i] = circulate.Message{ID: fmt.Sprint(i)}
		}
		returns(t, ring, id, messages)
	}
	receiver := startReceiver(t)
	variables := map[string]string{
		"ROUNDS_REDIS_URL": server.URL(), "ROUNDS_ROLES": "delivery", "ROUNDS_ALLOW_PRIVATE_ADDRESSES": "true", "ROUNDS_SERVICE_SECRET_CRM": signingKey,
		"ROUNDS_WEBHOOKS_FILE": writeFile(t, fmt.Sprintf(`{"endpoints":[{"name":"crm","url":%q,"secrets":[{"secret":"CRM"}],"ordered":true}]}`, receiver.url)),
	}
	find("before", 3)
	p := start(t, variables)
	receiver.await(t, 3)
	find("while", 20)
	receiver.await(t, 23)
	if err := p.stop(); err != nil {
		t.Error(err)
	}
	// All that was delivered is acknowledged, and the group has no pending messages and no
	// consumers.
	state, err := message.New(ring).Group(t.Context(), webhook.Endpoint{Name: "crm"}.Group())
	if err != nil || state.Pending != 0 || state.Lag != 0 || len(state.Consumers) != 0 {
		t.Errorf("%+v, %v", state, err)
	}
	find("after", 2)
	variables["ROUNDS_WEBHOOKS_FROM"] = "now" // without effect, because the endpoint is known: delivery continues where it stopped
	p = start(t, variables)
	receiver.await(t, 25)
	if err := p.stop(); err != nil {
		t.Error(err)
	}
	if (webhook.Endpoint{Name: "x"}).Group() != message.WebhookGroup+"x" {
		t.Error("the API knows the endpoints' groups by another name")
	}
}

func TestANewEndpointMayBeginNow(t *testing.T) {
	ring, err := circulate.Open(t.Context(), redistest.Embedded(t), circulate.Options{Shards: 4})
	if err != nil {
		t.Fatal(err)
	}
	start, err := deliveryStart(t.Context(), "now", ring)
	if err != nil || circulate.ValidatePosition(start) != nil || start == circulate.StreamStart {
		t.Errorf("now is %q, %v", start, err)
	}
	if start, err := deliveryStart(t.Context(), "start", ring); err != nil || start != circulate.StreamStart {
		t.Errorf("start is %q, %v", start, err)
	}
}

// A process says at once that the secret of an endpoint is missing, before there is a
// message.
func TestServeSaysAtOnceThatASecretIsMissing(t *testing.T) {
	p := start(t, map[string]string{"ROUNDS_ROLES": "delivery",
		"ROUNDS_WEBHOOKS_FILE": writeFile(t, `{"endpoints":[{"name":"crm","url":"https://crm.example/","secrets":[{"secret":"CRM"}]}]}`)})
	p.log.Await(t, "webhook endpoint gets nothing until this is fixed")
	if err := p.stop(); err != nil {
		t.Error(err)
	}
}

func TestServeSaysThatThereIsNothingToDeliver(t *testing.T) {
	p := start(t, map[string]string{"ROUNDS_ROLES": "delivery"})
	p.log.Await(t, "the role delivery has nothing to do: ROUNDS_WEBHOOKS_FILE names no endpoint")
	if err := p.stop(); err != nil {
		t.Error(err)
	}
}

// A misspelt kind would take every message from its endpoint without a word.
func TestServeWarnsOfEndpointsForUnknownKinds(t *testing.T) {
	p := start(t, map[string]string{
		"ROUNDS_ROLES": "delivery", "ROUNDS_SERVICE_SECRET_CRM": signingKey, "ROUNDS_DATA_DIR": "memory",
		"ROUNDS_WEBHOOKS_FILE": writeFile(t, `{"endpoints":[{"name":"crm","url":"https://crm.example.com/","secrets":[{"secret":"CRM"}],"kinds":["feed","htpp"]}]}`),
	})
	p.log.Await(t, `"endpoint":"crm","kind":"htpp","known":"feed, graph, http, imap`)
	if err := p.stop(); err != nil {
		t.Error(err)
	}
	if n := strings.Count(p.log.String(), "names a kind that this program does not know"); n != 1 {
		t.Errorf("%d warnings", n)
	}
}

// Files are delivered to beside webhooks, and endpoints of the program's own likewise; the ring knows
// all of them as it knows webhooks.
func TestServeDeliversToOtherEndpoints(t *testing.T) {
	server := redistest.Start(t)
	ring, err := circulate.Open(t.Context(), redistest.Connect(t, server), circulate.Options{Shards: 4})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := registryOf(t, ring).Create(t.Context(), accounts.Account{ID: "a", Kind: "feed", Config: []byte(`{"url":"https://example.com/"}`)}); err != nil {
		t.Fatal(err)
	}
	returns(t, ring, "a", []circulate.Message{{ID: "1", Type: "text"}, {ID: "2", Type: "image"}, {ID: "3", Type: "text"}})
	loft := &loft{got: make(chan string, 10)}
	directory := filepath.Join(t.TempDir(), "archive")
	variables := map[string]string{
		"ROUNDS_REDIS_URL": server.URL(), "ROUNDS_ROLES": "delivery", "ROUNDS_WEBHOOKS_FILE": writeFile(t, fmt.Sprintf(`{"endpoints":[
			{"name":"archive","type":"file","directory":%q,"types":["text"]},{"name":"far","type":"pigeons","types":["image"]}]}`, directory)),
	}
	p := startWith(t, variables, Options{Sinks: []Sink{func(Tools) (sink.Type, error) { return loft, nil }}})
	select {
	case id := <-loft.got:
		if id != "2" {
			t.Errorf("the pigeons got %s", id)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("the pigeons got nothing")
	}
	for _, name := range []string{"archive", "far"} {
		for deadline := time.Now().Add(30 * time.Second); ; {
			w, err := message.New(ring).Webhook(t.Context(), name)
			if err == nil && w.Group != nil && w.Group.Pending == 0 && w.Group.Lag == 0 && w.Standing != nil && w.Standing.LastOutcome == string(sink.Delivered) {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s: %+v, %v", name, w, err)
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
	if err := p.stop(); err != nil {
		t.Error(err)
	}
	names, err := filepath.Glob(filepath.Join(directory, "archive-*.ndjson"))
	if err != nil || len(names) != 1 {
		t.Fatalf("%q, %v", names, err)
	}
	text, err := os.ReadFile(names[0])
	if err != nil || strings.Count(string(text), "\n") != 2 || !strings.Contains(string(text), `"id":"1"`) || !strings.Contains(string(text), `"id":"3"`) {
		t.Errorf("%s, %v", text, err)
	}
	if !loft.closed.Load() {
		t.Error("the pigeons' sink is not closed")
	}
}

// loft is a type of endpoints of a program's own, and its sink.
type loft struct {
	got    chan string
	closed atomic.Bool
}

func (l *loft) Type() string { return "pigeons" }
func (l *loft) Read(_ sink.Endpoint, r *strict.Reader) sink.Config {
	r.Known(sink.Names()...)
	return l
}
func (l *loft) Open() (delivery.Sink, error)  { return l, nil }
func (l *loft) Prepare(context.Context) error { return nil }
func (l *loft) Close() error                  { l.closed.Store(true); return nil }

func (l *loft) Handle(_ context.Context, batch []delivery.Delivery) []error {
	for _, d := range batch {
		l.got <- d.Message.ID
	}
	return nil
}

// keyedLoft is a loft to which people may add endpoints, which sign.
type keyedLoft struct{ *loft }

func (keyedLoft) Addable() {}
func (keyedLoft) Keyed()   {}

func TestOwnSinksSayWhetherTheySign(t *testing.T) {
	o := Options{Sinks: []Sink{func(Tools) (sink.Type, error) { return keyedLoft{new(loft)}, nil }}}.withDefaults()
	client := newWebhookClient(settings.Poller{}, o, nil)
	defer client.Close()
	types, _, err := judgeEndpoints(settings.Settings{}, o, client, "rounds")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, one := range types {
		got = append(got, fmt.Sprint(one.Name, " ", one.Keyed, " ", one.Default))
	}
	if want := "webhook true true; postgres false false; kafka false false; nats false false; pigeons true false"; strings.Join(got, "; ") != want {
		t.Errorf("got %s", got)
	}
}

// A type of endpoints that could not work is refused before anything starts.
func TestOwnSinksAreJudged(t *testing.T) {
	path := writeFile(t, `{"endpoints":[{"name":"archive","type":"file","directory":"relative"}]}`)
	for _, c := range []struct {
		own  Sink
		want string
	}{
		{nil, "type 1 of endpoints of the program's own: is nil"},
		{func(Tools) (sink.Type, error) { return nil, errors.New("no loft") }, "no loft"},
		{func(Tools) (sink.Type, error) { return nil, nil }, "made no type"},
		{func(Tools) (sink.Type, error) { return webhook.Type{}, nil }, "two types have the name webhook"},
		{func(Tools) (sink.Type, error) { return &loft{}, nil }, "endpoints[0].directory: must be an absolute path"},
	} {
		s := settings.Settings{}
		s.Delivery.WebhooksFile = path
		if faults := webhookFaults(s, Options{Sinks: []Sink{c.own}}.withDefaults()); len(faults) != 1 || !strings.Contains(faults.Error(), c.want) {
			t.Errorf("got %v, want %s", faults, c.want)
		}
	}
}
