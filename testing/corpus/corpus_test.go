package corpus_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/accounts/secret"
	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/accounts/trial"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/cmd/rounds/api"
	"github.com/rounds-dev/rounds/cmd/rounds/callback"
	"github.com/rounds-dev/rounds/cmd/rounds/mailbox"
	"github.com/rounds-dev/rounds/cmd/rounds/scan"
	"github.com/rounds-dev/rounds/cmd/rounds/service"
	"github.com/rounds-dev/rounds/cmd/rounds/settings"
	"github.com/rounds-dev/rounds/deployments/guide"
	"github.com/rounds-dev/rounds/poller/secrets"
	"github.com/rounds-dev/rounds/poller/websub"
	"github.com/rounds-dev/rounds/testing/census"
	"github.com/rounds-dev/rounds/testing/corpus"
	"github.com/rounds-dev/rounds/testing/faketime"
)

// carrying is a store in which each message has a file that cannot be fetched now.
type carrying struct{}

func (carrying) Carried(string, *circulate.Message) []api.CarriedFile {
	return []api.CarriedFile{{Name: "letter.txt"}}
}

func (carrying) Most() int64 { return 1 << 20 }

func (carrying) When(context.Context, string) string { return api.FilesDemand }

func (carrying) Fetch(context.Context, *circulate.Found, int) error {
	return &api.FileLater{After: time.Minute, Reason: "the host is down"}
}

func (carrying) Upload(_ context.Context, u api.Upload, from io.Reader) (circulate.File, error) {
	if _, err := io.Copy(io.Discard, from); err != nil {
		return circulate.File{}, &api.FileRefused{Reason: "broke off before its end", Err: err}
	}
	return circulate.File{ID: "f", Account: u.Account, Name: u.Name, Type: u.Type}, nil
}

func (carrying) Share(context.Context, circulate.File, string) (bool, error) { return false, nil }

func (carrying) Open(context.Context, string) (io.ReadSeekCloser, error) { return nil, api.ErrNoFile }

var (
	requests = flag.Int("corpus.requests", 1500, "how many mutated requests are asked; testing/nightly.sh asks 25,000")
	seed     = flag.Uint64("corpus.seed", 1, "what they are drawn from")
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	// kept is how many accounts there are at first.
	kept = 20
	// spent is how many bytes may be allocated for one request, and for each byte that it
	// has and that the answer has. Most of it is the embedded Redis': it interprets a
	// script for each record of an import, and compiles each script once, which the race
	// detector makes dearer: the scripts of an audit that meets sends take 36 MB.
	spent, spentEach = 48 << 20, 1 << 10
	// holds is how much more the heap may hold after all requests than before them.
	holds = 64 << 20
)

// world is the API as it is served, on an embedded Redis in fake time.
type world struct {
	*testing.T
	*faketime.World
	api      *api.Server
	served   http.Handler // the API, unless a test of the judgement puts something else there
	registry *accounts.Registry
	log      bytes.Buffer
	there    int // accounts that the API has said to be registered
	statuses map[int]int
	routes   map[string]int
	refused  int // by net/http itself
}

