package feed

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/poller/secrets"
	"github.com/rounds-dev/rounds/testing/checktest"
)

func TestLoginAndHeadersAreSent(t *testing.T) {
	s := newSite(t)
	s.body = rss(guids("a")...)
	checker := New(checktest.Client(t, fetch.Options{}), vault())
	if _, err := checker.Check(t.Context(), poller.Request{Config: private(s.url)}); err != nil {
		t.Fatal(err)
	}
	request := http.Request{Header: s.seen}
	if user, pass, ok := request.BasicAuth(); !ok || user != "me" || pass != password || s.seen.Get("X-Token") != "Bearer "+password || s.seen.Get("X-Plain") != "yes" || s.seen.Get("Accept") != accept {
		t.Errorf("sent %v", s.seen)
	}
}

// A login and headers belong to one host. They are not sent to another host or another port to
// which it redirects. They are sent on redirects within the host.
func TestLoginAndHeadersStayWithTheHost(t *testing.T) {
	other := newSite(t)
	other.body = rss(guids("a")...)
	var own http.Header
	first := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/feed":
			http.Redirect(w, r, "/here", http.StatusMovedPermanently)
		case "/here":
			own = r.Header.Clone()
			http.Redirect(w, r, other.url, http.StatusPermanentRedirect)
		}
	}))
	defer first.Close()
	checker := New(checktest.Client(t, fetch.Options{}), vault())
	if _, err := checker.Check(t.Context(), poller.Request{Config: private(first.URL + "/feed")}); err != nil {
		t.Fatal(err)
	}
	if own.Get("Authorization") == "" || own.Get("X-Token") == "" {
		t.Errorf("the host itself got %v", own)
	}
	for _, name := range []string{"Authorization", "X-Token", "X-Plain"} {
		if other.seen.Get(name) != "" {
			t.Errorf("another host got %s", name)
		}
	}
}

func TestLoginThatIsRefusedOrMissing(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }))
	defer server.Close()
	client := checktest.Client(t, fetch.Options{})
	for _, c := range []struct {
		checker *Checker
		request poller.Request
		kind    poller.ErrorKind
		text    string
	}{
		{New(client, vault()), poller.Request{Config: plain(server.URL)}, poller.AuthFailed, "auth: http_401: the host answered 401 Unauthorized: the feed needs a login: add a login or headers to the config"},
		{New(client, vault()), poller.Request{Config: private(server.URL)}, poller.AuthFailed, "auth: http_401: the host answered 401 Unauthorized: it refused the login or the headers of the config"},
		{New(client, secrets.Source{}), poller.Request{Config: private(server.URL)}, poller.Transient, "transient: secret: TOKEN: is neither a file of ROUNDS_SECRETS_DIR nor ROUNDS_SECRET_TOKEN"},
	} {
		_, err := c.checker.Check(t.Context(), c.request)
		if got := checktest.Failure(t, err); got.Kind != c.kind || got.Error() != c.text {
			t.Errorf("got %v", got)
		}
	}
}
