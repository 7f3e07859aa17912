package connector

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/testing/checktest"
)

// sends makes one attempt of a send with a connector that answers as the handler does.
func sends(t *testing.T, answer http.HandlerFunc) (poller.Sent, error) {
	t.Helper()
	server := httptest.NewServer(answer)
	defer server.Close()
	config := strings.TrimSuffix(string(signedConfig(server.URL+"/check")), "}") + fmt.Sprintf(`,"send_url":%q}`, server.URL+"/send")
	return New(checktest.Client(t, fetch.Options{}), source()).Send(t.Context(), poller.SendRequest{
		Account: "a", Config: json.RawMessage(config), ID: "SEND0000000000000000000000000001", Attempt: 2, Peer: "anna", Type: "text", Data: json.RawMessage(`{"text":"hello"}`),
	})
}

func TestASendIsSignedWithItsID(t *testing.T) {
	var got sendRequest
	sent, err := sends(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if err := json.Unmarshal(body, &got); err != nil {
			t.Error(err)
		}
		id, key := r.Header.Get("Webhook-Id"), checkKey(t)
		want := http.Header{}
		if err := fetch.Sign(want, id, stampOf(t, r), body, key); err != nil || want.Get("Webhook-Signature") != r.Header.Get("Webhook-Signature") || id != "SEND0000000000000000000000000001" {
			t.Errorf("signed %q as %q: %v", r.Header.Get("Webhook-Signature"), id, err)
		}
		if r.URL.Path != "/send" || r.Header.Get("Authorization") != "Bearer "+apiToken {
			t.Errorf("got %s, %v", r.URL, r.Header)
		}
		_, _ = w.Write([]byte(`{"id":"v1","more":1}`))
	})
	if err != nil || sent.VendorID != "v1" {
		t.Errorf("got %+v, %v", sent, err)
	}
	if got.Version != 1 || got.SendID != "SEND0000000000000000000000000001" || got.To != "anna" || got.Type != "text" || string(got.Data) != `{"text":"hello"}` || got.Attempt != 2 || got.Account.ID != "a" {
		t.Errorf("the connector got %+v", got)
	}
}

func TestWhatAnAnswerToASendMeans(t *testing.T) {
	type answer struct {
		status int
		body   string
	}
	checktest.RunAnswers(t, map[string]checktest.Answer[answer]{
		"204":                   {Fault: answer{204, ""}},
		"200 without a body":    {Fault: answer{200, ""}},
		"an object":             {Fault: answer{201, `{}`}},
		"no object":             {Fault: answer{200, `accepted`}, End: checktest.SendUnknown, Code: "protocol"},
		"an id that is no text": {Fault: answer{200, `{"id":7}`}, End: checktest.SendUnknown, Code: "protocol"},
		"rejected":              {Fault: answer{200, `{"error":{"kind":"rejected","code":"blocked","message":"the person is gone"}}`}, End: checktest.SendRefused, Code: "blocked"},
		"limited":               {Fault: answer{429, `{"error":{"kind":"rate_limited"},"retry_after":90}`}, End: checktest.SendAgain, Code: "rate_limited", After: 90 * time.Second},
		"transient":             {Fault: answer{500, `{"error":{"kind":"transient"}}`}, End: checktest.SendAgain, Code: "transient"},
		"an unknown kind":       {Fault: answer{400, `{"error":{"kind":"odd"}}`}, End: checktest.SendRefused, Code: "http_400"},
		"odd, and accepted":     {Fault: answer{200, `{"error":{"kind":"odd"}}`}, End: checktest.SendUnknown, Code: "protocol"},
		"a framework's error":   {Fault: answer{500, `{"error":"oops"}`}, End: checktest.SendUnknown, Code: "http_500"},
		"a gateway":             {Fault: answer{504, ``}, End: checktest.SendUnknown, Code: "http_504"},
		"unsigned":              {Fault: answer{401, ``}, End: checktest.SendAgain, Code: "http_401"},
		"elsewhere":             {Fault: answer{302, ``}, End: checktest.SendAgain, Code: "http_302"},
		"invalid":               {Fault: answer{422, ``}, End: checktest.SendRefused, Code: "http_422"},
		"a cut connection":      {Fault: answer{0, ``}, End: checktest.SendUnknown},
	}, func(t *testing.T, a answer) ([]string, error) {
		_, err := sends(t, func(w http.ResponseWriter, _ *http.Request) {
			if a.status == 0 {
				panic(http.ErrAbortHandler)
			}
			w.WriteHeader(a.status)
			_, _ = w.Write([]byte(a.body))
		})
		return []string{apiToken}, err
	})
}

func TestOnlyAConnectorWithASendURLSends(t *testing.T) {
	c := New(checktest.Client(t, fetch.Options{}), source())
	text := func() *poller.Outgoing {
		return &poller.Outgoing{Peer: "p", Type: "text", Data: json.RawMessage(`{"text":"x"}`)}
	}
	if s := c.Sending(json.RawMessage(`{"url":"https://example.com"}`)); len(s.Types) != 0 {
		t.Errorf("got %+v", s)
	}
	if err := c.PrepareSend(json.RawMessage(`{"url":"https://example.com"}`), text(), nil); !errors.Is(err, poller.ErrCannotSend) {
		t.Errorf("got %v", err)
	}
	for once, want := range map[string]poller.Doubt{"true": poller.DoubtRepeats, "false": poller.DoubtStays} {
		config := json.RawMessage(`{"url":"https://example.com","send_url":"https://example.com/send","deduplicates":` + once + `}`)
		if s := c.Sending(config); len(s.Types) != 1 || s.Doubt != want {
			t.Errorf("deduplicates %s: got %+v", once, s)
		}
		out := text()
		out.Peer = ""
		if err := c.PrepareSend(config, out, &poller.Message{Data: json.RawMessage(`{"from":"anna"}`)}); err != nil || out.Peer != "anna" {
			t.Errorf("got %+v, %v", out, err)
		}
		if out.Peer = ""; c.PrepareSend(config, out, &poller.Message{Data: json.RawMessage(`{}`)}) == nil {
			t.Error("nobody is answered")
		}
	}
}

func checkKey(t *testing.T) *fetch.SigningKey {
	t.Helper()
	key, err := fetch.ParseSigningKey(signingKey)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func stampOf(t *testing.T, r *http.Request) time.Time {
	t.Helper()
	var seconds int64
	if _, err := fmt.Sscan(r.Header.Get("Webhook-Timestamp"), &seconds); err != nil {
		t.Error(err)
	}
	return time.Unix(seconds, 0)
}
