package mailbox_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/cmd/rounds/login"
	"github.com/rounds-dev/rounds/cmd/rounds/mailbox"
	"github.com/rounds-dev/rounds/testing/faketime"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type kinds struct{}

func (kinds) Validate(kind string, config json.RawMessage) error {
	var c struct{ Host, User string }
	switch {
	case kind != "imap" && kind != "feed" && kind != "graph":
		return errors.New("kind: not known")
	case kind == "imap" && (json.Unmarshal(config, &c) != nil || c.User == "" || c.Host == ""):
		return accounts.Faults{{Field: "user", Reason: "missing"}}
	}
	return nil
}

// world is a ring, a provider, and what signing in has stored.
type world struct {
	*faketime.World
	registry *accounts.Registry

	mu     sync.Mutex
	came   *mailbox.Grant // what Poll and Exchange return
	slower bool
	fails  error // of Poll and Exchange
	polls  []time.Time
	store  error // of storing a secret
	stored map[string]string
	noted  []string
}

var granted = &mailbox.Grant{Text: "refresh-token", Hosts: []string{"login.example:443"}}

func run(t *testing.T, test func(w *world)) {
	faketime.Run(t, 2, func(b *faketime.World) {
		w := &world{World: b, stored: make(map[string]string)}
		w.registry = accounts.NewRegistry(b.Ring, kinds{})
		test(w)
	})
}

func (w *world) locked(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
}

// desk returns the desk of another process.
func (w *world) desk() *mailbox.Desk {
	desk := &mailbox.Desk{
		Ring: w.Open(w.Redis),
		Servers: []mailbox.Server{{
			Kind: "imap", Cadence: "every 0", Config: mailbox.ConfigOfIMAP, Own: mailbox.OwnOfIMAP,
			Validate: func(provider string) error {
				if provider != "devices" && provider != "browser" {
					return errors.New("must be one of ours")
				}
				return nil
			},
			Hosts: func(string) []string { return []string{"imap.example.com", "smtp.example.com"} },
			Begin: func(_ context.Context, provider, user, redirect string) (*mailbox.Pending, error) {
				p := &mailbox.Pending{Secret: json.RawMessage(`"` + user + `"`), Page: "https://login.example/" + user}
				switch {
				case provider == "devices":
					p.UserCode, p.Interval = "ABCD", 5*time.Second
				case redirect == "":
					return nil, mailbox.ErrNoRedirect
				}
				return p, nil
			},
			Poll: func(context.Context, *mailbox.Pending) (*mailbox.Grant, bool, error) {
				w.mu.Lock()
				defer w.mu.Unlock()
				w.polls = append(w.polls, time.Now())
				return w.came, w.slower, w.fails
			},
			Exchange: func(_ context.Context, _ *mailbox.Pending, state, code, _ string) (*mailbox.Grant, error) {
				w.mu.Lock()
				defer w.mu.Unlock()
				if state != "state" {
					return nil, mailbox.ErrState
				}
				if code != "code" {
					return nil, mailbox.ErrRefused
				}
				return w.came, w.fails
			},
		}},
		Keep: func(_ context.Context, _, name string, hosts []string, text string) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			if w.store == nil {
				w.stored[name] = strings.Join(hosts, " ") + "|" + text
			}
			return w.store
		},
		Stored: func(_ context.Context, name string) (bool, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			_, there := w.stored[name]
			return there, nil
		},
		Note: func(_ context.Context, id string, again bool) {
			w.locked(func() { w.noted = append(w.noted, fmt.Sprint(id, " ", again)) })
		},
		Tell: func(_ context.Context, err error) string { return err.Error() },
	}
	other := desk.Servers[0]
	other.Kind, other.Cadence = "graph", "every 60s"
	other.Config = func(string, string) map[string]any { return make(map[string]any) }
	other.Own = func(json.RawMessage) (string, []string) { return "", []string{"graph.example.com"} }
	other.Hosts = func(string) []string { return nil }
	desk.Servers = append(desk.Servers, other)
	return desk
}