func newWorld(t *testing.T, w *faketime.World) *world {
	t.Helper()
	made := &world{T: t, World: w, statuses: make(map[int]int), routes: make(map[string]int)}
	kinds, err := service.NewCheckers(settings.Poller{}, service.Options{Log: slog.New(slog.DiscardHandler)})
	must(t, err)
	address, err := callback.NewAddress(callback.Config{Name: "one", CorpID: "wwabc"}, "token", strings.Repeat("a", 43))
	must(t, err)
	callbacks, err := callback.New(w.Ring, []*callback.Address{address}, nil)
	must(t, err)
	made.registry = accounts.NewRegistry(w.Ring, kinds)
	pair, err := secrets.Generate()
	must(t, err)
	made.api, err = api.New(api.Options{
		Seal: func() *secret.PublicKey { return pair.Public() },
		Ring: w.Ring, Registry: made.registry, Log: slog.New(slog.NewTextHandler(&made.log, &slog.HandlerOptions{Level: slog.LevelWarn})),
		Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "up 1\n") }),
		Guide:   guide.New(api.GuidePath), Callbacks: callbacks,
		Hubs: callback.NewHubs(w.Ring, func(string, []byte) *websub.Subscription {
			return &websub.Subscription{Hub: "https://hub.example.com/", Topic: "https://example.com/1.xml", Token: "token", Secret: "s"}
		}),
		Kinds: []strict.Kind{strict.Describe("feed", kinds["feed"])},
		Try: func(_ context.Context, r trial.Request) (*trial.Report, error) {
			return &trial.Report{Kind: r.Kind, Account: r.Account, Limit: r.Limit, Pages: []trial.FoundPage{}}, nil
		},
		Sending: func(string, json.RawMessage) api.Sending {
			return api.Sending{Types: []string{"text"}, Prepare: func(*api.Outgoing, *circulate.Message) error { return nil }}
		},
		Scan: &scan.Server{
			Base: "https://192.0.2.1", Kind: "feed", Validate: func(string) error { return nil },
			NewCode: func(context.Context, string) (scan.Code, error) {
				return scan.Code{QRCode: "q", Link: "https://192.0.2.1/q"}, nil
			},
			Ask: func(context.Context, string, string, string) (scan.Told, error) {
				return scan.Told{Status: "wait"}, nil
			},
		},
		EndpointTypes: []api.EndpointType{{Kind: strict.Kind{Name: "webhook"}, Keyed: true, Default: true}},
		JudgeEndpoint: func(fields []byte) (api.JudgedEndpoint, error) {
			if !bytes.Contains(fields, []byte("192.0.2.1/hook")) {
				return api.JudgedEndpoint{}, accounts.Faults{{Field: "url", Reason: "must be another"}}
			}
			return api.JudgedEndpoint{Type: "webhook", Hosts: []string{"192.0.2.1:443"}}, nil
		},
		Mailbox: []mailbox.Server{{
			Kind: "feed", Validate: func(string) error { return nil }, Config: mailbox.ConfigOfIMAP,
			Own:   func(json.RawMessage) (string, []string) { return "", nil },
			Hosts: func(string) []string { return []string{"192.0.2.1:993"} },
			Begin: func(context.Context, string, string, string) (*mailbox.Pending, error) {
				return &mailbox.Pending{Page: "https://192.0.2.1/consent", UserCode: "ABCD", Interval: time.Second}, nil
			},
			Poll: func(context.Context, *mailbox.Pending) (*mailbox.Grant, bool, error) { return nil, false, nil },
			Exchange: func(context.Context, *mailbox.Pending, string, string, string) (*mailbox.Grant, error) {
				return nil, mailbox.ErrState
			},
		}},
		Reload: func(context.Context) (api.Reloaded, error) { return api.Reloaded{}, nil },
		Files:  carrying{},
		Demo: &api.Demo{
			Pollers: func() []api.DemoPoller { return nil },
			Kill:    func(context.Context, string) error { return api.ErrNoPoller },
		},
	})
	must(t, err)
	made.served = made.api
	for i := range kept {
		a, err := made.registry.Read(t.Context(), "", fmt.Appendf(nil, `{"id":"kept/%d","kind":"feed","config":{"url":"https://example.com/%d.xml"},"labels":{"team":"red"}}`, i, i))
		must(t, err)
		_, err = made.registry.Create(t.Context(), a)
		must(t, err)
		w.Do("XADD", w.Key(i%w.Ring.Shards(), "messages"), "*", "account", fmt.Sprint("kept/", i), "kind", "feed", "id", fmt.Sprint(i), "type", "entry", "time", "", "data", "{}")
	}
	made.there = kept
	return made
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// allocated is how many bytes were allocated since the start.
func allocated() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// ask asks one request, and says what is wrong with the answer; empty: nothing.
func (w *world) ask(r corpus.Request) (wrong string) {
	asked, err := r.Parse()
	if err != nil {
		w.refused++
		return ""
	}
	// Who follows messages, and who waits for some, goes after a while, in fake time.
	ctx, cancel := context.WithTimeout(w.Context(), 20*time.Second)
	defer cancel()
	asked = asked.WithContext(ctx)
	route := w.api.Route(asked)
	w.routes[route]++
	answer := httptest.NewRecorder()
	before := allocated()
	func() {
		defer func() {
			if v := recover(); v != nil {
				wrong = fmt.Sprintf("panics with %v at %s", v, debug.Stack())
			}
		}()
		w.served.ServeHTTP(answer, asked)
	}()
	if wrong != "" {
		return wrong
	}
	bytes := allocated() - before
	w.statuses[answer.Code]++
	miscounted := w.count(asked, answer)
	sent := uint64(len(r.Body) + len(r.Target) + answer.Body.Len())
	switch {
	case answer.Code >= 500:
		return fmt.Sprintf("answers %d: %s %s", answer.Code, answer.Body, w.logged())
	case bytes > spent+spentEach*sent:
		return fmt.Sprintf("allocates %d bytes for a request and answer of %d", bytes, sent)
	case answer.Header().Get("X-Content-Type-Options") != "nosniff":
		return "leaves the type of its answer to be guessed"
	case strings.Contains(w.log.String(), "panic"):
		return "logs " + w.logged()
	case miscounted != "":
		return miscounted
	}
	if route == "POST /v1/reshard" && answer.Code == http.StatusOK {
		// Nobody here would carry it out.
		if err := w.registry.AbortResharding(w.Context()); err != nil {
			return "cannot give up what it began: " + err.Error()
		}
	}
	return ""
}

