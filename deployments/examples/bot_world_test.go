package examples

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/cmd/rounds/api"
	"github.com/rounds-dev/rounds/cmd/rounds/client"
	"github.com/rounds-dev/rounds/testing/ports"
	"github.com/rounds-dev/rounds/testing/processes"
	"github.com/rounds-dev/rounds/testing/redistest"
)

const (
	apiToken    = "token-of-the-tests"
	botAccounts = 4
	loseEach    = 9 // of so many replies one is lost
)

// moments are the middles of calls in which processes are killed.
var moments = []string{"a check", "a send was taken", "the bot asks", "the API has answered"}

// moment is one that somebody waits for.
type moment struct {
	name            string
	reached, passed chan struct{}
}

// botWorld is a service whose processes may be killed, between a third party and a bot.
type botWorld struct {
	*testing.T
	third  *thirdParty
	client *client.Client
	launch map[string]func() (*processes.Process, error)

	mu      sync.Mutex
	running map[string]*processes.Process
	awaited *moment
	keys    map[string]int // idempotency key → requests of the bot that had it
	asked   int            // requests of the bot that the API has answered
}

func startBotWorld(t *testing.T, binary string, bot []string) *botWorld {
	t.Helper()
	w := &botWorld{T: t, launch: make(map[string]func() (*processes.Process, error)), running: make(map[string]*processes.Process), keys: make(map[string]int)}
	w.third = &thirdParty{pass: w.pass, answers: make(map[string]int)}
	third := httptest.NewServer(w.third)
	t.Cleanup(third.Close)
	redis := redistest.Start(t)
	addr, botAddr := address(t), address(t)
	way := httptest.NewServer(w.wayTo("http://" + addr))
	t.Cleanup(way.Close)

	webhooks := filepath.Join(t.TempDir(), "webhooks.json")
	endpoint := fmt.Sprintf(`{"endpoints":[{"name":"bot","url":"http://%s/","secrets":[{"secret":"BOT"}],"ordered":true,"concurrency":2}]}`, botAddr)
	if err := os.WriteFile(webhooks, []byte(endpoint), 0o600); err != nil {
		t.Fatal(err)
	}
	settings := []string{
		"ROUNDS_REDIS_URL=" + redis.URL(), "ROUNDS_API_ADDR=" + addr, "ROUNDS_API_TOKEN=" + apiToken, "ROUNDS_ALLOW_NETWORKS=127.0.0.1", "ROUNDS_SHARDS=4",
		"ROUNDS_WEBHOOKS_FILE=" + webhooks, "ROUNDS_SERVICE_SECRET_BOT=" + signingKey,
		// A replica that is killed counts as dead soon.
		"ROUNDS_HEARTBEAT_INTERVAL=200ms", "ROUNDS_DEAD_AFTER=2s", "ROUNDS_SWEEP_INTERVAL=200ms", "ROUNDS_QUARANTINE_AFTER=0",
	}
	for name, roles := range map[string]string{"api": "api", "poller 1": "poller", "poller 2": "poller", "delivery 1": "delivery,monitor", "delivery 2": "delivery,monitor"} {
		w.launch[name] = func() (*processes.Process, error) {
			return processes.Start(name, binary, settings, "serve", "--roles", roles)
		}
	}
	_, port, _ := strings.Cut(botAddr, ":")
	environment := []string{"BOT_SECRET=" + signingKey, "BOT_PORT=" + port, "ROUNDS_API_URL=" + way.URL, "ROUNDS_API_TOKEN=" + apiToken}
	w.launch["bot"] = func() (*processes.Process, error) {
		return processes.Start("bot", bot[0], environment, bot[1:]...)
	}
	t.Cleanup(w.end)
	for name := range w.launch {
		w.start(name)
	}

	processes.AwaitStatus(t, "http://"+addr+"/readyz", http.StatusOK)
	w.client = client.New("http://"+addr, apiToken)
	t.Cleanup(w.client.Close)
	config := fmt.Appendf(nil, `{"url":"%s/check","send_url":"%s/send"}`, third.URL, third.URL)
	for i := range botAccounts {
		if _, err := w.client.Put(t.Context(), accounts.Account{ID: botAccount(i), Kind: "http", Config: config, Cadence: "every 1s"}, ""); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

func address(t *testing.T) string {
	t.Helper()
	addr, err := ports.Address()
	if err != nil {
		t.Fatal(err)
	}
	return addr
}

func (w *botWorld) start(name string) {
	w.Helper()
	p, err := w.launch[name]()
	if err != nil {
		w.Fatal(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.running[name] = p
}

// end kills all processes. If the test has failed, it shows what each said at last.
func (w *botWorld) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for name, p := range w.running {
		p.Kill()
		if w.Failed() {
			lines := strings.Split(p.Log(), "\n")
			w.Logf("%s said, at the end:\n%s", name, strings.Join(lines[max(0, len(lines)-15):], "\n"))
		}
	}
}

// killAt does kill -9 in a moment, and starts the process again.
func (w *botWorld) killAt(victim, name string) {
	w.Helper()
	m := &moment{name: name, reached: make(chan struct{}), passed: make(chan struct{})}
	w.await(m)
	patience := time.NewTimer(2 * time.Second)
	defer patience.Stop()
	select {
	case <-m.reached:
	case <-patience.C: // the kills before have stopped everything for a while
	}
	w.await(nil)
	w.running[victim].Kill() // only this goroutine writes the map
	close(m.passed)
	w.start(victim)
	w.hurry()
}

func (w *botWorld) await(m *moment) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.awaited = m
}

// pass lasts until the process is dead that is to be killed in this moment, if there is one.
func (w *botWorld) pass(name string) {
	w.mu.Lock()
	m := w.awaited
	if m == nil || m.name != name {
		w.mu.Unlock()
		return
	}
	w.awaited = nil
	w.mu.Unlock()
	close(m.reached)
	<-m.passed
}

// hurry ends the pauses of the webhook, as somebody does who has started a bot again. It does nothing
// while the API is away.
func (w *botWorld) hurry() {
	_, _ = w.client.RetryWebhook(w.Context(), "bot", api.WebhookRetryRequest{})
}

var errLostReply = errors.New("the reply is lost")

// wayTo returns a proxy through which the bot reaches the API, and on which some replies are lost.
func (w *botWorld) wayTo(at string) http.Handler {
	target, err := url.Parse(at)
	if err != nil {
		w.Fatal(err)
	}
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			w.mu.Lock()
			w.keys[r.In.Header.Get("Idempotency-Key")]++
			w.mu.Unlock()
			w.pass("the bot asks")
		},
		ModifyResponse: func(*http.Response) error {
			w.pass("the API has answered")
			w.mu.Lock()
			defer w.mu.Unlock()
			if w.asked++; w.asked%loseEach == 0 {
				return errLostReply
			}
			return nil
		},
		ErrorHandler: func(rw http.ResponseWriter, _ *http.Request, err error) {
			if errors.Is(err, errLostReply) {
				panic(http.ErrAbortHandler)
			}
			rw.WriteHeader(http.StatusBadGateway)
		},
		ErrorLog: log.New(io.Discard, "", 0),
	}
}

