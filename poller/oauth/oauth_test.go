package oauth

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/rounds-dev/rounds/accounts/secret"
	"github.com/rounds-dev/rounds/circulate/credential"
	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/poller/secrets"
	"github.com/rounds-dev/rounds/poller/token"
	"github.com/rounds-dev/rounds/testing/oidctest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const kind = "imap"

// vault is a secrets.ChangingStore in memory, with one secret.
type vault struct {
	mu       sync.Mutex
	value    string
	hosts    []string
	revision int
	copied   string                                // what Get returns, as a copy of some seconds ago; empty: the value
	change   func(write func() bool) (bool, error) // nil: write it
}

func (v *vault) Get(context.Context, string) (string, secret.Binding, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return cmp.Or(v.copied, v.value), secret.Binding{Hosts: v.hosts}, nil
}

func (v *vault) put(g Grant) {
	text, err := g.Text()
	if err != nil {
		panic(err)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.value = text
	v.revision++
}

// onChange has changes done in another way; nil: they are written.
func (v *vault) onChange(change func(write func() bool) (bool, error)) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.change = change
}

// stored returns the refresh token that is stored.
func (v *vault) stored(t *testing.T) string {
	t.Helper()
	value, _, _ := v.Get(t.Context(), "")
	g, err := parseGrant(value)
	if err != nil {
		t.Fatal(err)
	}
	return g.Refresh
}

// world is a number of replicas that share a mailbox' sign-in, without a network.
type world struct {
	*testing.T
	provider *oidctest.Provider
	vault    *vault
	memory   token.Store
	source   secrets.Source
	replicas []*Tokens
}

const mailHost = "imap.example.com:993"

func newWorld(t *testing.T, provider *oidctest.Provider, store token.Store) *world {
	w := &world{T: t, provider: provider, vault: &vault{}, memory: store}
	w.vault.hosts = []string{mailHost, strings.TrimPrefix(provider.URL, "http://")}
	w.source = sourceOf(provider, &fake{w.vault})
	for range 3 {
		w.replicas = append(w.replicas, w.replica())
	}
	w.signIn()
	return w
}

func (w *world) replica() *Tokens {
	client := NewClient(kind, fetch.New(fetch.Options{Transport: w.provider, AllowPrivate: true}), w.source)
	return NewTokens(client, w.source, w.memory)
}

func (w *world) signIn() {
	w.vault.put(Grant{Provider: w.provider.URL, ClientID: oidctest.ClientID, Refresh: w.provider.Grant(), Key: fmt.Sprint("key ", time.Now().UnixNano())})
}

// sourceOf returns a source with this service's registration and a store.
func sourceOf(provider *oidctest.Provider, store secrets.Store) secrets.Source {
	registration, _ := json.Marshal(registration{ClientID: oidctest.ClientID, ClientSecret: oidctest.ClientSecret, Issuer: provider.URL})
	return secrets.Source{Store: store, Lookup: func(name string) (string, bool) {
		return string(registration), name == secrets.ServiceEnvPrefix+ClientName(provider.URL)
	}}
}

// token gets the account's token at a replica.
func (w *world) token(n int) (*Access, *poller.CheckError) {
	ctx, cancel := context.WithTimeout(w.Context(), 30*time.Second)
	defer cancel()
	a, failed := w.replicas[n].Token(ctx, "anna", "MAIL", secrets.Use{Kind: kind, Host: mailHost, TLS: true}, nil)
	if failed != nil {
		for _, hidden := range []string{oidctest.ClientSecret, w.vault.stored(w.T)} {
			if strings.Contains(failed.Error(), hidden) {
				w.Errorf("%v tells %q", failed, hidden)
			}
		}
	}
	return a, failed
}

func TestOneReplicaRefreshesForAll(t *testing.T) {
	provider := oidctest.Start(t)
	provider.Offline(oidctest.Offline{Rotates: true, Forgets: true})
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, provider, token.NewMemory())
		for range 24 * 6 {
			var all sync.WaitGroup
			for n := range 30 {
				all.Go(func() {
					if _, failed := w.token(n % 3); failed != nil {
						t.Errorf("got %v", failed)
					}
				})
			}
			all.Wait()
			time.Sleep(10 * time.Minute)
		}
		if n := provider.Issued(); n < 24 || n > 48 {
			t.Errorf("a day took %d access tokens of an hour", n)
		}
	})
}

// dying is a token.Store of a process that dies when it settles.
type dying struct {
	token.Store
	dead atomic.Bool
}

