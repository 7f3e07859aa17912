package checktest

import (
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/poller/secrets"
)

// lent returns a source with the checker's secrets, all bound to a host.
func (h HTTP) lent(host string) secrets.Source {
	return secrets.Source{Lookup: func(name string) (string, bool) {
		switch {
		case strings.HasPrefix(name, secrets.BindingEnvPrefix):
			return "hosts=" + host, true
		case h.Values != nil:
			return h.Values(name)
		}
		return h.Secret, strings.HasPrefix(name, secrets.EnvPrefix)
	}}
}

// witness is a server that answers nothing useful, and notes requests that have the secret in them.
type witness struct {
	secrets []string
	mu      sync.Mutex
	saw     bool // there was such a request
}

func (w *witness) ServeHTTP(answer http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	text := r.URL.String() + " " + string(body)
	for _, values := range r.Header {
		text += " " + strings.Join(values, " ")
	}
	for _, secret := range w.secrets {
		if secret != "" && strings.Contains(text, secret) {
			w.mu.Lock()
			w.saw = true
			w.mu.Unlock()
			break
		}
	}
	answer.WriteHeader(http.StatusServiceUnavailable)
}

func (w *witness) sawSecret() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.saw
}

// secretsGoWhereTheyMay checks that a secret is used for the host where the call goes, and that a
// call which sends it without TLS is confined to private addresses.
func (h HTTP) secretsGoWhereTheyMay(t *testing.T) {
	if h.WithSecrets == nil {
		t.Fatal("HTTP.WithSecrets is missing: a checker that sends a Secret must have it")
	}
	check := func(client *fetch.Client, host, address string) (refused bool, err error) {
		_, err = h.WithSecrets(client, h.lent(host)).Check(t.Context(), h.request(address))
		notNil(t, err)
		var failed *poller.CheckError
		return errors.Is(err, secrets.ErrRefused) || errors.As(err, &failed) && failed.Code == "secret_refused", err
	}

	there := &witness{secrets: Echoes(h.Secret)}
	address := serve(t, there.ServeHTTP)
	host, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	client := Client(t, fetch.Options{})
	if refused, err := check(client, secrets.HostOf(host), address); refused || !there.sawSecret() {
		t.Errorf("a secret that is bound to the host of the call does not get there: its use must name that host, as secrets.ForURL does: %v", err)
	}
	elsewhere := &witness{secrets: Echoes(h.Secret)}
	if refused, err := check(client, "other.example:443", serve(t, elsewhere.ServeHTTP)); !refused || elsewhere.sawSecret() {
		t.Errorf("a secret that is bound to another host is sent or its use is not refused: its use must name the host of the call, as secrets.ForURL does: %v", err)
	}

	// The proxy stands for the public internet, where a confined call does not go.
	public := &witness{secrets: Echoes(h.Secret)}
	outside := fetch.New(fetch.Options{Proxy: serve(t, public.ServeHTTP)})
	t.Cleanup(outside.Close)
	if _, err := check(outside, "party.example:80", "http://party.example:80"); err == nil || public.sawSecret() {
		t.Errorf("a secret goes over the public internet without TLS: the call must be Confined if secrets.Use.Open says so: %v", err)
	}
}
