package webhook_test

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/circulate/document"
	"github.com/rounds-dev/rounds/poller/delivery"
	"github.com/rounds-dev/rounds/poller/delivery/webhook"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/poller/secrets"
	"github.com/rounds-dev/rounds/testing/faketime"
)

// memoryBoard is a board in memory that may be unreachable.
type memoryBoard struct {
	mu      sync.Mutex
	away    bool
	reports []document.Report
	times   int // number of reports
	tried   map[string][]document.Attempt
	left    int
}

var errAway = errors.New("redis is away")

func (b *memoryBoard) Report(_ context.Context, _ string, reports []document.Report) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.away {
		return errAway
	}
	b.reports = reports
	b.times++
	return nil
}

func (b *memoryBoard) Tried(_ context.Context, _ string, attempts map[string][]document.Attempt) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.away {
		return errAway
	}
	b.tried = attempts
	return nil
}

// triedAt returns what was reported last of an endpoint.
func (b *memoryBoard) triedAt(endpoint string) []document.Attempt {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.tried[endpoint]
}

func (b *memoryBoard) Withdraw(context.Context, string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left++
	return errAway
}

func (b *memoryBoard) Orders(context.Context, string) ([]document.Order, string, time.Time, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.away {
		return nil, "", time.Time{}, errAway
	}
	return nil, "0-0", time.Now(), nil
}

func (b *memoryBoard) set(away bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.away = away
}

// endpoints returns the endpoints reported last.
func (b *memoryBoard) endpoints() (names []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, r := range b.reports {
		names = append(names, r.Endpoint)
	}
	return names
}

// count returns how many reports there were.
func (b *memoryBoard) count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.times
}

// A Remote reports its endpoints in order, and reports them again after Redis was unreachable.
// It no longer reports an endpoint that was removed. A sink that was replaced removes nothing.
func TestARemoteReportsWhatItHas(t *testing.T) {
	inFakeTime(t, func(w *world) {
		board := &memoryBoard{}
		remote := webhook.NewRemote(board, nil)
		sinks := make(map[string]*webhook.Sink)
		for _, name := range []string{"log", "crm", "old"} {
			sinks[name] = w.sink(func(e *webhook.Endpoint) { e.Name = name })
			remote.Add(sinks[name], &delivery.Control{}, 3)
		}
		stop := faketime.Go(w, remote.Run)
		expect := func(when string, want ...string) {
			t.Helper()
			time.Sleep(2 * time.Second)
			if got := board.endpoints(); !slices.Equal(got, want) {
				t.Errorf("%s: reported %q, want %q", when, got, want)
			}
		}
		expect("at first", "crm", "log", "old")

		board.set(true)
		remote.Remove(sinks["old"])
		expect("while Redis is away", "crm", "log", "old")
		board.set(false)
		expect("afterwards", "crm", "log")

		remote.Add(w.sink(nil), &delivery.Control{}, 3)
		remote.Remove(sinks["crm"])
		expect("replaced", "crm", "log")

		remote.Add(w.sink(func(e *webhook.Endpoint) { e.Kinds = []string{"feed"} }), &delivery.Control{}, 3)
		expect("for one kind", "crm", "log")
		board.mu.Lock()
		if kinds := board.reports[0].Kinds; !slices.Equal(kinds, []string{"feed"}) {
			t.Errorf("reported for the kinds %q", kinds)
		}
		board.mu.Unlock()

		before := board.count()
		time.Sleep(document.ReportEvery / 2)
		if board.count() != before {
			t.Error("what has not changed is reported again at once")
		}
		time.Sleep(document.ReportEvery)
		if board.count() == before {
			t.Error("what has not changed is never reported again")
		}
		stop() // even though the reports cannot be withdrawn
		board.mu.Lock()
		defer board.mu.Unlock()
		if board.left != 1 {
			t.Errorf("withdrawn %d times", board.left)
		}
	})
}