func (d *dying) Settle(ctx context.Context, ref credential.Ref, fence int64, s credential.Settlement) (bool, error) {
	if d.dead.Load() {
		runtime.Goexit()
	}
	return d.Store.Settle(ctx, ref, fence, s)
}

// A process that dies at any step of a refresh leaves a mailbox that the others go on with, except
// if the provider has answered and forgets the old refresh token.
func TestDyingWhileRefreshing(t *testing.T) {
	for name, c := range map[string]struct {
		die     func(*world, *dying)
		keeps   bool // the provider leaves the old refresh token valid
		lost    bool
		refresh int // how often the provider issued tokens
	}{
		"before the provider's answer": {
			die: func(w *world, _ *dying) {
				w.provider.Fault("/token", func(http.ResponseWriter, *http.Request) { runtime.Goexit() })
			},
			refresh: 1,
		},
		"before it is stored, at a provider that forgets": {
			die: func(w *world, _ *dying) {
				w.vault.change = func(func() bool) (bool, error) { runtime.Goexit(); return false, nil }
			},
			lost: true, refresh: 1,
		},
		"before it is stored, at a provider that does not": {
			die: func(w *world, _ *dying) {
				w.vault.change = func(func() bool) (bool, error) { runtime.Goexit(); return false, nil }
			},
			keeps: true, refresh: 2,
		},
		"after it is stored": {
			die: func(w *world, _ *dying) {
				w.vault.onChange(func(write func() bool) (bool, error) { write(); runtime.Goexit(); return false, nil })
			},
			refresh: 2,
		},
		"before the access token is shared": {
			die:     func(_ *world, d *dying) { d.dead.Store(true) },
			refresh: 2,
		},
	} {
		t.Run(name, func(t *testing.T) {
			provider := oidctest.Start(t)
			provider.Offline(oidctest.Offline{Rotates: true, Forgets: true, Keeps: c.keeps})
			synctest.Test(t, func(t *testing.T) {
				store := &dying{Store: token.NewMemory()}
				w := newWorld(t, provider, store)
				c.die(w, store)
				if a, failed := w.token(0); failed == nil || failed.Code != "timeout" {
					t.Fatalf("the dying process: got %v, %v", a, failed)
				}
				provider.Fault("/token", nil)
				w.vault.onChange(nil)
				store.dead.Store(false)
				time.Sleep(token.Lease)
				_, failed := w.token(1)
				if c.lost {
					if failed == nil || failed.Kind != poller.AuthFailed || !failed.Final || failed.Code != "oauth_invalid_grant" {
						t.Errorf("got %v", failed)
					}
					w.signIn()
					_, failed = w.token(1)
				}
				if failed != nil {
					t.Errorf("the next process: %v", failed)
				}
				if !c.lost && provider.Issued() != c.refresh {
					t.Errorf("%d access tokens were issued", provider.Issued())
				}
				if !provider.Valid(w.vault.stored(t)) {
					t.Error("the stored refresh token is not valid")
				}
			})
		})
	}
}

// The rotated refresh token is stored although the outcome of the first try is unknown, or somebody
// has sealed the secret anew meanwhile. Before that, nobody gets the access token.
func TestStoringARotatedToken(t *testing.T) {
	provider := oidctest.Start(t)
	provider.Offline(oidctest.Offline{Rotates: true, Forgets: true})
	cut := errors.New("cut")
	for name, c := range map[string]struct {
		change func(w *world, try int, write func() bool) (bool, error)
		code   string
	}{
		"written, and the reply lost": {change: func(_ *world, try int, write func() bool) (bool, error) { write(); return false, cut }},
		"not written at first": {change: func(_ *world, try int, write func() bool) (bool, error) {
			if try < 3 {
				return false, cut
			}
			return write(), nil
		}},
		"sealed anew": {change: func(w *world, try int, write func() bool) (bool, error) {
			if try == 0 {
				w.vault.revision++
				return false, nil
			}
			return write(), nil
		}},
		"never written": {change: func(*world, int, func() bool) (bool, error) { return false, cut }, code: "oauth_store"},
		"signed in anew": {change: func(w *world, _ int, _ func() bool) (bool, error) {
			w.vault.mu.Unlock()
			w.signIn()
			w.vault.mu.Lock()
			return false, nil
		}, code: "oauth_changed"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, provider, token.NewMemory())
				try := -1
				w.vault.onChange(func(write func() bool) (bool, error) { try++; return c.change(w, try, write) })
				_, failed := w.token(0)
				switch {
				case c.code == "" && failed != nil:
					t.Errorf("got %v", failed)
				case c.code != "" && (failed == nil || failed.Code != c.code || failed.Kind != poller.Transient):
					t.Errorf("got %v, want %s", failed, c.code)
				case c.code == "" && !provider.Valid(w.vault.stored(t)):
					t.Error("the stored refresh token is not valid")
				}
			})
		})
	}
}