func (w *world) begin(r mailbox.Request) (*mailbox.Login, error) {
	r.Account.Cadence = "every 0"
	return w.desk().Begin(w.Context(), w.registry, login.By{Name: "me"}, r)
}

func (w *world) must(l *mailbox.Login, err error) *mailbox.Login {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
	return l
}

func request(id, provider string) mailbox.Request {
	return mailbox.Request{Account: accounts.Account{ID: id}, Provider: provider, User: "me@example.com", Redirect: "http://127.0.0.1:1/"}
}

// config returns the config of an account, or an empty text.
func (w *world) config(id string) string {
	w.Helper()
	a, err := w.registry.Get(w.Context(), id)
	if errors.Is(err, accounts.ErrNotFound) {
		return ""
	}
	if err != nil {
		w.Fatal(err)
	}
	return string(a.Account.Config)
}

// A mailbox of another kind has a config, a cadence and servers of its own, and an account stays of its
// kind.
func TestKinds(t *testing.T) {
	run(t, func(w *world) {
		of := func(id, kind string) mailbox.Request {
			r := request(id, "browser")
			r.Account.Kind = kind
			return r
		}
		begin := func(r mailbox.Request) (*mailbox.Login, error) {
			return w.desk().Begin(w.Context(), w.registry, login.By{Name: "me"}, r)
		}
		w.came = granted
		l := w.must(begin(of("me", "graph")))
		w.must(w.desk().Complete(w.Context(), w.registry, l.Name, "state", "code", ""))
		if got := w.config("me"); got != `{"oauth":{"secret":"mail-me"}}` {
			t.Errorf("got %s", got)
		}
		if a, err := w.registry.Get(w.Context(), "me"); err != nil || a.Account.Kind != "graph" || a.Account.Cadence != "every 60s" {
			t.Errorf("got %+v, %v", a.Account, err)
		}
		if got := w.stored["mail-me"]; !strings.Contains(got, "graph.example.com|") || strings.Contains(got, "imap") {
			t.Errorf("stored %s", got)
		}
		w.must(begin(of("me", ""))) // again, as the kind that it is
		if _, err := begin(of("me", "imap")); !errors.Is(err, login.ErrKind) {
			t.Errorf("got %v", err)
		}
		wrong := of("other", "graph")
		wrong.Host = "imap.example.com"
		for field, r := range map[string]mailbox.Request{"kind": of("other", "feed"), "host": wrong} {
			var faults accounts.Faults
			if _, err := begin(r); !errors.As(err, &faults) || len(faults) != 1 || faults[0].Field != field {
				t.Errorf("%s: got %v", field, err)
			}
		}
	})
}

// The provider is asked as often as it allows, however many processes follow, and the account is
// registered when somebody has consented.
func TestADeviceCode(t *testing.T) {
	run(t, func(w *world) {
		l := w.must(w.begin(request("me", "devices")))
		if l.State != mailbox.Waiting || l.UserCode != "ABCD" || l.Page != "https://login.example/me@example.com" {
			t.Errorf("got %+v", l)
		}
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() {
				if l, err := w.desk().Follow(w.Context(), w.registry, l.Name, mailbox.MaxHold); err != nil || l.State != mailbox.Waiting {
					t.Errorf("got %+v, %v", l, err)
				}
			})
		}
		all.Wait()
		if n := len(w.polls); n < 7 || n > 9 {
			t.Errorf("%d polls in 45 seconds", n)
		}
		w.locked(func() { w.slower, w.polls = true, nil })
		w.must(w.desk().Follow(w.Context(), w.registry, l.Name, 20*time.Second))
		w.locked(func() {
			if len(w.polls) > 3 {
				t.Errorf("%d polls though the provider asks for fewer", len(w.polls))
			}
			w.slower = false
		})
		w.locked(func() { w.fails = errors.New("away") })
		if _, err := w.desk().Follow(w.Context(), w.registry, l.Name, 30*time.Second); err == nil {
			t.Error("a failure is not told")
		}
		if l := w.must(w.desk().Follow(w.Context(), w.registry, l.Name, 0)); l.Trouble != "away" {
			t.Errorf("got %+v", l)
		}
		w.locked(func() { w.fails, w.came = nil, granted })
		l = w.must(w.desk().Follow(w.Context(), w.registry, l.Name, mailbox.MaxHold))
		if l.State != mailbox.Done || l.Page != "" || l.UserCode != "" || l.Trouble != "" {
			t.Errorf("got %+v", l)
		}
		if got := w.config("me"); got != `{"host":"imap.example.com","oauth":{"secret":"mail-me"},"user":"me@example.com"}` {
			t.Errorf("got %s", got)
		}
		if got := w.stored["mail-me"]; got != "login.example:443 imap.example.com smtp.example.com|refresh-token" {
			t.Errorf("got %s", got)
		}
	})
}

