package feed

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/poller/secrets"
	"github.com/rounds-dev/rounds/testing/checktest"
)

// network is a Transport that hands requests to a handler.
type network http.HandlerFunc

func (n network) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	n(w, r)
	answer := w.Result()
	answer.Request = r
	return answer, nil
}

// A host name that only looks like another one, or becomes it in lower case, gets no secret that is
// bound to the other, whether a config or a redirect names it.
func TestOneLetterLeadsNoSecretAway(t *testing.T) {
	var mu sync.Mutex
	got := make(map[string]string) // host as it is dialled -> the secret that came with a request
	client := checktest.Client(t, fetch.Options{Transport: network(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		got[r.URL.Host] = r.Header.Get("X-Token")
		mu.Unlock()
		switch r.URL.Path {
		case "/1":
			w.Header().Set("Location", "https://api.g\u0130thub.test/there")
			w.WriteHeader(http.StatusFound)
		case "/2":
			w.Header().Set("Location", "https://ap\u0131.github.test/there")
			w.WriteHeader(http.StatusFound)
		default:
			_, _ = w.Write([]byte(rss(guids("a")...)))
		}
	})})
	values := map[string]string{"ROUNDS_SECRET_PASS": password, "ROUNDS_SECRET_TOKEN": password,
		secrets.BindingEnvPrefix + "PASS": "hosts=api.github.test", secrets.BindingEnvPrefix + "TOKEN": "hosts=api.github.test"}
	checker := New(client, secrets.Source{Lookup: func(name string) (string, bool) { v, ok := values[name]; return v, ok }})
	check := func(url string) error {
		_, err := checker.Check(t.Context(), poller.Request{Config: private(url), Trial: true})
		return err
	}
	for _, path := range []string{"/1", "/2"} {
		if err := check("https://api.github.test" + path); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	for _, host := range []string{"api.g\u0130thub.test", "api.gi\u0307thub.test", "ap\u0131.github.test", "api.github.test.\u0130"} {
		if err := check("https://" + host + "/"); err == nil || !strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", host, err)
		}
	}
	if got["api.github.test"] != password {
		t.Errorf("the host itself got %q", got)
	}
	delete(got, "api.github.test")
	if len(got) == 0 {
		t.Error("no redirect was followed: the test shows nothing")
	}
	for host, secret := range got {
		if secret != "" || !strings.HasPrefix(host, "api.xn--") && !strings.HasPrefix(host, "xn--") {
			t.Errorf("%q got %q", host, secret)
		}
	}
}
