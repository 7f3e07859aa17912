package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/accounts/api"
	"github.com/rounds-dev/rounds/accounts/wecomcrypt"
	"github.com/rounds-dev/rounds/cmd/rounds/client"
)

const (
	callbackToken = "QDG6eK"
	callbackKey   = "jWmYm7qr5nMoAUwZRjGtBxmz3KA1tkAj3ykkR6q2B2C"
)

// TestServeObeysCallbacks has WeCom call a whole service: the account is checked
// with the token, long before it is due.
func TestServeObeysCallbacks(t *testing.T) {
	hints := make(chan string, 10)
	connector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var asked struct{ Hint json.RawMessage }
		if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
			t.Error(err)
		}
		w.WriteHeader(http.StatusNoContent)
		hints <- string(asked.Hint)
	}))
	defer connector.Close()
	hint := func() string {
		select {
		case hint := <-hints:
			return hint
		case <-time.After(30 * time.Second):
			t.Fatal("no check within 30 s")
			return ""
		}
	}
	p := startProgram(t, map[string]string{
		"ROUNDS_API_ADDR": freeLoopback(t), "ROUNDS_ALLOW_PRIVATE_ADDRESSES": "true", "ROUNDS_LOG_FORMAT": "json", "ROUNDS_API_TOKEN": "bearer",
		"ROUNDS_SECRET_TOKEN": callbackToken, "ROUNDS_SECRET_KEY": callbackKey,
		callbacksFile: writeWebhooks(t, `{"callbacks":[{"name":"acme","corp_id":"ww1","token":{"secret":"TOKEN"},"aes_key":{"secret":"KEY"},"account":"kf:{open_kfid}"}]}`),
	}, "serve")
	p.log.await(t, `"msg":"callbacks are obeyed"`)
	base := p.base(t)
	awaitStatus(t, base+"/readyz", http.StatusOK)
	calls := client.New(base, "bearer")
	defer calls.Close()
	if _, err := calls.Add(t.Context(), accounts.Account{ID: "kf:wk1", Kind: "http", Cadence: "every 24h", Config: fmt.Appendf(nil, `{"url":%q}`, connector.URL)}); err != nil {
		t.Fatal(err)
	}
	if got := hint(); got != "null" {
		t.Errorf("the first check had the hint %s", got)
	}
	crypt, err := wecomcrypt.New(callbackToken, callbackKey, "ww1")
	if err != nil {
		t.Fatal(err)
	}
	query, body, err := crypt.Seal(wecomcrypt.Event{ToUserName: "ww1", CreateTime: time.Now().Unix(), MsgType: "event",
		Event: wecomcrypt.EventMessages, Token: "tok", OpenKfID: "wk1"}, "nonce", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.Post(base+"/v1/callbacks/wecom/acme?"+query.Encode(), "text/xml", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if said, _ := io.ReadAll(answer.Body); answer.StatusCode != 200 || string(said) != "success" {
		t.Errorf("%d %s", answer.StatusCode, said)
	}
	if got := hint(); got != `{"token":"tok"}` {
		t.Errorf("the check had the hint %s", got)
	}
	if status, metrics := getWith(t, base+"/metrics", "bearer"); status != 200 || !strings.Contains(metrics, `rounds_callbacks_total{callback="acme",result="nudged"} 1`) {
		t.Errorf("%d: the callback is not counted", status)
	}
	if log := p.log.String(); strings.Contains(log, callbackToken) || strings.Contains(log, callbackKey) || strings.Contains(log, `tok"`) {
		t.Error("a secret is in the log")
	}
	if err := p.stop(); err != nil {
		t.Error(err)
	}
}

// getWith is get with a bearer token.
func getWith(t *testing.T, url, token string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+token)
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(body)
}

func TestSettingsReportFaultsOfCallbacks(t *testing.T) {
	path := writeWebhooks(t, `{"callbacks":[{"name":"a","corp_id":"ww1","token":{"secret":"SHORT"},"aes_key":{"secret":"SHORT"}},
		{"name":"b","corp_id":"ww2","token":{"secret":"NONE"},"aes_key":{"secret":"NONE"}}]}`)
	_, err := read(t, map[string]string{callbacksFile: path, "ROUNDS_SECRET_SHORT": "s3-cret", "ROUNDS_CONCURRENCY": "lots"})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"callbacks[0].token: the secret must be 1 to 32", "callbacks[0].aes_key: the secret must be an EncodingAESKey",
		"callbacks[1].token: secret NONE: is neither", "callbacks[1].aes_key: secret NONE:", "ROUNDS_CONCURRENCY"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("not reported: %s in\n%v", want, err)
		}
	}
	if strings.Contains(err.Error(), "s3-cret") {
		t.Error(err)
	}
	if _, err := read(t, map[string]string{callbacksFile: writeWebhooks(t, `{"callbacks":[{"name":"A"}]}`)}); err == nil || !strings.Contains(err.Error(), "callbacks[0].name: must be 1 to 56") {
		t.Error(err)
	}
	if _, err := read(t, map[string]string{callbacksFile: "/nowhere/callbacks.json"}); err == nil || !strings.Contains(err.Error(), "there is none") {
		t.Error(err)
	}
	if _, err := read(t, map[string]string{callbacksFile: path, "ROUNDS_ROLES": "poller"}); err != nil {
		t.Errorf("a process without the API needs their secrets: %v", err)
	}
}

func TestAccountResumeSaysFromWhere(t *testing.T) {
	s := startService(t)
	s.must("account", "add", "a", "--kind", "feed", "--set", "url=u")
	s.must("account", "pause", "a")
	for _, wrong := range [][]string{{"a", "--from", "then"}, {"--all", "--from", "now"}} {
		if _, err := s.rounds(append([]string{"account", "resume"}, wrong...)...); err == nil || !strings.Contains(err.Error(), "--from") {
			t.Errorf("%q: %v", wrong, err)
		}
	}
	if got := s.must("account", "resume", "a", "--from", "now"); got != "a resumed\n" {
		t.Errorf("got %q", got)
	}
	if got := s.must("account", "why", "a"); !strings.Contains(got, "resumed       from now: what came before 2") {
		t.Errorf("got\n%s", got)
	}
	s.must("account", "pause", "a")
	s.must("account", "resume", "a", "--from", "backfill")
	if got := s.must("account", "why", "a"); strings.Contains(got, "passed over") {
		t.Errorf("got\n%s", got)
	}
}

func TestHeadroomForPeople(t *testing.T) {
	hours := func(h float64) *float64 { h *= 3600; return &h }
	for want, s := range map[string]api.Schedule{
		"": {},
		"20h0m0s, of the 72h0m0s that the third party keeps messages":                             {Retention: hours(72), Headroom: hours(20)},
		"none since 1h0m0s, of the 72h0m0s that the third party keeps messages: some may be lost": {Retention: hours(72), Headroom: hours(-1)},
	} {
		if got := headroomOf(s); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	var out strings.Builder
	stats := api.Stats{Staleness: &accounts.Staleness{Headroom: []accounts.Headroom{
		{Kind: "feed", Least: 3600, Account: "a"}, {Kind: "wecom-kf", Least: -60, Account: "b", Low: 3, Critical: 2, Past: 1, Parked: 2},
	}}}
	if err := printStats(&out, stats); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"feed: least 1h0m0s (a)\n", "wecom-kf: least -1m0s (b); 3 with less than half left, 2 with less than a quarter, 1 with none; 2 of them parked\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}