// logged is what was logged since the last time.
func (w *world) logged() string {
	defer w.log.Reset()
	return w.log.String()
}

// count reads the answer, which must be what it says to be, and how many accounts came and went.
func (w *world) count(r *http.Request, answer *httptest.ResponseRecorder) (wrong string) {
	var last struct {
		Progress *json.RawMessage
		Summary  *struct{ Created, Changed int }
	}
	switch kind, _, _ := strings.Cut(answer.Header().Get("Content-Type"), ";"); kind {
	case "application/json", "application/problem+json":
		if r.Method != http.MethodHead && !json.Valid(answer.Body.Bytes()) {
			return fmt.Sprintf("answers what is no JSON: %.300q", answer.Body)
		}
	case "application/x-ndjson":
		for line := range bytes.Lines(answer.Body.Bytes()) {
			if err := json.Unmarshal(line, &last); err != nil && !json.Valid(line) {
				return fmt.Sprintf("answers a line that is no JSON: %.300q", line)
			}
		}
	}
	deleted := strings.HasSuffix(r.URL.Path, ":delete") && !isTrue(r.URL.Query().Get("dry_run"))
	switch {
	case answer.Code == http.StatusCreated && strings.HasPrefix(r.URL.Path, "/v1/accounts"):
		w.there++
	case answer.Code == http.StatusNoContent && r.Method == http.MethodDelete && strings.HasPrefix(r.URL.Path, "/v1/accounts/"):
		w.there--
	case last.Summary != nil && deleted:
		w.there -= last.Summary.Changed
	case last.Summary != nil:
		w.there += last.Summary.Created
	}
	return ""
}

func isTrue(text string) bool {
	return slices.Contains([]string{"1", "t", "T", "true", "TRUE", "True"}, text)
}

// conserved holds what is in Redis against what the API has said, and against the law.
func (w *world) conserved() {
	w.Helper()
	c := census.New()
	conn, err := w.Redis.Conn(w.Context(), w.Key(0, "accounts"))
	must(w.T, err)
	defer conn.Close()
	for shard := range w.Ring.Shards() {
		must(w.T, c.Read(conn, w.Ring.Tag(shard)))
	}
	for _, broken := range c.Broken(census.OnceInALane) {
		w.Error(broken)
	}
	if len(c.Accounts) != w.there {
		w.Errorf("%d accounts are in Redis, and the API has said that there are %d", len(c.Accounts), w.there)
	}
}

func read(t *testing.T, name string) []corpus.Request {
	t.Helper()
	file, err := os.Open("testdata/" + name)
	must(t, err)
	defer func() { _ = file.Close() }() // it is only read
	all, err := corpus.Read(file)
	must(t, err)
	return all
}

// seeds are the requests of good will, one at least for each route.
func seeds(t *testing.T, server *api.Server) []corpus.Request {
	t.Helper()
	all := read(t, "seeds.jsonl")
	var known []string
	for _, r := range all {
		asked, err := r.Parse()
		must(t, err)
		known = append(known, server.Route(asked))
	}
	for _, right := range api.Rights() {
		if !slices.Contains(known, right.Route) {
			method, path, _ := strings.Cut(right.Route, " ")
			all = append(all, corpus.Request{Method: method, Target: corpus.Text(strings.NewReplacer("{id}", "kept%2F1", "{", "", "}", "").Replace(path)), Body: "{}"})
		}
	}
	return all
}

