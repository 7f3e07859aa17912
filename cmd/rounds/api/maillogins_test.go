package api

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/accounts/secret"
	"github.com/rounds-dev/rounds/cmd/rounds/login"
	"github.com/rounds-dev/rounds/cmd/rounds/mailbox"
)

// A sign-in of a mailbox, as a caller of the API goes through it. Neither the refresh token nor the
// name of the sign-in nor the code is in the log or in the trail.
func TestSigningAMailboxIn(t *testing.T) {
	const token = "the-refresh-token-of-this-test"
	k := sealingKey(t)
	fails := true
	f := newFixture(t, func(o *Options) {
		o.Token, o.Seal = "the-token-of-this-test", func() *secret.PublicKey { return k }
		o.Mailbox = []mailbox.Server{{
			Kind: "plain", Config: mailbox.ConfigOfIMAP, Own: mailbox.OwnOfIMAP, Cadence: "every 0", Validate: func(string) error { return nil }, Hosts: func(string) []string { return []string{"imap.example.com"} },
			Begin: func(_ context.Context, _, _, redirect string) (*mailbox.Pending, error) {
				if redirect == "" {
					return nil, mailbox.ErrNoRedirect
				}
				return &mailbox.Pending{Secret: json.RawMessage(`"hidden"`), Page: "https://login.example/", Until: time.Now().Add(time.Hour)}, nil
			},
			Exchange: func(_ context.Context, p *mailbox.Pending, state, code, issuer string) (*mailbox.Grant, error) {
				if fails {
					fails = false
					return nil, &login.Error{Code: "http_503", Text: "the provider answered 503"}
				}
				if string(p.Secret) != `"hidden"` || code != "the-code" || issuer != "https://login.example" {
					return nil, mailbox.ErrRefused
				}
				return &mailbox.Grant{Text: token, Hosts: []string{"login.example:443"}}, nil
			},
		}}
	})
	const path = "/v1/mail/logins"
	for body, want := range map[string]string{
		`{}`: "missing", `{"id":"me"}`: "missing", `{"id":"me","provider":"google","x":1}`: "its fields are id, kind, provider, user, host, redirect_uri, cadence and labels",
		`{"id":"me","provider":"google"}`: "the provider has no device code", `{"id":"me","provider":"google","redirect_uri":"http://10.0.0.1"}`: "must be an https URL",
	} {
		if got := f.errorReply("POST", path, body, 422); len(got.Errors) == 0 || !strings.Contains(fmt.Sprint(got.Errors[len(got.Errors)-1].Message), want) {
			t.Errorf("%s: %+v", body, got)
		}
	}
	var l MailLogin
	f.call("POST", path, `{"id":"me","provider":"google","user":"me@example.com","labels":{"team":"x"},"redirect_uri":"http://127.0.0.1:1/"}`, 201, &l)
	if l.State != mailbox.Waiting || l.Page != "https://login.example/" || len(l.Login) < 50 {
		t.Errorf("got %+v", l)
	}
	name := l.Login
	f.errorReply("POST", path+"/"+name+"/code", `{"code":"the-code"}`, 422)
	const code = `{"code":"the-code","state":"s","iss":"https://login.example"}`
	if got := f.errorReply("POST", path+"/"+name+"/code", code, 502); !strings.Contains(got.Detail, "http_503") {
		t.Errorf("got %s", got.Detail)
	}
	f.call("GET", path+"/"+name+"?hold=0", "", 200, &l)
	if !strings.Contains(l.Trouble, "http_503") {
		t.Errorf("got %+v", l)
	}
	l = MailLogin{}
	f.call("POST", path+"/"+name+"/code", code, 200, &l)
	if l.State != mailbox.Done || l.Page != "" {
		t.Errorf("got %+v", l)
	}
	var list SecretList
	f.call("GET", "/v1/secrets", "", 200, &list)
	if len(list.Secrets) != 1 || list.Secrets[0].Name != "mail-me" || strings.Join(list.Secrets[0].Hosts, " ") != "login.example:443 imap.example.com" || strings.Join(list.Secrets[0].Kinds, " ") != "plain" {
		t.Errorf("got %+v", list)
	}
	f.call("DELETE", path+"/"+name, "", 204, nil)
	f.errorReply("GET", path+"/"+name, "", 404)
	entries := fmt.Sprintf("%+v", f.trail(""))
	for _, action := range []string{"begin-mail-login", "complete-mail-login", "mail-signed-in"} {
		if !strings.Contains(entries, action) {
			t.Errorf("the trail has no %s: %s", action, entries)
		}
	}
	for where, text := range map[string]string{"the log": f.logs.String(), "the trail": entries} {
		for _, hidden := range []string{token, name, "the-code"} {
			if strings.Contains(text, hidden) {
				t.Errorf("%s is in %s: %s", hidden, where, text)
			}
		}
	}
}