// A refused sign-in is not tried again for an hour, except after somebody signed in anew.
func TestRefusedSignIn(t *testing.T) {
	provider := oidctest.Start(t)
	provider.Offline(oidctest.Offline{Rotates: true})
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, provider, token.NewMemory())
		provider.Revoke(false)
		before := provider.Asked("/token")
		for n := range 3 {
			if _, failed := w.token(n); failed == nil || failed.Kind != poller.AuthFailed || !failed.Final || failed.Scope != poller.ScopeAccount || !strings.Contains(failed.Message, "sign in again") {
				t.Errorf("got %+v", failed)
			}
			time.Sleep(15 * time.Minute)
		}
		if n := provider.Asked("/token") - before; n != 1 {
			t.Errorf("the provider was asked %d times", n)
		}
		w.vault.copied = w.vault.value
		w.signIn()
		if _, failed := w.token(0); failed != nil {
			t.Errorf("signed in again, with an older copy: %v", failed)
		}
		w.vault.copied = ""
		if _, failed := w.token(0); failed != nil {
			t.Errorf("signed in again: %v", failed)
		}
	})
}

// What a provider answers, and what it means.
func TestAnswersOfAProvider(t *testing.T) {
	provider := oidctest.Start(t)
	answer := func(status int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Retry-After", "120")
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body))
		}
	}
	for name, c := range map[string]struct {
		status int
		body   string
		kind   poller.ErrorKind
		scope  poller.ErrorScope
		code   string
	}{
		"client":     {401, `{"error":"invalid_client"}`, poller.Transient, poller.ScopeChecker, "oauth_invalid_client"},
		"consent":    {400, `{"error":"interaction_required"}`, poller.AuthFailed, poller.ScopeAccount, "oauth_interaction_required"},
		"down":       {503, `{}`, poller.Transient, poller.ScopeRateKey, "http_503"},
		"throttled":  {429, `{"error":"invalid_grant"}`, poller.RateLimited, poller.ScopeRateKey, "http_429"},
		"strange":    {400, `{"error":"Y29ycmVjdA"}`, poller.Transient, poller.ScopeRateKey, "oauth_error"},
		"no JSON":    {200, `<html>`, poller.Protocol, poller.ScopeRateKey, "protocol"},
		"no token":   {200, `{"expires_in":3600}`, poller.Protocol, poller.ScopeRateKey, "protocol"},
		"two lines":  {200, `{"access_token":"a\nb","token_type":"Bearer"}`, poller.Protocol, poller.ScopeRateKey, "protocol"},
		"other type": {200, `{"access_token":"a","token_type":"mac"}`, poller.Protocol, poller.ScopeRateKey, "protocol"},
		"too long":   {200, `{"access_token":"` + strings.Repeat("a", maxAccess+1) + `"}`, poller.Protocol, poller.ScopeRateKey, "protocol"},
		"far too":    {200, `{"access_token":"` + strings.Repeat("a", maxAnswer) + `"}`, poller.Protocol, poller.ScopeRateKey, "too_large"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				provider.Offline(oidctest.Offline{})
				provider.Fault("/token", nil)
				w := newWorld(t, provider, token.NewMemory())
				provider.Fault("/token", answer(c.status, c.body))
				for n := range 2 { // the second replica knows it from the first
					_, failed := w.token(n)
					if failed == nil || n == 0 && (failed.Code != c.code || failed.Scope != c.scope || failed.Kind != c.kind) {
						t.Errorf("got %+v", failed)
					}
				}
				if c.status == 429 {
					if _, failed := w.token(1); failed == nil || failed.Kind != poller.RateLimited || failed.RetryAfter < 100*time.Second {
						t.Errorf("got %+v", failed)
					}
				}
			})
		})
	}
}

// A sign-in goes nowhere else than its binding says, neither to a provider nor to a mail server.
func TestBindingsOfASignIn(t *testing.T) {
	provider := oidctest.Start(t)
	provider.Offline(oidctest.Offline{})
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, provider, token.NewMemory())
		w.vault.hosts = []string{mailHost}
		if _, failed := w.token(0); failed == nil || failed.Code != "secret_refused" {
			t.Errorf("another provider: %v", failed)
		}
		w.vault.hosts = []string{strings.TrimPrefix(provider.URL, "http://")}
		if _, failed := w.token(1); failed == nil || failed.Code != "secret_refused" {
			t.Errorf("another mail server: %v", failed)
		}
		if n := provider.Asked("/token"); n != 0 {
			t.Errorf("the provider was asked %d times", n)
		}
	})
}