// No request gets an error of the server's, panics, costs memory without bound, or loses
// an account.
func TestCorpus(t *testing.T) {
	faketime.Run(t, 4, func(fake *faketime.World) {
		t := fake.T
		w := newWorld(t, fake)
		seeds := seeds(t, w.api)
		runtime.GC()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		wrongs := 0
		judge := func(name string, r corpus.Request) {
			if wrong := w.ask(r); wrong != "" {
				if wrongs++; wrongs <= 20 {
					t.Errorf("%s %.2000s\n%.3000s", name, r, wrong)
				}
			}
		}
		for i, r := range seeds {
			before := w.statuses[http.StatusUnprocessableEntity]
			judge(fmt.Sprint("seed ", i), r)
			if w.statuses[http.StatusUnprocessableEntity] > before && strings.HasPrefix(string(r.Target), "/v1/accounts") {
				t.Errorf("seed %d is of good will, and is refused: %s", i, r)
			}
		}
		for i, r := range read(t, "found.jsonl") {
			judge(fmt.Sprint("kept request ", i), r)
		}
		for i := range *requests {
			rng := rand.New(rand.NewPCG(*seed, uint64(i)))
			judge(fmt.Sprintf("request %d of seed %d", i, *seed), corpus.Mutate(rng, seeds[rng.IntN(len(seeds))]))
		}
		w.conserved()
		w.api.Close()
		runtime.GC()
		runtime.ReadMemStats(&after)
		if after.HeapAlloc > before.HeapAlloc+holds {
			t.Errorf("the heap holds %d bytes more than before", after.HeapAlloc-before.HeapAlloc)
		}
		for _, right := range api.Rights() {
			if w.routes[right.Route] == 0 {
				t.Errorf("%s: no request came there", right.Route)
			}
		}
		t.Logf("%d requests, %d of them refused by net/http; by status: %v; accounts: %d", *requests, w.refused, w.statuses, w.there)
	})
}

// The judgement condemns each answer that it is there for, and no good one.
func TestTheJudgementCondemns(t *testing.T) {
	faketime.Run(t, 1, func(fake *faketime.World) {
		w := newWorld(fake.T, fake)
		says := func(status int, kind, body string) http.HandlerFunc {
			return func(a http.ResponseWriter, _ *http.Request) {
				a.Header().Set("X-Content-Type-Options", "nosniff")
				a.Header().Set("Content-Type", kind)
				a.WriteHeader(status)
				_, _ = io.WriteString(a, body)
			}
		}
		var kept [][]byte
		for name, c := range map[string]struct {
			served http.HandlerFunc
			wrong  string
		}{
			"a good answer": {says(200, "application/json", "{}"), ""},
			"a refusal":     {says(422, "application/problem+json", "{}"), ""},
			"500":           {says(500, "application/json", "{}"), "answers 500"},
			"503":           {says(503, "application/problem+json", "{}"), "answers 503"},
			"599":           {says(599, "application/json", "{}"), "answers 599"},
			"a panic":       {func(http.ResponseWriter, *http.Request) { panic("oops") }, "panics with oops"},
			"a panic in the log": {func(a http.ResponseWriter, r *http.Request) {
				w.log.WriteString("a panic\n")
				says(200, "text/plain", "")(a, r)
			}, "logs a panic"},
			"no JSON":              {says(200, "application/json", "{"), "no JSON"},
			"a line of no JSON":    {says(200, "application/x-ndjson", "{}\n{\n"), "a line that is no JSON"},
			"a type to be guessed": {func(a http.ResponseWriter, _ *http.Request) { a.WriteHeader(204) }, "to be guessed"},
			"much memory": {func(a http.ResponseWriter, r *http.Request) {
				kept = append(kept, make([]byte, 2*spent))
				says(200, "text/plain", "")(a, r)
			}, "allocates"},
		} {
			w.served = c.served
			w.log.Reset()
			if wrong := w.ask(corpus.Request{Method: "GET", Target: "/v1/accounts"}); c.wrong == "" && wrong != "" || !strings.Contains(wrong, c.wrong) {
				fake.T.Errorf("%s: %q, want %q", name, wrong, c.wrong)
			}
		}
		// What came and went is held against what was said.
		was := w.there
		w.served = says(201, "application/json", "{}")
		if w.ask(corpus.Request{Method: "PUT", Target: "/v1/accounts/x"}); w.there != was+1 {
			fake.T.Errorf("%d accounts after one was said to be created, were %d", w.there, was)
		}
		runtime.KeepAlive(kept)
	})
}

// The same number makes the same request, and requests differ.
func TestRequestsAreDrawnFromTheSeed(t *testing.T) {
	all := read(t, "seeds.jsonl")
	seen := make(map[string]bool)
	for i := range 200 {
		draw := func() string {
			rng := rand.New(rand.NewPCG(7, uint64(i)))
			return corpus.Mutate(rng, all[rng.IntN(len(all))]).String()
		}
		first := draw()
		if draw() != first {
			t.Fatalf("request %d is not the same again", i)
		}
		again, err := corpus.Read(strings.NewReader(first))
		if err != nil || len(again) != 1 || again[0].String() != first {
			t.Fatalf("request %d: read as %v, %v, written as %s", i, again, err, first)
		}
		seen[first] = true
	}
	if len(seen) < 192 {
		t.Errorf("only %d of 200 differ", len(seen))
	}
}
