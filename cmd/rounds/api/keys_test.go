package api

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rounds-dev/rounds/accounts/access"
	"github.com/rounds-dev/rounds/cmd/rounds/key"
)

func TestKeyRoutes(t *testing.T) {
	f := newFixture(t, func(o *Options) { o.Token = "the-token-of-this-test" })
	var made NewKey
	f.call("POST", "/v1/keys", `{"name":"press-reader","role":"viewer","labels":{"team":"press"},"expires_in":"90d"}`, 201, &made)
	if made.Name != "press-reader" || made.Role != "viewer" || made.By != "token" || made.Labels["team"] != "press" ||
		made.Expires.Sub(made.Created) != 90*24*time.Hour || !key.Looks(made.Text) {
		t.Errorf("made: %+v", made)
	}
	if strings.Contains(f.logs.String(), made.Text) || !strings.Contains(f.logs.String(), `msg="a key was made" key=press-reader role=viewer labels="team=press" by=token`) {
		t.Errorf("log: %s", f.logs)
	}
	var who Caller
	f.as(made.Text).call("GET", "/v1/whoami", "", 200, &who)
	if who.Name != "press-reader" {
		t.Errorf("who: %+v", who)
	}
	if got := f.as(made.Text).errorReply("GET", "/v1/keys", "", 403); !strings.Contains(got.Detail, "the role admin is needed") {
		t.Errorf("a viewer lists keys: %s", got.Detail)
	}
	var list KeyList
	text := f.call("GET", "/v1/keys", "", 200, &list).body
	if len(list.Keys) != 1 || list.Keys[0].Used.IsZero() || list.Keys[0].Expired || strings.Contains(text, made.Text) {
		t.Errorf("list: %s", text)
	}
	f.errorReply("POST", "/v1/keys", `{"name":"press-reader","role":"admin"}`, 409)
	f.call("DELETE", "/v1/keys/press-reader", "", 204, nil)
	f.errorReply("DELETE", "/v1/keys/press-reader", "", 404)
	f.as(made.Text).errorReply("GET", "/v1/whoami", "", 401)

	for body, fields := range map[string][]string{
		`{"role":"viewer"}`:                                                  {"body"},
		`{"name":"a","role":"root"}`:                                         {"body.role"},
		`{"name":"two words","role":"viewer"}`:                               {"body.name"},
		`{"name":"token","role":"viewer"}`:                                   {"body.name"},
		`{"name":"a","role":"viewer","x":1}`:                                 {"body"},
		`{"name":"a","role":"viewer","labels":{"":"x"},"expires_in":"soon"}`: {"body.expires_in", "body.labels"},
		`{"name":"a","role":"viewer","expires_in":"9999d"}`:                  {"body.expires_in"},
		`{"name":"a","role":"viewer","labels":{"x":1}}`:                      {"body.labels.x"},
	} {
		got := f.errorReply("POST", "/v1/keys", body, 422)
		if len(got.Errors) != len(fields) {
			t.Errorf("%s: %+v", body, got)
			continue
		}
		for i, field := range fields {
			if !strings.HasPrefix(got.Errors[i].Location, field) {
				t.Errorf("%s: %+v", body, got)
			}
		}
	}
	// A bound principal cannot create keys, so it cannot create one that is less bound.
	bound := f.key(key.New{Name: "bound", Role: access.Admin, Labels: access.Labels{"team": "press"}})
	f.as(bound).errorReply("POST", "/v1/keys", `{"name":"free","role":"admin"}`, 403)
}

// A lasting request ends when its key is revoked. It does not end when Redis is unreachable.
func TestWhatLastsEndsWithItsKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Server{}
		s.closing, s.close = t.Context(), func(error) {}
		reader := access.Principal{Name: "n", Role: access.Viewer, Via: access.ViaKey}
		for _, c := range []struct {
			name string
			now  access.Principal
			err  error
			via  access.Via
			ends bool
		}{
			{"as before", reader, nil, access.ViaKey, false},
			{"revoked", access.Principal{}, refusal("revoked"), access.ViaKey, true},
			{"signed out", access.Principal{}, errNobody, access.ViaSession, true},
			{"another role", access.Principal{Name: "n", Role: access.Operator}, nil, access.ViaSession, true},
			{"Redis away", access.Principal{}, errClosing, access.ViaKey, false},
			{"the token", access.Principal{}, errNobody, access.ViaToken, false},
		} {
			who := reader
			who.Via = c.via
			ctx := access.With(t.Context(), who)
			began := false
			ctx, end := s.lasting(withAgain(ctx, func() (access.Principal, error) { began = true; return c.now, c.err }))
			time.Sleep(10 * time.Second)
			synctest.Wait()
			if ended := ctx.Err() != nil; ended != c.ends || began == (c.via == access.ViaToken) {
				t.Errorf("%s: ended %t, asked %t", c.name, ended, began)
			}
			end()
		}
	})
}