// Two messages of a batch are on their way when the endpoint answers 410: the first
// answer disables it, the second changes nothing, and the third message is not sent.
func TestGoneInTheMiddleOfABatch(t *testing.T) {
	inFakeTime(t, func(w *world) {
		log := &logged{}
		w.options.Log = faketime.Log(w, log)
		sink := w.sink(func(e *webhook.Endpoint) { e.Concurrency = 2 })
		w.receiver.say(func(_ int, _ *http.Request, answer http.ResponseWriter) {
			time.Sleep(time.Second)
			answer.WriteHeader(http.StatusGone)
		})
		for i, err := range sink.Handle(w.Context(), messages("a/1", "b/1", "c/1")) {
			is(t, err, webhook.Disabled, false)
			if !errors.Is(err, webhook.ErrDisabled) {
				t.Errorf("message %d: %v", i, err)
			}
		}
		if got := w.receiver.seen(); len(got) != 2 || log.count("is disabled") != 1 {
			t.Errorf("sent %q, told %d times", got, log.count("is disabled"))
		}
	})
}

// raw is a client whose errors are not fetch's own.
type raw struct{ fetchError error }

func (raw) Validate(string) error { return nil }

func (r raw) Do(context.Context, fetch.Call) (*fetch.Response, error) { return nil, r.fetchError }

// The error of an unknown client may quote anything. None of it is shown.
func TestErrorsOfAStrangeClientAreNotQuoted(t *testing.T) {
	inFakeTime(t, func(w *world) {
		w.options.Client = raw{errors.New("Post http://crm.example/?token=" + apiToken)}
		err := one(w.Context(), w.sink(nil), "a/1")
		is(t, err, webhook.Unreachable, false)
		if strings.Contains(err.Error(), apiToken) || !strings.Contains(err.Error(), "the call failed") {
			t.Errorf("got %v", err)
		}
	})
}

// A header's secret that is not deployed keeps messages waiting, like a signing key's.
func TestAHeadersSecretIsMissing(t *testing.T) {
	inFakeTime(t, func(w *world) {
		sink := w.sink(func(e *webhook.Endpoint) {
			e.Headers = []webhook.Header{{Name: "X-Token", Secret: secrets.Ref{Name: "LATER"}}}
		})
		err := one(w.Context(), sink, "a/1")
		is(t, err, webhook.Unready, false)
		if !errors.Is(err, secrets.ErrNotFound) {
			t.Errorf("got %v", err)
		}
		w.receiver.expect(t)
	})
}

// A process without a Remote logs that an endpoint takes messages again once nothing was
// refused for a long time.
func TestTheLogWithoutARemote(t *testing.T) {
	inFakeTime(t, func(w *world) {
		log := &logged{}
		w.options.Log = faketime.Log(w, log)
		sink := w.sink(nil)
		refuse := func(status int) {
			w.receiver.status(status)
			is(t, one(w.Context(), sink, "a/1"), webhook.Rejected, true)
		}
		take := func() {
			w.receiver.status(http.StatusOK)
			if err := one(w.Context(), sink, "a/1"); err != nil {
				t.Error(err)
			}
		}
		refuse(http.StatusBadRequest)
		take()
		if log.count("takes messages again") != 0 {
			t.Error("told at once that it is over, though a refused message may wait")
		}
		time.Sleep(2 * time.Hour)
		take()
		if log.count("does not take a message") != 1 || log.count("takes messages again, and none waits any more") != 1 {
			t.Errorf("got %s", log.text.String())
		}

		refuse(http.StatusBadRequest)
		time.Sleep(11 * time.Minute)
		refuse(http.StatusConflict)
		if log.count("still does not take all messages") != 1 || log.count("last=409") != 1 {
			t.Errorf("got %s", log.text.String())
		}
	})
}

// An endpoint that refuses a message now and then does not fill the log. A second refusal soon
// after the first is not logged, and neither is its end.
func TestARefusalSoonAfterAnotherIsNotTold(t *testing.T) {
	inFakeTime(t, func(w *world) {
		log := &logged{}
		w.options.Log = faketime.Log(w, log)
		sink, remote := w.sink(nil), webhook.NewRemote(&memoryBoard{}, nil)
		remote.Add(sink, &delivery.Control{}, 3)
		stop := faketime.Go(w, remote.Run)
		defer stop()
		for range 3 {
			w.receiver.status(http.StatusBadRequest)
			is(t, one(w.Context(), sink, "a/1"), webhook.Rejected, true)
			time.Sleep(2 * time.Minute) // by then nothing waits any more
		}
		if log.count("does not take a message") != 1 || log.count("no message waits at the webhook endpoint any more") != 1 {
			t.Errorf("got %s", log.text.String())
		}
	})
}

