package api

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/rounds-dev/rounds/accounts/access"
	"github.com/rounds-dev/rounds/cmd/rounds/key"
)

// A request that is let in carries its principal. Other requests do not reach a handler.
func TestPrincipals(t *testing.T) {
	for _, c := range []struct {
		token, shown string
		want         access.Principal
		status       int
	}{
		{"", "", access.Local(), 204},
		{"", "Bearer anything", access.Local(), 204},
		{"right", "Bearer right", access.Token(), 204},
		{"right", "bearer  right ", access.Token(), 204},
		{"right", "Bearer wrong", access.Principal{}, 401},
		{"right", "Basic right", access.Principal{}, 401},
		{"right", "", access.Principal{}, 401},
	} {
		f := newFixture(t, nil)
		var got access.Principal
		var came bool
		h := f.api.guarded(terms{token: c.token}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			got, came = access.From(r.Context())
			w.WriteHeader(http.StatusNoContent)
		}))
		r := f.request("GET", "/v1/accounts", "")
		r.Header.Del("Authorization")
		if c.shown != "" {
			r.Header.Set("Authorization", c.shown)
		}
		reply := httptest.NewRecorder()
		h.ServeHTTP(reply, r)
		if reply.Code != c.status || came != (c.status == 204) || got.Name != c.want.Name || got.Role != c.want.Role || got.Via != c.want.Via {
			t.Errorf("token %q, shown %q: %d, %+v, %t", c.token, c.shown, reply.Code, got, came)
		}
	}
}

// key creates a key and returns its text.
func (f *fixture) key(n key.New) string {
	f.Helper()
	text, _, err := f.api.options.Keys.Create(f.Context(), n)
	if err != nil {
		f.Fatal(err)
	}
	return text
}

// as returns the fixture with requests that have another bearer token, or none if it is empty.
func (f *fixture) as(text string) *fixture {
	other := *f
	other.token = text
	return &other
}

func TestKeysLetIn(t *testing.T) {
	for name, change := range map[string]func(*Options){
		"token": func(o *Options) { o.Token = "the-token-of-this-test" },
		"keys":  func(o *Options) { o.RequireKey = true },
		"open":  nil,
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, change)
			text := f.key(key.New{Name: "ci", Role: access.Operator, Labels: access.Labels{"team": "press"}})
			var who Caller
			f.as(text).call("GET", "/v1/whoami", "", 200, &who)
			if who.Service != nil {
				t.Errorf("a key that is bound to labels learns of %+v", who.Service)
			}
			if who.Name != "ci" || who.Role != "operator" || who.Labels["team"] != "press" || who.Via != "key" {
				t.Errorf("got %+v", who)
			}
			if name == "open" {
				f.as("").call("GET", "/v1/whoami", "", 200, &who)
				if who.Name != "local" || who.Role != "admin" || who.Via != "local" || who.Service == nil || who.Service.Version != "dev" {
					t.Errorf("without a key: %+v", who)
				}
			}
			other := "0"
			if text[10:11] == other {
				other = "1"
			}
			for shown, want := range map[string]string{
				text[:len(text)-1]:            "mistyped or cut off",
				text[:10] + other + text[11:]: "mistyped or cut off",
				"rounds_":                     "mistyped or cut off",
			} {
				if got := f.as(shown).errorReply("GET", "/v1/whoami", "", 401); !strings.Contains(got.Detail, want) {
					t.Errorf("%q: %s", shown, got.Detail)
				}
			}
			if _, err := f.api.options.Keys.Revoke(f.Context(), "ci"); err != nil {
				t.Fatal(err)
			}
			if got := f.as(text).errorReply("GET", "/v1/whoami", "", 401); !strings.Contains(got.Detail, "revoked") {
				t.Errorf("revoked: %s", got.Detail)
			}
			if name != "open" {
				for shown, want := range map[string]string{"": "a bearer token is needed", "something": "the token is wrong"} {
					if got := f.as(shown).errorReply("GET", "/v1/whoami", "", 401); !strings.HasPrefix(got.Detail, want) {
						t.Errorf("%q: %s", shown, got.Detail)
					}
				}
			}
		})
	}
}

// While Redis is unreachable, a request with a key gets 503, which neither accepts nor
// refuses the key.
func TestKeysWithoutRedis(t *testing.T) {
	f := newFixture(t, func(o *Options) { o.RequireKey = true })
	text := f.key(key.New{Name: "ci", Role: access.Admin})
	f.redis.Miniredis().SetError("LOADING")
	r := f.as(text).request("GET", "/v1/whoami", "")
	if got := f.do(r); got.status != 503 || got.header.Get("Retry-After") == "" || got.header.Get("Www-Authenticate") != "" {
		t.Errorf("got %d %v %s", got.status, got.header, got.body)
	}
	f.redis.Miniredis().SetError("")
	if got := f.do(r); got.status != 200 {
		t.Errorf("Redis is back: %d", got.status)
	}
}

// errorReply makes a request that must be refused with a status, and returns the reply.
func (f *fixture) errorReply(method, path, body string, status int) problemBody {
	f.Helper()
	var p problemBody
	f.call(method, path, body, status, &p)
	return p
}
