package api

import (
	"crypto/ecdh"
	"crypto/hpke"
	"fmt"
	"strings"
	"testing"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/accounts/secret"
)

func sealingKey(t testing.TB) *secret.PublicKey {
	t.Helper()
	private, err := hpke.DHKEM(ecdh.X25519()).GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	return secret.NewPublicKey(private.PublicKey())
}

// A stored secret never appears in a reply, in the log, or in Redis.
func TestSecretRoutes(t *testing.T) {
	var k *secret.PublicKey
	f := newFixture(t, func(o *Options) {
		o.Token, o.Seal = "the-token-of-this-test", func() *secret.PublicKey { return k }
	})
	const hunter = "hunter2-hunter2"
	body := fmt.Sprintf(`{"value":%q,"hosts":["API.example.com","*.qq.com"],"kinds":["http"]}`, hunter+"\n")
	if got := f.errorReply("PUT", "/v1/secrets/KF", body, 409); !strings.Contains(got.Detail, "ROUNDS_SECRETS_PUBLIC_KEY") {
		t.Errorf("without a key: %s", got.Detail)
	}
	var list SecretList
	if f.call("GET", "/v1/secrets", "", 200, &list); len(list.Secrets) != 0 || list.Key != "" {
		t.Errorf("%+v", list)
	}
	k = sealingKey(t)
	var stored Secret
	said := f.call("PUT", "/v1/secrets/KF", body, 201, &stored).body
	if stored.Name != "KF" || strings.Join(stored.Hosts, " ") != "api.example.com *.qq.com" || stored.By != "token" || stored.Key != k.ID() || stored.Set.IsZero() || stored.Revision != 1 {
		t.Errorf("%+v", stored)
	}
	said += f.call("PUT", "/v1/secrets/KF", body, 200, &stored).body
	f.call("PUT", "/v1/secrets/service.CRM", `{"value":"`+hunter+`"}`, 201, nil)
	said += f.call("GET", "/v1/secrets?limit=1", "", 200, &list).body
	if len(list.Secrets) != 1 || list.Secrets[0].Name != "KF" || list.Secrets[0].Revision != 2 || list.Next != "KF" || list.Key != k.ID() {
		t.Errorf("%+v", list)
	}
	list = SecretList{}
	said += f.call("GET", "/v1/secrets?limit=1&cursor=KF", "", 200, &list).body
	if len(list.Secrets) != 1 || list.Secrets[0].Name != "service.CRM" || list.Next != "service.CRM" || len(list.Secrets[0].Hosts) != 0 {
		t.Errorf("%+v", list)
	}
	f.errorReply("GET", "/v1/secrets/KF", "", 405)
	for query, want := range map[string]int{"?with_secrets=maybe": 422, "?with_secrets=true&with_secrets=true": 422, "?secrets=true": 422, "?%zz": 422} {
		f.errorReply("GET", "/v1/backup"+query, "", want)
	}
	for query, want := range map[string]int{"": 0, "?with_secrets=false": 0, "?with_secrets=true": 2} {
		file := f.do(f.request("GET", "/v1/backup"+query, "")).body
		if got := strings.Count(file, `{"secret":`); got != want {
			t.Errorf("backup%s has %d secrets, want %d", query, got, want)
		}
		said += file
	}
	sealing := k
	k = nil
	if got := f.errorReply("GET", "/v1/backup?with_secrets=true", "", 409); !strings.Contains(got.Detail, "ROUNDS_SECRETS_PUBLIC_KEY") {
		t.Errorf("without a key: %s", got.Detail)
	}
	k = sealing
	conn, err := f.redis.Conn(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	kept, err := conn.Do("HGETALL", "{"+f.ring.Namespace()+":secrets}:values")
	if err != nil || !strings.Contains(fmt.Sprintf("%s", kept), `"key":"`+k.ID()) {
		t.Fatalf("%s, %v", kept, err)
	}
	f.call("DELETE", "/v1/secrets/KF", "", 204, nil)
	f.errorReply("DELETE", "/v1/secrets/KF", "", 404)
	for where, text := range map[string]string{"replies": said, "the log": f.logs.String(), "Redis": fmt.Sprintf("%s", kept), "the trail": fmt.Sprintf("%+v", f.trail(""))} {
		if strings.Contains(text, hunter) {
			t.Errorf("the value is in %s: %s", where, text)
		}
	}
	if text := fmt.Sprintf("%+v", f.trail("")); !strings.Contains(text, "put-secret") || !strings.Contains(text, "secret KF") {
		t.Errorf("the trail has %s", text)
	}

	for body, fields := range map[string][]string{
		`{}`:                             {"body"},
		`{"value":""}`:                   {"body.value"},
		`{"value":"\n","hosts":["a b"]}`: {"body.value", "body.hosts"},
		`{"value":"x","hosts":["https://a","*"],"kinds":["a/b"]}`:    {"body.hosts", "body.hosts", "body.kinds"},
		`{"value":"x","host":["a"]}`:                                 {"body"},
		`{"value":7}`:                                                {"body.value"},
		`{"value":"` + strings.Repeat("x", secret.MaxValue+1) + `"}`: {"body.value"},
	} {
		got := f.errorReply("PUT", "/v1/secrets/A", body, 422)
		if len(got.Errors) != len(fields) {
			t.Errorf("%.80s: %+v", body, got)
			continue
		}
		for i, field := range fields {
			if !strings.HasPrefix(got.Errors[i].Location, field) {
				t.Errorf("%.80s: %+v", body, got)
			}
		}
	}
	f.errorReply("PUT", "/v1/secrets/A", `{"value":"`+strings.Repeat("x", maxSecretBody)+`"}`, 413)
	for _, name := range []string{"a.b", "service.", "%20", "A%2Fb", strings.Repeat("a", 65)} {
		if got := f.errorReply("PUT", "/v1/secrets/"+name, `{"value":"x"}`, 422); len(got.Errors) != 1 || got.Errors[0].Location != "path.name" {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// How many accounts use a secret is counted on demand, and the selector of the same name lists them.
func TestUsesOfSecrets(t *testing.T) {
	t.Parallel()
	k := sealingKey(t)
	f := newFixture(t, func(o *Options) {
		o.Token, o.Seal = "the-token-of-this-test", func() *secret.PublicKey { return k }
	})
	for _, name := range []string{"KF", "FREE", "service.CRM"} {
		f.call("PUT", "/v1/secrets/"+name, `{"value":"x"}`, 201, nil)
	}
	for id, config := range map[string]string{"a": `{"token":{"secret":"KF"}}`, "b": `{"headers":{"X":{"secret":"KF"},"Y":{"secret":"KF"}}}`, "c": `{"note":"KF"}`} {
		if _, _, err := f.api.options.Registry.Put(t.Context(), accounts.Account{ID: id, Kind: "plain", Config: []byte(config)}); err != nil {
			t.Fatal(err)
		}
	}
	var list SecretList
	for range 20 { // a busy machine may not look at all accounts in the time of one request
		if f.call("GET", "/v1/secrets?uses=true", "", 200, &list); list.UsesComplete {
			break
		}
	}
	got := make(map[string]int)
	for _, one := range list.Secrets {
		if one.Accounts != nil {
			got[one.Name] = *one.Accounts
		}
	}
	if !list.UsesComplete || len(got) != 2 || got["KF"] != 2 || got["FREE"] != 0 {
		t.Errorf("%v, %+v", got, list)
	}
	list = SecretList{}
	if f.call("GET", "/v1/secrets", "", 200, &list); list.UsesComplete || list.Secrets[0].Accounts != nil {
		t.Errorf("nobody asked for the uses: %+v", list)
	}
	if found := f.listed("secret=KF"); len(found) != 2 {
		t.Errorf("%+v", found)
	}
	var count AccountCount
	if f.call("GET", "/v1/accounts:count?secret=KF&secret=FREE", "", 200, &count); count.Count != 2 || !count.Complete {
		t.Errorf("%+v", count)
	}
}