// An account with a password is signed in by a browser, with the servers of its own config. Its
// other fields stay.
func TestAnExistingAccount(t *testing.T) {
	run(t, func(w *world) {
		a := accounts.Account{ID: "me", Kind: "imap", Cadence: "every 5m", Config: json.RawMessage(`{"host":"mx.example.org","user":"me","password":{"secret":"PW"},"smtp":{"host":"out.example.org"},"mailbox":"A"}`)}
		if _, err := w.registry.Create(w.Context(), a); err != nil {
			t.Fatal(err)
		}
		if _, err := w.registry.Pause(w.Context(), "me"); err != nil {
			t.Fatal(err)
		}
		r := request("me", "browser")
		r.Host = "evil.example"
		if _, err := w.begin(r); !strings.Contains(fmt.Sprint(err), "host: the account exists") || !strings.Contains(fmt.Sprint(err), "user: the account exists") {
			t.Errorf("another user and host: %v", err)
		}
		r.Host, r.User = "", ""
		l := w.must(w.begin(r))
		if l.UserCode != "" || l.Page != "https://login.example/me" {
			t.Errorf("got %+v", l)
		}
		if _, err := w.desk().Complete(w.Context(), w.registry, l.Name, "other", "code", ""); !strings.Contains(fmt.Sprint(err), "state: ") {
			t.Errorf("another state: %v", err)
		}
		w.locked(func() { w.came = granted })
		for range 2 { // a browser may load a page twice
			if l := w.must(w.desk().Complete(w.Context(), w.registry, l.Name, "state", "code", "")); l.State != mailbox.Done {
				t.Errorf("got %+v", l)
			}
		}
		if got := w.config("me"); got != `{"host":"mx.example.org","mailbox":"A","oauth":{"secret":"mail-me"},"smtp":{"host":"out.example.org"},"user":"me"}` {
			t.Errorf("got %s", got)
		}
		if got := w.stored["mail-me"]; got != "login.example:443 mx.example.org out.example.org|refresh-token" {
			t.Errorf("got %s", got)
		}
		if there, err := w.registry.Get(w.Context(), "me"); err != nil || there.State.Place == circulate.Parked || there.Account.Cadence != "every 5m" {
			t.Errorf("got %+v, %v", there, err)
		}
		if got := fmt.Sprint(w.noted); got != "[me true]" {
			t.Errorf("noted %s", got)
		}
	})
}

