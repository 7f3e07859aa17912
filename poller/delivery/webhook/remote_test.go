package webhook_test

import (
	"bytes"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/circulate/document"
	found "github.com/rounds-dev/rounds/cmd/rounds/message"
	"github.com/rounds-dev/rounds/poller/delivery"
	"github.com/rounds-dev/rounds/poller/delivery/webhook"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/poller/secrets"
	"github.com/rounds-dev/rounds/testing/faketime"
)

// logged is a log that a test may look at.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// count returns how many lines contain a text.
func (l *logged) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), text)
}

// run delivers to the endpoint as a process does, until the returned function is called.
func (w *world) run(o webhook.Options) (stop func()) {
	w.Helper()
	sink, err := webhook.New(webhook.Endpoint{Name: "crm", URL: "http://crm.example/", Secrets: []secrets.Ref{{Name: "NEW"}}, Ordered: true}, o)
	if err != nil {
		w.Fatal(err)
	}
	control, remote := &delivery.Control{}, webhook.NewRemote(document.Of(w.Ring).Endpoints(), o.Log)
	remote.Add(sink, control, webhook.MaxDeliveries)
	far := faketime.Go(w, remote.Run)
	near := faketime.Go(w, delivery.Consumer{
		Ring: w.Ring, Group: webhook.Endpoint{Name: "crm"}.Group(), Handler: sink, Control: control, HandlerTimeout: sink.HandlerTimeout(),
		MaxDeliveries: webhook.MaxDeliveries, Backoff: webhook.Backoff, Log: o.Log,
	}.Run)
	return func() { near(); far() }
}

func (w *world) write(names ...string) {
	w.Helper()
	for _, name := range names {
		account, _, _ := strings.Cut(name, "/")
		w.Do("XADD", w.Key(w.Ring.ShardOf(account), "messages"), "*", "account", account, "kind", "feed", "id", name, "type", "item", "time", "", "data", "{}")
	}
}

// A receiver that answers 400 is shown at once. The pauses between tries grow. An operator can
// have it tried at once. The log mentions it rarely.
func TestARejectingEndpointShowsAndIsRetried(t *testing.T) {
	inFakeTime(t, func(w *world) {
		log := &logged{}
		w.options.Log, w.options.Store = faketime.Log(w, log), w.Ring.Endpoints()
		reader := found.New(w.Ring)
		stop := w.run(w.options)
		w.receiver.status(http.StatusBadRequest)
		w.write("a/1", "a/2", "b/1")
		time.Sleep(30 * time.Minute)
		standing := func() *found.WebhookStanding {
			t.Helper()
			hook, err := reader.Webhook(w.Context(), "crm")
			if err != nil || hook.Standing == nil {
				t.Fatalf("%+v, %v", hook, err)
			}
			return hook.Standing
		}
		s := standing()
		if s.LastStatus != 400 || s.LastOutcome != "rejected" || s.Breaker != "closed" || s.Accounts != 2 || s.Messages != 3 || s.Attempt < 8 ||
			s.MaxDeliveries != webhook.MaxDeliveries || time.Until(s.Next) < time.Second || len(s.Waiting) != 2 || s.Waiting[0].Why != "webhook crm: answered 400" {
			t.Errorf("%+v", s)
		}
		if n := log.count("does not take a message"); n != 1 {
			t.Errorf("the first rejection was told %d times", n)
		}
		if n := log.count("still does not take all messages"); n != 2 && n != 3 {
			t.Errorf("%d reminders in half an hour", n)
		}

		w.receiver.seen()
		if done, err := reader.RetryWebhook(w.Context(), "crm", "b"); err != nil || done != (found.WebhookRetry{Processes: 1, Accounts: 1}) {
			t.Errorf("%+v, %v", done, err)
		}
		time.Sleep(2 * time.Second)
		w.receiver.expect(t, "b/1")
		w.receiver.status(http.StatusOK)
		if _, err := reader.RetryWebhook(w.Context(), "crm", ""); err != nil {
			t.Error(err)
		}
		time.Sleep(2 * time.Second)
		if got := w.receiver.seen(); len(got) != 3 {
			t.Errorf("after the retry: %q", got)
		}
		time.Sleep(time.Minute)
		if s := standing(); s.LastStatus != 200 || s.Accounts != 0 || s.Attempt != 0 || !s.Next.IsZero() {
			t.Errorf("%+v", s)
		}
		if log.count("takes messages again, and none waits any more") != 1 {
			t.Error("that it recovered was not told")
		}
		stop()
		hook, err := reader.Webhook(w.Context(), "crm")
		if err != nil || hook.Standing != nil {
			t.Errorf("when nobody delivers: %+v, %v", hook.Standing, err)
		}
	})
}

