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
	const (
		accepted = "accepted"
		unknown  = "unknown"
		again    = "again"
		final    = "final"
	)
	for name, tt := range map[string]struct {
		status int
		body   string
		want   string
		code   string
		after  time.Duration
	}{
		"204":                   {204, "", accepted, "", 0},
		"200 without a body":    {200, "", accepted, "", 0},
		"an object":             {201, `{}`, accepted, "", 0},
		"no object":             {200, `accepted`, unknown, "protocol", 0},
		"an id that is no text": {200, `{"id":7}`, unknown, "protocol", 0},
		"rejected":              {200, `{"error":{"kind":"rejected","code":"blocked","message":"the person is gone"}}`, final, "blocked", 0},
		"limited":               {429, `{"error":{"kind":"rate_limited"},"retry_after":90}`, again, "rate_limited", 90 * time.Second},
		"transient":             {500, `{"error":{"kind":"transient"}}`, again, "transient", 0},
		"an unknown kind":       {400, `{"error":{"kind":"odd"}}`, final, "http_400", 0},
		"odd, and accepted":     {200, `{"error":{"kind":"odd"}}`, unknown, "protocol", 0},
		"a framework's error":   {500, `{"error":"oops"}`, unknown, "http_500", 0},
		"a gateway":             {504, ``, unknown, "http_504", 0},
		"unsigned":              {401, ``, again, "http_401", 0},
		"elsewhere":             {302, ``, again, "http_302", 0},
		"invalid":               {422, ``, final, "http_422", 0},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := sends(t, func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(tt.status)
				_, _ = w.Write([]byte(tt.body))
			})
			got, code := accepted, ""
			var after time.Duration
			var refused *poller.SendError
			var failed *poller.CheckError
			switch {
			case errors.As(err, &refused):
				got, code, after = again, refused.Code, refused.After
				if refused.Final {
					got = final
				}
			case errors.As(err, &failed):
				got, code = unknown, failed.Code
			}
			if got != tt.want || code != tt.code || after != tt.after {
				t.Errorf("got %s, %s, %v: %v", got, code, after, err)
			}
		})
	}
	_, err := sends(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	var refused *poller.SendError
	if err == nil || errors.As(err, &refused) {
		t.Errorf("a cut connection: got %v", err)
	}
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
