package service

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
	"github.com/rounds-dev/rounds/cmd/rounds/callback/wecomcrypt"
	"github.com/rounds-dev/rounds/cmd/rounds/client"
	"github.com/rounds-dev/rounds/testing/processes"
	"github.com/rounds-dev/rounds/testing/upstream/wecomseal"
)

const (
	callbackToken = "QDG6eK"
	callbackKey   = "jWmYm7qr5nMoAUwZRjGtBxmz3KA1tkAj3ykkR6q2B2C"
)

// TestServeObeysCallbacks lets WeCom call a whole service. The account is checked with the
// event's token, long before it is due.
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
	p := start(t, map[string]string{
		"ROUNDS_API_ADDR": "127.0.0.1:0", "ROUNDS_ALLOW_PRIVATE_ADDRESSES": "true", "ROUNDS_API_TOKEN": "bearer-0123456789",
		"ROUNDS_SERVICE_SECRET_TOKEN": callbackToken, "ROUNDS_SERVICE_SECRET_KEY": callbackKey,
		callbacksFile: writeFile(t, `{"callbacks":[{"name":"acme","corp_id":"ww1","token":{"secret":"TOKEN"},"aes_key":{"secret":"KEY"},"account":"kf:{open_kfid}"}]}`),
	})
	p.log.Await(t, `"msg":"callbacks are accepted"`)
	base := p.base(t, "api")
	processes.AwaitStatus(t, base+"/readyz", http.StatusOK)
	calls := client.New(base, "bearer-0123456789")
	defer calls.Close()
	if _, err := calls.Add(t.Context(), accounts.Account{ID: "kf:wk1", Kind: "http", Cadence: "every 24h", Config: fmt.Appendf(nil, `{"url":%q}`, connector.URL)}, ""); err != nil {
		t.Fatal(err)
	}
	if got := awaitCheck(t, hints); got != "null" {
		t.Errorf("the first check had the hint %s", got)
	}
	crypt, err := wecomseal.New(callbackToken, callbackKey, "ww1")
	if err != nil {
		t.Fatal(err)
	}
	query, body, err := crypt.Seal(wecomcrypt.Event{ToUserName: "ww1", CreateTime: time.Now().Unix(), MsgType: "event",
		Event: wecomcrypt.EventMessages, Token: "tok", OpenKfID: "wk1"}, "nonce", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if status, metrics := processes.Get(t, base+"/metrics", "bearer-0123456789"); status != 200 || !strings.Contains(metrics, `rounds_callbacks_total{callback="acme",result="refused"} 0`) {
		t.Errorf("%d: callbacks are not at zero before the first, so that alerts could not see it", status)
	}
	answer, err := http.Post(base+"/v1/callbacks/wecom/acme?"+query.Encode(), "text/xml", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if said, _ := io.ReadAll(answer.Body); answer.StatusCode != 200 || string(said) != "success" {
		t.Errorf("%d %s", answer.StatusCode, said)
	}
	if got := awaitCheck(t, hints); got != `{"token":"tok"}` {
		t.Errorf("the check had the hint %s", got)
	}
	if status, metrics := processes.Get(t, base+"/metrics", "bearer-0123456789"); status != 200 || !strings.Contains(metrics, `rounds_callbacks_total{callback="acme",result="nudged"} 1`) {
		t.Errorf("%d: the callback is not counted", status)
	}
	if log := p.log.String(); strings.Contains(log, callbackToken) || strings.Contains(log, callbackKey) || strings.Contains(log, `tok"`) {
		t.Error("a secret is in the log")
	}
	if err := p.stop(); err != nil {
		t.Error(err)
	}
}

// awaitCheck returns what a connector was sent with the next check.
func awaitCheck(t *testing.T, sent <-chan string) string {
	t.Helper()
	select {
	case text := <-sent:
		return text
	case <-time.After(30 * time.Second):
		t.Fatal("no check within 30 s")
		return ""
	}
}