// repeated returns how many requests of the bot had the key of an earlier one.
func (w *botWorld) repeated() (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, requests := range w.keys {
		n += requests - 1
	}
	return n
}

// eventually asks until a condition holds.
func eventually(t *testing.T, what string, so func() (bool, string)) {
	t.Helper()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(time.Minute); ; <-tick.C {
		holds, seen := so()
		if holds {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not within a minute: %s\n%s", what, seen)
		}
	}
}

// settled waits until the bot has taken all messages, and each send has ended or is in doubt. It
// returns the sends.
func (w *botWorld) settled() (sends []api.Send) {
	w.Helper()
	eventually(w.T, "every message is answered, or its answer is in doubt", func() (bool, string) {
		w.hurry()
		page, err := w.client.Sends(w.Context(), client.SendQuery{Limit: 1000})
		groups, noGroups := w.client.Groups(w.Context())
		if err := cmp.Or(err, noGroups); err != nil {
			return false, err.Error()
		}
		sends = page.Sends
		to, open := make(map[string]bool), 0
		for _, s := range sends {
			to[s.To] = true
			if s.State == "queued" || s.State == "attempting" {
				open++
			}
		}
		left := slices.IndexFunc(groups.Groups, func(g api.Group) bool { return g.Lag > 0 || g.Pending > 0 })
		written := len(w.third.answered())
		return len(to) == written && open == 0 && left < 0, fmt.Sprintf("%d messages, sends to %d, %d of them open; groups %+v", written, len(to), open, groups.Groups)
	})
	return sends
}