// Why an endpoint cannot be reached is in the log, and wherever an operator looks.
func TestWhyAnEndpointIsNotReached(t *testing.T) {
	client := fetch.New(loopback)
	defer client.Close()
	_, refused := client.Do(t.Context(), fetch.Call{Method: http.MethodPost, URL: "http://127.0.0.1:1/hooks?key=hush"})
	inFakeTime(t, func(w *world) {
		log := &logged{}
		w.options.Log, w.options.Store = faketime.Log(w, log), w.Ring.Endpoints()
		reader := found.New(w.Ring)
		stop := w.run(w.options)
		w.receiver.goAwayWith(refused)
		w.write("a/1", "b/1")
		time.Sleep(30 * time.Minute)
		const why = "no connection to the host: connection refused"
		hook, err := reader.Webhook(w.Context(), "crm")
		if err != nil || hook.Standing.LastOutcome != "unreachable" || hook.Standing.LastError != why || len(hook.Standing.Waiting) != 2 {
			t.Fatalf("%+v, %v", hook.Standing, err)
		}
		for _, waits := range hook.Standing.Waiting {
			if waits.Why != "webhook crm: "+why {
				t.Errorf("%+v", waits)
			}
		}
		group, err := reader.Group(w.Context(), "webhook.crm")
		if err != nil || len(group.Consumers) != 1 || group.Consumers[0].Error != "webhook crm: "+why {
			t.Errorf("%+v, %v", group, err)
		}
		stop()
		if n := log.count(`"webhook endpoint fails; nothing is sent for a while" endpoint=crm error="` + why + `"`); n == 0 {
			t.Error("the log does not say why")
		}
	})
}

// A pause that the endpoint asked for is no failure.
func TestWhyAnEndpointGetsNothing(t *testing.T) {
	inFakeTime(t, func(w *world) {
		w.options.Store = w.Ring.Endpoints()
		reader := found.New(w.Ring)
		stop := w.run(w.options)
		defer stop()
		w.receiver.status(http.StatusTooManyRequests)
		w.write("a/1", "b/1")
		time.Sleep(time.Minute)
		hook, err := reader.Webhook(w.Context(), "crm")
		if err != nil || hook.Standing.LastStatus != 429 || hook.Standing.LastError != "" || len(hook.Standing.Waiting) != 2 {
			t.Fatalf("%+v, %v", hook.Standing, err)
		}
		if why := hook.Standing.Waiting[1].Why; why != "webhook crm: the endpoint asked for a pause: answered 429" && why != "webhook crm: answered 429" {
			t.Errorf("%+v", hook.Standing.Waiting)
		}
	})
}

// A message that an operator wants tried is sent even though the breaker is open.
func TestARetryReopensTheBreaker(t *testing.T) {
	inFakeTime(t, func(w *world) {
		w.options.Store = w.Ring.Endpoints()
		reader := found.New(w.Ring)
		stop := w.run(w.options)
		defer stop()
		w.receiver.goAway()
		w.write("a/1")
		time.Sleep(30 * time.Minute)
		w.receiver.status(http.StatusOK)
		hook, err := reader.Webhook(w.Context(), "crm")
		if err != nil || hook.Standing.Breaker != "open" || time.Until(hook.Standing.Until) <= 0 || hook.Standing.LastOutcome != "unreachable" {
			t.Fatalf("%+v, %v", hook.Standing, err)
		}
		if _, err := reader.RetryWebhook(w.Context(), "crm", ""); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		w.receiver.expect(t, "a/1")
		if got := w.Counted("rounds_webhook_breaker_state", "crm"); got != 0 {
			t.Errorf("breaker state %v", got)
		}
	})
}

// A skipped message becomes a dead letter. The messages that waited behind it are delivered at
// once.
func TestASkipLetsTheNextThrough(t *testing.T) {
	inFakeTime(t, func(w *world) {
		w.options.Store = w.Ring.Endpoints()
		reader := found.New(w.Ring)
		stop := w.run(w.options)
		defer stop()
		w.receiver.say(func(_ int, r *http.Request, answer http.ResponseWriter) {
			if strings.HasSuffix(read(t, r).Data.ID, "/1") {
				answer.WriteHeader(http.StatusUnprocessableEntity)
			}
		})
		w.write("a/1", "a/2", "a/3", "b/1", "b/2")
		time.Sleep(time.Minute)
		w.receiver.seen()
		done, err := reader.SkipWebhook(w.Context(), "crm", found.WebhookChoice{Account: "a"})
		if err != nil || len(done.Skipped) != 1 || done.Skipped[0].Account != "a" {
			t.Fatalf("%+v, %v", done, err)
		}
		time.Sleep(2 * time.Second)
		w.receiver.expect(t, "a/2", "a/3")
		page, err := reader.Dead(w.Context(), found.DeadQuery{Group: "webhook.crm"})
		if err != nil || len(page.Letters) != 1 || page.Letters[0].ID != done.Skipped[0].DeadID || page.Letters[0].Message.ID != "a/1" ||
			page.Letters[0].Error != "skipped by an operator: webhook crm: answered 422" {
			t.Errorf("%+v, %v", page, err)
		}
	})
}

// An endpoint that is enabled again gets its messages at once, not only when its state is next
// read.
func TestEnableIsLearntAtOnce(t *testing.T) {
	inFakeTime(t, func(w *world) {
		w.options.Store = w.Ring.Endpoints()
		reader := found.New(w.Ring)
		stop := w.run(w.options)
		defer stop()
		w.receiver.status(http.StatusGone)
		w.write("a/1")
		time.Sleep(20 * time.Minute)
		w.receiver.status(http.StatusOK)
		w.receiver.seen()
		if _, err := reader.EnableWebhook(w.Context(), "crm"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		w.receiver.expect(t, "a/1")
	})
}
