package fetch

import (
	"encoding/json"
	"errors"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/poller/secrets"
)

func parse(config string) (Headers, error) {
	self := func(h *Headers) *Headers { return h }
	return strict.NewForm([]strict.Entry[Headers]{LoginEntry(self), HeadersEntry(self, "If-None-Match")}).Read(json.RawMessage(config))
}

func source(values map[string]string) secrets.Source {
	return secrets.Source{Lookup: func(name string) (string, bool) {
		value, ok := values[strings.TrimPrefix(name, secrets.EnvPrefix)]
		return value, ok
	}}
}

func TestResolve(t *testing.T) {
	values := map[string]string{"TOKEN": "Bearer t0ken", "PASS": "pä:ss", "LINES": "a\nb", "LONG": strings.Repeat("x", 4<<10)}
	for config, want := range map[string]http.Header{
		`{}`:                             {},
		`{"headers": {}, "login": null}`: {},
		`{"headers": {"x-a": "b", "Authorization": {"secret": "TOKEN"}}}`: {"X-A": {"b"}, "Authorization": {"Bearer t0ken"}},
		`{"login": {"user": "me", "password": {"secret": "PASS"}}}`:       {"Authorization": {"Basic bWU6cMOkOnNz"}},
	} {
		h, err := parse(config)
		if err != nil {
			t.Fatalf("%s: %v", config, err)
		}
		header, hidden, err := h.Resolve(t.Context(), source(values), secrets.ForURL("http", "https://a.example"))
		if err != nil || !reflect.DeepEqual(header, want) || h.Any() != (len(want) > 0) {
			t.Errorf("%s: got %v, %v", config, header, err)
		}
		for name, value := range header {
			if name == "Authorization" && !slices.Contains(hidden, value[0]) {
				t.Errorf("%s: %s is not hidden", config, value[0])
			}
		}
	}
	for config, want := range map[string]error{
		`{"headers": {"X-A": {"secret": "NONE"}}}`:                  secrets.ErrNotFound,
		`{"login": {"user": "me", "password": {"secret": "NONE"}}}`: secrets.ErrNotFound,
		`{"headers": {"X-A": {"secret": "LINES"}}}`:                 nil,
		`{"login": {"user": "me", "password": {"secret": "LONG"}}}`: nil,
	} {
		h, err := parse(config)
		if err != nil {
			t.Fatalf("%s: %v", config, err)
		}
		_, _, err = h.Resolve(t.Context(), source(values), secrets.ForURL("http", "https://a.example"))
		if err == nil || want != nil && !errors.Is(err, want) || strings.Contains(err.Error(), "xxx") || strings.Contains(err.Error(), "a\nb") {
			t.Errorf("%s: got %v", config, err)
		}
	}
}

func TestFaultsNameTheField(t *testing.T) {
	for config, want := range map[string]string{
		`{"headers": 7}`:                                  "config.headers: must be an object",
		`{"headers": {"if-none-match": "x"}}`:             "config.headers.if-none-match: is set by rounds itself",
		`{"headers": {"Cookie": "s3cret"}}`:               "config.headers.Cookie: must be {",
		`{"login": "me:s3cret"}`:                          "config.login: must be {",
		`{"login": {"user": "me", "password": "s3cret"}}`: "config.login.password: must be {",
		`{"login": {"user": "a:b", "pass": 1}}`:           "config.login.user: must be one line of at most 1024 bytes without a colon\nconfig.login.password: missing\nconfig.login.pass: unknown field",
		`{"login": {"user": "a", "password": {"secret": "P"}}, "headers": {"authorization": {"secret": "T"}}}`: "config.login: comes together with",
	} {
		_, err := parse(config)
		if err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: got %v", config, err)
		}
	}
}