// resolve decides about each unknown send as somebody does who looks at the third party, until all
// are accepted. It returns how often there was something to decide.
func (w *botWorld) resolve() (decided int) {
	w.Helper()
	w.third.loseNothing()
	eventually(w.T, "every send is accepted", func() (bool, string) {
		page, err := w.client.Sends(w.Context(), client.SendQuery{Limit: 1000})
		answered := w.third.answered()
		left := 0
		for _, s := range page.Sends {
			if s.State != "accepted" {
				left++
			}
			if s.State != "unknown" {
				continue
			}
			decided++
			if answered[s.To] > 0 {
				_, err = w.client.ResolveSend(w.Context(), s.ID, api.SendResolveRequest{State: "accepted", Reason: "it has arrived", Attempts: s.Attempts})
			} else {
				_, err = w.client.RetrySend(w.Context(), s.ID, api.SendRetryRequest{Attempts: s.Attempts})
			}
			if err != nil {
				w.Error(err)
			}
		}
		return err == nil && left == 0, fmt.Sprintf("%v %+v", err, page.Sends)
	})
	return decided
}

// thirdParty is a connector, and the people behind it. Each of them writes once. It takes each send as
// a new one, as most third parties do.
type thirdParty struct {
	pass func(moment string)

	mu       sync.Mutex
	writers  [botAccounts][]string // account → people, in the order in which they wrote
	answers  map[string]int        // person → answers that arrived
	taken    int                   // sends
	faithful bool                  // it loses no replies
}

// botAccount returns the id of the i-th account.
func botAccount(i int) string { return fmt.Sprint("account-", i) }

// write makes n people write to an account each.
func (p *thirdParty) write(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for range n {
		account, person := len(p.answers)%botAccounts, fmt.Sprint("person-", len(p.answers))
		p.writers[account] = append(p.writers[account], person)
		p.answers[person] = 0
	}
}

// answered returns how many answers each person has who wrote.
func (p *thirdParty) answered() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := make(map[string]int, len(p.answers))
	for person, n := range p.answers {
		all[person] = n
	}
	return all
}

func (p *thirdParty) loseNothing() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faithful = true
}

// ServeHTTP takes a check or a send.
func (p *thirdParty) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var asked struct {
		Account struct{ ID string }
		Cursor  int // null at first
		To      string
	}
	if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
		return // the caller has died
	}
	if r.URL.Path == "/check" {
		p.pass("a check")
		p.check(w, asked.Account.ID, asked.Cursor)
		return
	}
	p.mu.Lock()
	p.answers[asked.To]++
	p.taken++
	lost := p.taken%loseEach == 0 && !p.faithful
	p.mu.Unlock()
	p.pass("a send was taken")
	if lost {
		panic(http.ErrAbortHandler)
	}
}

// check answers with what was written to an account after the cursor, which counts messages.
func (p *thirdParty) check(w http.ResponseWriter, account string, cursor int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	messages := []map[string]any{}
	for i := range botAccounts {
		if botAccount(i) != account {
			continue
		}
		for _, person := range p.writers[i][cursor:] {
			cursor++
			messages = append(messages, map[string]any{"id": fmt.Sprint(cursor), "type": "text", "data": map[string]string{"from": person, "text": "Is anybody there?"}})
		}
	}
	if len(messages) == 0 {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"messages": messages, "next_cursor": cursor}) // after an error the caller has gone
}