// Ten thousand mailboxes that all need a token at once get it one after the other, and are not
// together again later.
func TestTenThousandMailboxes(t *testing.T) {
	const mailboxes, life = 10_000, time.Hour
	var p paces
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	due := make([]time.Time, mailboxes)
	for i := range due {
		due[i] = start
	}
	perSecond := make(map[int64]int)
	queue := make(map[int64][]int) // tenths of a second -> who comes then
	tenth := func(at time.Time) int64 { return (at.Sub(start) + 99*time.Millisecond).Milliseconds() / 100 }
	for i := range due {
		queue[0] = append(queue[0], i)
	}
	last := int64(0) // when the last mailbox had its first token
	had := make([]bool, mailboxes)
	for now := range int64(4 * 60 * 60 * 10) {
		for _, i := range queue[now] {
			at := start.Add(time.Duration(now) * 100 * time.Millisecond)
			wait, ok := p.turn("provider", at)
			if !ok {
				queue[tenth(at.Add(wait))] = append(queue[tenth(at.Add(wait))], i)
				continue
			}
			if !had[i] {
				had[i], last = true, now
			}
			at = at.Add(wait)
			perSecond[at.Sub(start).Milliseconds()/1000]++
			_, next := lifeOf(fmt.Sprint("account ", i), life)
			queue[tenth(at.Add(next))] = append(queue[tenth(at.Add(next))], i)
		}
		delete(queue, now)
	}
	most := 0
	for _, n := range perSecond {
		most = max(most, n)
	}
	if rate := int(time.Second / paceEvery); most > rate+paceBurst {
		t.Errorf("%d requests in a second", most)
	}
	if took := time.Duration(last) * 100 * time.Millisecond; took > mailboxes*paceEvery+time.Minute {
		t.Errorf("the last one had its token after %v", took)
	}
	for i, ok := range had {
		if !ok {
			t.Fatalf("mailbox %d had no token", i)
		}
	}
	for life := range map[time.Duration]bool{time.Minute: true, time.Hour: true, 24 * time.Hour: true} {
		for i := range 100 {
			if use, next := lifeOf(fmt.Sprint(i), life); next < use/2 || next > use || use > life {
				t.Fatalf("%v: used for %v, replaced after %v", life, use, next)
			}
		}
	}
	t.Logf("all have a token after %v; at most %d requests a second", time.Duration(last)*100*time.Millisecond, most)
}

// fake turns a vault into a secrets.ChangingStore. secrets.Seen has no public fields, so the vault
// compares the revision of the last Latest.
type fake struct{ *vault }

func (f *fake) Latest(context.Context, string) (string, secret.Binding, secrets.Seen, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.value, secret.Binding{Hosts: f.hosts}, secrets.Seen{}, nil
}

func (f *fake) Change(_ context.Context, _ secrets.Seen, value string) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	write := func() bool { f.value = value; f.revision++; return true }
	if f.change != nil {
		return f.change(write)
	}
	return write(), nil
}

// The names of registrations are names of secrets.
func TestClientNames(t *testing.T) {
	for provider, want := range map[string]string{
		Google: "MAIL_GOOGLE", Microsoft: "MAIL_MICROSOFT", "https://id.example.com/realms/a": "MAIL_ID_EXAMPLE_COM", "http://127.0.0.1:8080": "MAIL_127_0_0_1_8080",
	} {
		if got := ClientName(provider); got != want {
			t.Errorf("%s: got %s", provider, got)
		}
	}
	if got := ClientName("https://" + strings.Repeat("a.", 100) + "example"); secret.ValidateName(got) != nil {
		t.Errorf("got %s", got)
	}
}

// Operators see owners as a kind, a name and an address.
func TestOwners(t *testing.T) {
	for provider, want := range map[string]string{
		Google: "imap|google|https://accounts.google.com", Microsoft: "imap|microsoft|https://login.microsoftonline.com",
		"https://id.example.com/realms/a": "imap|id.example.com|https://id.example.com/realms/a",
	} {
		if got := ownerOf(kind, provider); got != want {
			t.Errorf("%s: got %s", provider, got)
		}
	}
}

