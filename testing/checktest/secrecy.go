package checktest

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/fetch"
)

func serve(t *testing.T, handler http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.URL
}

func (h HTTP) privateAddresses(t *testing.T) {
	checker := h.New(fetch.New(fetch.Options{}))
	for _, url := range []string{"http://127.0.0.1:1/", "http://[::1]:1/", "http://10.0.0.1/", "http://169.254.169.254/", "http://localhost/", "http://a.localhost:1/"} {
		if err := checker.Validate(h.Config(url)); err == nil {
			t.Errorf("%s: valid", url)
		}
	}
	server := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("a private address was reached") })
	// What was allowed when the account was registered may not be any more.
	changing := Client(t, fetch.Options{})
	changed := h.New(changing)
	changing.Permit(fetch.Networks{})
	_, err := changed.Check(t.Context(), h.request(server))
	if got := Failure(t, err); got.Code != string(fetch.CodeRefusedAddress) && got.Kind != poller.ConfigInvalid {
		t.Errorf("not allowed any more: %s", explain(got, "refused_address"))
	}
	// Whether redirects are followed or not, none may lead there.
	for _, target := range []string{strings.Replace(server, "127.0.0.1", "127.0.0.2", 1), "http://10.0.0.1/"} {
		hop := serve(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, target, http.StatusFound) })
		client := Client(t, fetch.Options{})
		_, err := h.New(client).Check(t.Context(), h.request(hop))
		if got := Failure(t, err); got.Code != string(fetch.CodeRefusedAddress) && got.Code != "http_302" {
			t.Errorf("redirect to %s: %s", target, explain(got, "refused_address or http_302"))
		}
	}
}

// explain says what came instead of a code, and why if the checker called nobody.
func explain(got *poller.CheckError, want string) string {
	text := fmt.Sprintf("got the code %s, want %s: %v", got.Code, want, got)
	if got.Code == "secret" {
		text += " (the checker's secret source does not know it: HTTP.New must give the checker a source that has the secrets of HTTP.Config)"
	}
	return text
}

// secretPath returns what is put behind a URL and must not be told: a path and a query, or only a
// path if the checker refuses the query before it calls anybody, as one does that puts its own paths
// behind the URL.
func (h HTTP) secretPath(t *testing.T) string {
	t.Helper()
	var last string
	for _, path := range []string{"/" + Hidden + "?token=" + Hidden, "/" + Hidden, ""} {
		var called atomic.Bool
		url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			called.Store(true)
			w.WriteHeader(http.StatusServiceUnavailable)
		})
		_, err := h.New(Client(t, fetch.Options{})).Check(t.Context(), h.request(url+path))
		tellsNothing(t, "behind the URL", err, append(Echoes(h.Secret), Echoes(Hidden)...))
		if called.Load() {
			return path
		}
		if err == nil {
			last = "there is no error"
		} else {
			last = explain(Failure(t, err), "http_503")
		}
	}
	t.Fatalf("no call was made: nothing was tested. Without a path, %s", last)
	return ""
}

// noSecretIsTold fails in every way there is. The URL's path and query are secret, as far as the
// checker takes them, and the other side repeats them wherever it can.
func (h HTTP) noSecretIsTold(t *testing.T) {
	echo := func(w http.ResponseWriter, r *http.Request, status int) {
		text := r.URL.String() + " " + Hidden
		for _, values := range r.Header {
			text += " " + strings.Join(values, " ")
		}
		text += " " + strings.Join(append(Echoes(h.Secret), Echoes(Hidden)...), " ")
		w.Header().Set("X-Echo", strings.ReplaceAll(text, "\n", " "))
		w.WriteHeader(status)
		_, _ = w.Write([]byte(text))
	}
	urls := map[string]string{
		"closed":  "http://127.0.0.1:1",
		"refused": "http://127.0.0.2:1",
		"timeout": serve(t, func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body) // only then does the server notice that the client is gone
			<-r.Context().Done()
		}),
		"reset":          serve(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }),
		"bad location":   serve(t, location("http://["+Hidden)),
		"login location": serve(t, location("http://"+Hidden+":"+Hidden+"@example.com/")),
		"far location":   serve(t, location("http://10.0.0.1/?q="+Hidden)),
		"file location":  serve(t, location("file:///"+Hidden)),
		"too large": serve(t, func(w http.ResponseWriter, _ *http.Request) {
			for range 10 << 20 / len(Hidden) {
				if _, err := w.Write([]byte(Hidden)); err != nil {
					return
				}
			}
		}),
		"not TLS": strings.Replace(serve(t, func(http.ResponseWriter, *http.Request) {}), "http:", "https:", 1),
	}
	for status := 200; status < 600; status++ {
		if http.StatusText(status) != "" && status != http.StatusNoContent {
			urls[strconv.Itoa(status)] = serve(t, func(w http.ResponseWriter, r *http.Request) { echo(w, r, status) })
		}
	}
	path := h.secretPath(t)
	for name, url := range urls {
		options := fetch.Options{Timeout: 10 * time.Second}
		if name == "timeout" {
			options.Timeout = 50 * time.Millisecond
		}
		checker := h.New(Client(t, options))
		_, err := checker.Check(t.Context(), h.request(url+path))
		if err == nil {
			t.Errorf("%s: no error", name)
		}
		tellsNothing(t, name, err, append(Echoes(h.Secret), Echoes(Hidden)...))
	}
}

func location(to string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", to)
		w.WriteHeader(http.StatusFound)
	}
}
