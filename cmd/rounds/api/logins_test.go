package api

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/rounds-dev/rounds/accounts/secret"
	"github.com/rounds-dev/rounds/cmd/rounds/login"
	"github.com/rounds-dev/rounds/cmd/rounds/scan"
)

// A sign-in by a scan, as a caller of the API goes through it. Neither the token nor the name of
// the sign-in is in the log, in the trail or in Redis.
func TestSigningInByAScan(t *testing.T) {
	const token = "the-bot-token-of-this-test"
	var k *secret.PublicKey
	told := make(chan scan.Told, 1)
	f := newFixture(t, func(o *Options) {
		o.Token, o.Seal = "the-token-of-this-test", func() *secret.PublicKey { return k }
		o.Scan = &scan.Server{
			Base: "https://ilink.example", Kind: "plain", Validate: func(string) error { return nil },
			NewCode: func(context.Context, string) (scan.Code, error) {
				return scan.Code{QRCode: "hidden-code", Link: "https://w/1"}, nil
			},
			Ask: func(context.Context, string, string, string) (scan.Told, error) {
				now := <-told
				if now.Status == "" {
					return now, &login.Error{Code: "http_502", Text: "the server answered 502"}
				}
				return now, nil
			},
		}
	})
	const path = "/v1/weixin/logins"
	if got := f.errorReply("POST", path, `{"id":"me"}`, 409); !strings.Contains(got.Detail, "ROUNDS_SECRETS_PUBLIC_KEY") {
		t.Errorf("without a key: %s", got.Detail)
	}
	k = sealingKey(t)
	for _, body := range []string{`{}`, `{"id":""}`, `{"id":"me","cadence":"x"}`, `{"id":"me","x":1}`, `{"id":"me","labels":{"a":1}}`} {
		f.errorReply("POST", path, body, 422)
	}
	if got := f.errorReply("POST", path, `{"id":"me","x":1}`, 422); len(got.Errors) != 1 || !strings.Contains(got.Errors[0].Message, "is not a field of a sign-in; its fields are id, cadence, labels and base_url") {
		t.Errorf("an unknown field: %+v", got)
	}
	var l Login
	f.call("POST", path, `{"id":"me","labels":{"team":"x"}}`, 201, &l)
	if l.State != scan.Waiting || l.Link == "" || len(l.Login) < 50 {
		t.Errorf("got %+v", l)
	}
	told <- scan.Told{}
	if got := f.errorReply("GET", path+"/"+l.Login, "", 502); !strings.Contains(got.Detail, "http_502") {
		t.Errorf("got %s", got.Detail)
	}
	for _, hold := range []string{"46", "-1", "x"} {
		f.errorReply("GET", path+"/"+l.Login+"?hold="+hold, "", 422)
	}
	f.call("GET", path+"/"+l.Login+"?hold=0", "", 200, &l) // the phone has done nothing, and the look waits for nothing
	if l.State != scan.Waiting || !strings.Contains(l.Trouble, "http_502") {
		t.Errorf("got %+v", l)
	}
	told <- scan.Told{Status: "need_verifycode"} // to the call behind the look, which the next one joins
	name := l.Login
	l = Login{}
	f.call("GET", path+"/"+name, "", 200, &l)
	if l.State != scan.Digits || l.Trouble != "" {
		t.Errorf("got %+v", l)
	}
	for _, body := range []string{`{"digits":"4x"}`, `{}`, `{"digits":42}`, `{"digits":"12345678901234567"}`, `{"digits":"1","x":1}`} {
		f.errorReply("POST", path+"/"+l.Login+"/code", body, 422)
	}
	if r := f.request("POST", path, `{"id":""}`); true { // as other routes, they need no Content-Type
		r.Header.Del("Content-Type")
		if got := f.do(r); got.status != 422 {
			t.Errorf("without a Content-Type: %d %s", got.status, got.body)
		}
	}
	told <- scan.Told{Status: "confirmed", Token: token, Base: "https://far.example:8443", Bot: "b"}
	l = Login{}
	f.call("POST", path+"/"+name+"/code", `{"digits":"42"}`, 200, &l)
	if l.State != scan.Done || l.Link != "" {
		t.Errorf("got %+v", l)
	}
	var list SecretList
	f.call("GET", "/v1/secrets", "", 200, &list)
	if len(list.Secrets) != 1 || list.Secrets[0].Name != "weixin-me" || strings.Join(list.Secrets[0].Hosts, " ") != "far.example:8443" || strings.Join(list.Secrets[0].Kinds, " ") != "plain" {
		t.Errorf("got %+v", list)
	}
	var a Account
	f.call("GET", "/v1/accounts/me", "", 200, &a)
	if string(a.Config) != `{"base_url":"https://far.example:8443","token":{"secret":"weixin-me"}}` || a.Labels["team"] != "x" {
		t.Errorf("got %s, %v", a.Config, a.Labels)
	}
	f.call("DELETE", path+"/"+l.Login, "", 204, nil)
	f.errorReply("GET", path+"/"+l.Login, "", 404)
	entries := fmt.Sprintf("%+v", f.trail(""))
	for _, action := range []string{"begin-weixin-login", "type-weixin-login", "weixin-signed-in"} {
		if !strings.Contains(entries, action) {
			t.Errorf("the trail has no %s: %s", action, entries)
		}
	}
	for where, text := range map[string]string{"the log": f.logs.String(), "the trail": entries} {
		for _, hidden := range []string{token, l.Login, "hidden-code"} {
			if strings.Contains(text, hidden) {
				t.Errorf("%s is in %s: %s", hidden, where, text)
			}
		}
	}
}