// Begin, Poll and Exchange over a real connection.
func TestSigningIn(t *testing.T) {
	provider := oidctest.Start(t)
	client := fetch.New(fetch.Options{AllowPrivate: true})
	t.Cleanup(client.Close)
	newClient := func() *Client { return NewClient(kind, client, sourceOf(provider, &fake{&vault{}})) }

	t.Run("by a device code", func(t *testing.T) {
		provider.Offline(oidctest.Offline{Devices: true})
		c := newClient()
		p, err := c.Begin(t.Context(), provider.URL, "anna", "")
		if err != nil || p.UserCode == "" || p.Page != provider.URL+"/activate" || p.Interval != time.Second {
			t.Fatalf("got %+v, %v", p, err)
		}
		for _, reason := range []string{"authorization_pending", "slow_down"} {
			provider.Decide(reason)
			if g, slower, err := c.Poll(t.Context(), p); g != nil || err != nil || slower != (reason == "slow_down") {
				t.Errorf("%s: got %+v, %t, %v", reason, g, slower, err)
			}
		}
		provider.Decide("")
		g, _, err := c.Poll(t.Context(), p)
		if err != nil || !provider.Valid(g.Refresh) || g.Key == "" || len(g.Hosts) != 1 || "http://"+g.Hosts[0] != provider.URL {
			t.Fatalf("got %+v, %v", g, err)
		}
		for _, reason := range []string{"access_denied", "expired_token"} {
			if p, err = c.Begin(t.Context(), provider.URL, "", ""); err != nil {
				t.Fatal(err)
			}
			provider.Decide(reason)
			if g, _, err := c.Poll(t.Context(), p); g != nil || !errors.Is(err, ErrRefused) {
				t.Errorf("%s: got %+v, %v", reason, g, err)
			}
		}
	})

	t.Run("in a browser", func(t *testing.T) {
		provider.Offline(oidctest.Offline{})
		c := newClient()
		if _, err := c.Begin(t.Context(), provider.URL, "anna", ""); !errors.Is(err, ErrNoRedirect) {
			t.Errorf("without a redirect: %v", err)
		}
		const redirect = "http://127.0.0.1:1/back"
		p, err := c.Begin(t.Context(), provider.URL, "anna", redirect)
		if err != nil {
			t.Fatal(err)
		}
		browser := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
		t.Cleanup(browser.CloseIdleConnections)
		answer, err := browser.Get(p.Page)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		back, err := url.Parse(answer.Header.Get("Location"))
		if err != nil || !strings.HasPrefix(back.String(), redirect+"?") {
			t.Fatalf("got %v, %v", back, err)
		}
		q := back.Query()
		for _, wrong := range [][2]string{{"x", q.Get("iss")}, {q.Get("state"), "https://elsewhere.example"}, {"", ""}} {
			if _, err := c.Exchange(t.Context(), p, wrong[0], q.Get("code"), wrong[1]); !errors.Is(err, ErrState) {
				t.Errorf("%q: got %v", wrong, err)
			}
		}
		g, err := c.Exchange(t.Context(), p, q.Get("state"), q.Get("code"), q.Get("iss"))
		if err != nil || !provider.Valid(g.Refresh) {
			t.Fatalf("got %+v, %v", g, err)
		}
		if _, err := c.Exchange(t.Context(), p, q.Get("state"), q.Get("code"), q.Get("iss")); !errors.Is(err, ErrRefused) {
			t.Errorf("a code twice: %v", err)
		}
	})

	t.Run("faults", func(t *testing.T) {
		for registration, want := range map[string]string{
			`{"client_id":"a","issuer":"https://elsewhere.example"}`: "issuer: must be the provider's URL",
			`{"issuer":"` + provider.URL + `"}`:                      "client_id: missing",
			`a client's secret`:                                      "must be JSON",
		} {
			source := secrets.Source{Lookup: func(name string) (string, bool) {
				return registration, strings.HasPrefix(name, secrets.ServiceEnvPrefix)
			}}
			_, err := NewClient(kind, client, source).Begin(t.Context(), provider.URL, "", "")
			if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), ClientName(provider.URL)) {
				t.Errorf("%s: got %v", registration, err)
			}
		}
		for _, name := range []string{"", "gogle", "ftp://id.example.com", "https://id.example.com?a=b", "https://a:b@id.example.com"} {
			if _, err := newClient().Begin(t.Context(), name, "", ""); err == nil {
				t.Errorf("%q is no provider", name)
			}
		}
		strict := fetch.New(fetch.Options{})
		t.Cleanup(strict.Close)
		if _, err := NewClient(kind, strict, sourceOf(provider, nil)).Begin(t.Context(), provider.URL, "", ""); err == nil {
			t.Error("a private address is reached")
		}
	})
}
