package secrets

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rounds-dev/rounds/accounts/secret"
	"github.com/rounds-dev/rounds/poller"
)

// place has a directory and an environment.
type place struct {
	*testing.T
	dir string
	env map[string]string
}

func newPlace(t *testing.T, files map[string]string, env map[string]string) *place {
	t.Helper()
	p := &place{t, t.TempDir(), env}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(p.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

func (p *place) source() Source {
	return Source{Dir: p.dir, Lookup: func(name string) (string, bool) { v, ok := p.env[name]; return v, ok }}
}

const hunter = "hunter2-hunter2"

func TestBindingsHold(t *testing.T) {
	p := newPlace(t, map[string]string{
		"FILE": hunter, "FILE.binding": "hosts=api.example.com,*.qq.com kinds=http\n",
		"BOTH": hunter, "BOTH.binding": "hosts=api.example.com,b.example",
		"TYPO": hunter, "TYPO.binding": "host=api.example.com",
		"BLANK": hunter, "BLANK.binding": "\n",
		"FREE": hunter, "KIND": hunter, "KIND.binding": "kinds=imap",
	}, map[string]string{
		"ROUNDS_SECRET_ENV": hunter, "ROUNDS_BINDING_ENV": "kinds=imap hosts=mail.example.com:993",
		"ROUNDS_BINDING_BOTH": "hosts=api.example.com,c.example",
	})
	for _, c := range []struct {
		name, kind, url string
		ok              bool
	}{
		{"FILE", "http", "https://api.example.com/a?b", true},
		{"FILE", "http", "https://API.example.com.:8443/", true},
		{"FILE", "http", "https://a.b.qq.com/", true},
		{"FILE", "http", "https://evil.example/", false},
		{"FILE", "http", "https://api.example.com.evil.example/", false},
		{"FILE", "http", "https://api.example.com@evil.example/", false},
		{"FILE", "http", "https://evil.example/#api.example.com", false},
		{"FILE", "feed", "https://api.example.com/", false},
		{"FILE", "", "https://api.example.com/", false},
		{"FILE", "http", "://", false},
		{"BOTH", "http", "https://api.example.com/", true},
		{"BOTH", "http", "https://b.example/", false},
		{"BOTH", "http", "https://c.example/", false},
		{"TYPO", "http", "https://api.example.com/", false},
		{"BLANK", "http", "https://api.example.com/", false},
		{"ENV", "imap", "https://mail.example.com:993/", true},
		{"ENV", "imap", "https://mail.example.com:143/", false},
		{"ENV", "http", "https://mail.example.com:993/", false},
		{"FREE", "http", "https://anywhere.example/", true},
		{"KIND", "imap", "https://anywhere.example/", true},
	} {
		got, err := p.source().Get(t.Context(), c.name, ForURL(c.kind, c.url))
		if c.ok != (err == nil) || c.ok && got != hunter || !c.ok && (got != "" || !errors.Is(err, ErrRefused) || strings.Contains(err.Error(), hunter)) {
			t.Errorf("%+v: got %q, %v", c, got, err)
		}
	}
	wary := p.source()
	wary.RequireHosts = true
	for name, ok := range map[string]bool{"FILE": true, "FREE": false, "KIND": false} {
		use := Use{Kind: "http", Host: "api.example.com", TLS: true}
		if _, err := wary.Get(t.Context(), name, use); ok != (err == nil) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// A change counts at the next use.
	if err := os.WriteFile(filepath.Join(p.dir, "FREE.binding"), []byte("hosts=b.example"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := p.source().Get(t.Context(), "FREE", ForURL("http", "https://anywhere.example/")); !errors.Is(err, ErrRefused) {
		t.Errorf("a new binding: %v", err)
	}
}

func TestSecretsGoOverTLS(t *testing.T) {
	p := newPlace(t, map[string]string{"FREE": hunter, "BOUND": hunter, "BOUND.binding": "hosts=connector,*.internal"}, nil)
	source := p.source()
	source.PlainHosts, _ = secret.Hosts("10.1.0.7:9000,*.lan")
	for _, c := range []struct {
		name string
		use  Use
		ok   bool
	}{
		{"FREE", ForURL("http", "http://api.example.com/"), false},
		{"FREE", ForURL("http", "https://api.example.com/"), true},
		{"FREE", ForURL("http", "http://api.example.com/").Staying(), true},
		{"FREE", ForURL("http", "http://127.0.0.1:9000/"), true},
		{"FREE", ForURL("http", "http://[::1]:9000/"), true},
		{"FREE", ForURL("http", "http://LOCALHOST:9000/"), true},
		{"FREE", ForURL("http", "http://localhost.evil.example/"), false},
		{"FREE", ForURL("http", "http://127.0.0.1.evil.example/"), false},
		{"FREE", ForURL("http", "http://connector:9000/"), false},
		{"FREE", ForURL("http", "http://10.1.0.7:9000/"), true},
		{"FREE", ForURL("http", "http://10.1.0.7:9001/"), false},
		{"FREE", ForURL("http", "http://a.lan/"), true},
		{"FREE", Use{Kind: "imap", Host: "mail.example.com:143"}, false},
		{"FREE", Use{Kind: "callback", Stays: true}, true},
		{"FREE", Use{Kind: "http", TLS: true}, false},
		{"BOUND", ForURL("http", "http://connector:9000/"), true},
		{"BOUND", ForURL("http", "http://a.internal/"), false}, // a pattern does not name it
		{"BOUND", ForURL("http", "http://127.0.0.1:9000/"), false},
		{"BOUND", Use{Kind: "callback", Stays: true}, false},
	} {
		if got, err := source.Get(t.Context(), c.name, c.use); c.ok != (err == nil) || c.ok != (got == hunter) {
			t.Errorf("%s for %+v: got %q, %v", c.name, c.use, got, err)
		}
	}
}

// Records cannot name the service's own secrets, and the service does not find secrets that
// records can name.
func TestServiceSecretsAreApart(t *testing.T) {
	p := newPlace(t, map[string]string{"service.AES": hunter, "service.AES.binding": "kinds=callback", "OLD": hunter, "api-token": hunter, "free": hunter},
		map[string]string{"ROUNDS_SERVICE_SECRET_CRM": hunter, "ROUNDS_SERVICE_BINDING_CRM": "hosts=crm.example", "ROUNDS_SECRET_OLD2": hunter})
	source := p.source()
	source.Reserved = []string{filepath.Join(p.dir, "api-token"), filepath.Join(p.dir, "none")}
	records := ForURL("http", "https://crm.example/")
	for _, name := range []string{"AES", "CRM", "service.AES", "SERVICE_CRM", "../service.AES", "AES.binding", "service.AES.binding"} {
		if _, err := source.Get(t.Context(), name, records); !errors.Is(err, ErrNotFound) && !errors.Is(err, ErrName) {
			t.Errorf("a record named %s: %v", name, err)
		}
	}
	if _, err := source.Get(t.Context(), "api-token", records); !errors.Is(err, ErrRefused) {
		t.Errorf("a record named a setting's file: %v", err)
	}
	if _, err := source.Get(t.Context(), "free", records); err != nil {
		t.Error(err)
	}
	own := source.Service()
	own.RequireHosts = true // a rule for records only
	for _, c := range []struct {
		name string
		use  Use
		err  error
	}{
		{"AES", Use{Kind: KindCallback, Stays: true}, nil},
		{"AES", ForURL(KindWebhook, "https://crm.example"), ErrRefused},
		{"CRM", ForURL(KindWebhook, "https://crm.example"), nil},
		{"CRM", ForURL(KindWebhook, "https://evil.example"), ErrRefused},
		{"OLD", Use{Kind: KindCallback, Stays: true}, ErrMisplaced},
		{"OLD2", Use{Kind: KindCallback, Stays: true}, ErrMisplaced},
		{"NONE", Use{Kind: KindCallback, Stays: true}, ErrNotFound},
		{"OLD", Use{Kind: KindCallback, Stays: true}, ErrNotFound},
	} {
		if got, err := own.Get(t.Context(), c.name, c.use); !errors.Is(err, c.err) || (err == nil) != (got == hunter) {
			t.Errorf("%+v: got %q, %v", c, got, err)
		}
	}
}

// shelf is a Store.
type shelf struct {
	value string
	b     secret.Binding
	err   error
}

func (s shelf) Get(context.Context, string) (string, secret.Binding, error) {
	return s.value, s.b, s.err
}

func TestStoreComesLast(t *testing.T) {
	p := newPlace(t, map[string]string{"FILE": "file", "X.binding": "hosts=a.example,b.example"}, map[string]string{"ROUNDS_SECRET_FILE": "env", "ROUNDS_SECRET_ENV": "env"})
	source, use := p.source(), ForURL("http", "https://a.example/")
	source.Store = shelf{value: "store", b: secret.Binding{Hosts: []string{"a.example"}}}
	for name, want := range map[string]string{"FILE": "file", "ENV": "env", "X": "store"} {
		if got, err := source.Get(t.Context(), name, use); got != want || err != nil {
			t.Errorf("%s: got %q, %v", name, got, err)
		}
	}
	if _, err := source.Get(t.Context(), "X", ForURL("http", "https://b.example/")); !errors.Is(err, ErrRefused) {
		t.Errorf("both bindings hold: %v", err)
	}
	for _, want := range []error{ErrUnavailable, ErrNotFound} {
		source.Store = shelf{err: want}
		if _, err := source.Get(t.Context(), "X", use); !errors.Is(err, want) {
			t.Errorf("got %v, want %v", err, want)
		}
	}
}

func TestCheckErrors(t *testing.T) {
	for err, want := range map[error]poller.CheckError{
		errUnbound:     {Scope: poller.ScopeAccount, Code: "secret_refused"},
		ErrUnavailable: {Scope: poller.ScopeEgress, Code: "secret_store"},
		ErrNotFound:    {Scope: poller.ScopeChecker, Code: "secret"},
	} {
		if got := CheckError(err); got.Kind != poller.Transient || got.Scope != want.Scope || got.Code != want.Code {
			t.Errorf("%v: got %+v", err, got)
		}
	}
}