// A delivery without a connection has no status. The reminder says how it ended instead.
func TestTheReminderNamesTheOutcome(t *testing.T) {
	inFakeTime(t, func(w *world) {
		log := &logged{}
		w.options.Log = faketime.Log(w, log)
		sink := w.sink(func(e *webhook.Endpoint) { e.Timeout = time.Second })
		w.receiver.say(slow(time.Minute))
		for range 2 {
			is(t, one(w.Context(), sink, "a/1"), webhook.Failed, true)
			time.Sleep(11 * time.Minute)
		}
		if log.count("last=failed") != 1 {
			t.Errorf("got %s", log.text.String())
		}
	})
}

// Limits of a configuration that only a long file, or a program, can exceed.
func TestLongConfigurations(t *testing.T) {
	var names []string
	for range 65 {
		names = append(names, "k")
	}
	endpoint := webhook.Endpoint{Name: "crm", URL: "http://crm.example/", Secrets: make([]secrets.Ref, 9), Kinds: names}
	for range fetch.MaxHeaders + 1 {
		endpoint.Headers = append(endpoint.Headers, webhook.Header{Name: "X-A"})
	}
	options := webhook.Options{Client: &receiver{}, Namespace: "rounds"}
	_, err := webhook.New(endpoint, options)
	for _, want := range []string{"secrets: must be at most 8", "secrets[8]: missing", "kinds: must be at most 64", "headers: must be at most 32"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	endpoint.Headers = []webhook.Header{{Name: "X-A", Value: "s3cret", Secret: secrets.Ref{Name: "NEW"}}}
	_, err = webhook.New(endpoint, options)
	if want := "headers.X-A: must have a value or refer to a secret, not both"; err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("got %v, want %s", err, want)
	}
	many := bytes.Repeat([]byte("{},"), 1000)
	if _, err = parse(t, `{"endpoints": [`+string(many)+`{}]}`); err == nil || !strings.Contains(err.Error(), "endpoints: must be at most 1000") {
		t.Errorf("1001 endpoints: %.200v", err)
	}
}

// A secret where any record could name it is reported with the field that refers to it. A
// missing secret is not, because it may come later.
func TestMisplacedSecretsAreReportedByField(t *testing.T) {
	t.Parallel()
	environment := map[string]string{"ROUNDS_SECRET_RECORDS": "x", "ROUNDS_SERVICE_SECRET_OWN": "x"}
	source := secrets.Source{Lookup: func(name string) (string, bool) {
		value, ok := environment[name]
		return value, ok
	}}.Service()
	ref := func(name string) secrets.Ref { return secrets.Ref{Name: name} }
	good := webhook.Endpoint{
		Name: "good", URL: "https://crm.example.com/", Secrets: []secrets.Ref{ref("OWN"), ref("MISSING")},
		Headers: []webhook.Header{{Name: "X-B", Value: "b"}, {Name: "X-C", Secret: ref("OWN")}},
	}
	if err := webhook.Misplaced(t.Context(), []webhook.Endpoint{good}, source); err != nil {
		t.Errorf("own, plain and missing values: %v", err)
	}
	bad := webhook.Endpoint{
		Name: "bad", URL: "https://crm.example.com/", Secrets: []secrets.Ref{ref("OWN"), ref("RECORDS")},
		Headers: []webhook.Header{{Name: "Authorization", Secret: ref("RECORDS")}},
	}
	err := webhook.Misplaced(t.Context(), []webhook.Endpoint{good, bad}, source)
	if !errors.Is(err, secrets.ErrMisplaced) {
		t.Fatalf("got %v", err)
	}
	for _, field := range []string{"endpoints[1].secrets[1]: ", "endpoints[1].headers.Authorization: "} {
		if !strings.Contains(err.Error(), field) {
			t.Errorf("%v does not name %s", err, field)
		}
	}
	if strings.Contains(err.Error(), "endpoints[0]") {
		t.Errorf("%v blames the good endpoint", err)
	}
}