// A process that dies, or that cannot store the secret, leaves a sign-in that the next step goes on
// with: the provider gives a grant only once.
func TestStoringFails(t *testing.T) {
	run(t, func(w *world) {
		l := w.must(w.begin(request("me", "browser")))
		w.locked(func() { w.came, w.store = granted, errors.New("redis is away") })
		if _, err := w.desk().Complete(w.Context(), w.registry, l.Name, "state", "code", ""); err == nil || w.config("me") != "" {
			t.Errorf("got %v, %s", err, w.config("me"))
		}
		w.locked(func() { w.came, w.store, w.fails = nil, nil, errors.New("the code was used") })
		if l := w.must(w.desk().Follow(w.Context(), w.registry, l.Name, 0)); l.State != mailbox.Done || w.config("me") == "" {
			t.Errorf("got %+v", l)
		}
	})
}

// Nothing remains of a sign-in that was refused, abandoned or that took too long, and a secret that
// is not the account's stays.
func TestNothingRemains(t *testing.T) {
	run(t, func(w *world) {
		refused := w.must(w.begin(request("a", "browser")))
		if l := w.must(w.desk().Complete(w.Context(), w.registry, refused.Name, "state", "", "")); l.State != mailbox.Refused {
			t.Errorf("got %+v", l)
		}
		abandoned := w.must(w.begin(request("b", "devices")))
		if err := w.desk().Abandon(w.Context(), abandoned.Name); err != nil {
			t.Fatal(err)
		}
		late := w.must(w.begin(request("c", "devices")))
		w.locked(func() { w.stored["mail-d"] = "another's" })
		if _, err := w.begin(request("d", "devices")); !errors.Is(err, mailbox.ErrTaken) {
			t.Errorf("a secret of somebody else: %v", err)
		}
		taken := w.must(w.begin(request("e", "devices")))
		w.locked(func() { w.stored["mail-e"], w.came = "another's", granted })
		if _, err := w.desk().Follow(w.Context(), w.registry, taken.Name, 10*time.Second); !errors.Is(err, mailbox.ErrTaken) {
			t.Errorf("a secret that came meanwhile: %v", err)
		}
		time.Sleep(login.Life)
		for _, l := range []*mailbox.Login{abandoned, late} {
			if _, err := w.desk().Follow(w.Context(), w.registry, l.Name, time.Second); !errors.Is(err, login.ErrNone) {
				t.Errorf("%s: got %v", l.Account, err)
			}
		}
		for _, id := range []string{"a", "b", "c", "d", "e"} {
			if got := w.config(id); got != "" {
				t.Errorf("%s is registered: %s", id, got)
			}
		}
		if w.stored["mail-d"] != "another's" || w.stored["mail-e"] != "another's" || len(w.stored) != 2 {
			t.Errorf("stored: %v", w.stored)
		}
	})
}

// Everything that is wrong with a request is said at once, before the provider is asked.
func TestRequestsThatAreWrong(t *testing.T) {
	run(t, func(w *world) {
		if _, err := w.registry.Create(w.Context(), accounts.Account{ID: "news", Kind: "feed", Cadence: "every 60s"}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.begin(request("news", "devices")); !errors.Is(err, login.ErrKind) {
			t.Errorf("another kind: %v", err)
		}
		r := request("me", "gogle")
		r.User, r.Redirect = "", "http://rounds.example/"
		_, err := w.begin(r)
		for _, want := range []string{"provider: must be one of ours", "user: missing", "redirect_uri: must be an https URL"} {
			if !strings.Contains(fmt.Sprint(err), want) {
				t.Errorf("no %q in %v", want, err)
			}
		}
		r = request("me", "browser")
		for redirect, ok := range map[string]bool{
			"": false, "https://rounds.example/account/mail/back": true, "http://127.0.0.1:8765/": true, "http://[::1]:1/": true, "http://localhost:1/": true,
			"http://127.0.0.1.evil.example/": false, "javascript:alert(1)": false, "https://a@b/": false, "https://a/#b": false, "/": false, "http://10.0.0.1/": false,
		} {
			r.Redirect = redirect
			if _, err := w.begin(r); ok != (err == nil) || !ok && !strings.Contains(err.Error(), "redirect_uri: ") {
				t.Errorf("%q: got %v", redirect, err)
			}
		}
	})
}
