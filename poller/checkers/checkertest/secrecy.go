package checkertest

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/poller/checkers/fetch"
)

// hidden is what must appear in no error, beside Subject.Secret.
const hidden = "hush-hush"

func serve(t *testing.T, handler http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.URL
}

func (s Subject) privateAddresses(t *testing.T) {
	checker := s.New(fetch.New(fetch.Options{}))
	for _, url := range []string{"http://127.0.0.1:1/", "http://[::1]:1/", "http://10.0.0.1/", "http://169.254.169.254/"} {
		if err := checker.Validate(s.Config(url)); err == nil {
			t.Errorf("%s: valid", url)
		}
	}
	// A name is judged once it is resolved.
	server := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("a private address was reached") })
	url := strings.Replace(server, "127.0.0.1", "localhost", 1)
	if err := checker.Validate(s.Config(url)); err != nil {
		t.Errorf("localhost: %v", err)
	}
	_, err := checker.Check(t.Context(), s.request(url, nil))
	if got := Failure(t, err); got.Code != string(fetch.CodeRefusedAddress) {
		t.Errorf("localhost: got %v", got)
	}
	// Whether redirects are followed or not, none leads there.
	for _, target := range []string{strings.Replace(server, "127.0.0.1", "127.0.0.2", 1), "http://10.0.0.1/"} {
		hop := serve(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, target, http.StatusFound) })
		client := Client(t, fetch.Options{})
		_, err := s.New(client).Check(t.Context(), s.request(hop, nil))
		if got := Failure(t, err).Code; got != string(fetch.CodeRefusedAddress) && got != "http_302" {
			t.Errorf("redirect to %s: got %s", target, got)
		}
	}
}

// noSecretIsTold fails in every way there is, on a URL whose path and query are
// secret and that the other side repeats wherever it can.
func (s Subject) noSecretIsTold(t *testing.T) {
	echo := func(w http.ResponseWriter, r *http.Request, status int) {
		text := r.URL.String() + " " + hidden
		for _, values := range r.Header {
			text += " " + strings.Join(values, " ")
		}
		w.Header().Set("X-Echo", text)
		w.WriteHeader(status)
		_, _ = w.Write([]byte(text))
	}
	urls := map[string]string{
		"closed":  "http://127.0.0.1:1",
		"refused": "http://127.0.0.2:1",
		"timeout": serve(t, func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body) // only then does the server see that the client is gone
			<-r.Context().Done()
		}),
		"reset":          serve(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }),
		"bad location":   serve(t, location("http://["+hidden)),
		"login location": serve(t, location("http://"+hidden+":"+hidden+"@example.com/")),
		"far location":   serve(t, location("http://10.0.0.1/?q="+hidden)),
		"file location":  serve(t, location("file:///"+hidden)),
		"too large": serve(t, func(w http.ResponseWriter, _ *http.Request) {
			for range 10 << 20 / len(hidden) {
				if _, err := w.Write([]byte(hidden)); err != nil {
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
	for name, url := range urls {
		options := fetch.Options{Timeout: 10 * time.Second}
		if name == "timeout" {
			options.Timeout = 50 * time.Millisecond
		}
		checker := s.New(Client(t, options))
		_, err := checker.Check(t.Context(), s.request(url+"/"+hidden+"?token="+hidden, nil))
		if err == nil {
			t.Errorf("%s: no error", name)
		}
		s.tellsNothing(t, name, err)
	}
}

func (s Subject) noSecretIsToldByValidate(t *testing.T) {
	checker := s.New(Client(t, fetch.Options{}))
	for _, config := range []string{
		`"` + hidden + `"`, `{`, `[]`, `{"url": {"x": "` + hidden + `"}}`, `{"url": "` + hidden + `"}`, `{"other": "` + hidden + `"}`,
		string(s.Config("http://user:" + hidden + "@example.com/?q=" + hidden)),
		string(s.Config("http://[" + hidden)),
		string(s.Config("ftp://example.com/" + hidden)),
	} {
		err := checker.Validate(json.RawMessage(config))
		if err == nil {
			t.Errorf("%s: valid", config)
		}
		s.tellsNothing(t, config, err)
		request := s.request("", nil)
		request.Config = json.RawMessage(config)
		_, err = checker.Check(t.Context(), request)
		s.tellsNothing(t, config, err)
	}
	err := checker.Validate(json.RawMessage(`{"url": "gopher://x", "zebra": 1, "ape": 2}`))
	for _, field := range []string{"config.url", "config.zebra", "config.ape"} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: not all faults at once: %v", field, err)
		}
	}
}

// tellsNothing looks through all texts that an error can be asked for.
func (s Subject) tellsNothing(t *testing.T, name string, err error) {
	t.Helper()
	for ; err != nil; err = errors.Unwrap(err) {
		for _, secret := range []string{hidden, s.Secret, "token="} {
			if secret != "" && strings.Contains(err.Error(), secret) {
				t.Errorf("%s: %T tells %q: %v", name, err, secret, err)
			}
		}
	}
}

func location(to string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", to)
		w.WriteHeader(http.StatusFound)
	}
}
