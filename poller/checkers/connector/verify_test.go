package connector

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/testing/checktest"
)

// flawed is a connector without a fault but for those named.
type flawed struct {
	t        *testing.T
	messages int
	flaws    []string
}

func (f *flawed) has(flaw string) bool { return slices.Contains(f.flaws, flaw) }

func (f *flawed) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	webhook, err := standardwebhooks.NewWebhook(signingKey)
	if err != nil {
		f.t.Error(err)
	}
	verify := webhook.Verify
	if f.has("old signatures") {
		verify = webhook.VerifyIgnoringTimestamp
	}
	if !f.has("any signature") && verify(body, r.Header) != nil {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	if f.has("down") {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	var request struct {
		Cursor  json.RawMessage `json:"cursor"`
		Limit   int             `json:"limit"`
		Unknown any             `json:"x_unknown"`
	}
	if err := json.Unmarshal(body, &request); err != nil || f.has("strict") && request.Unknown != nil {
		w.WriteHeader(map[bool]int{true: 500, false: 400}[f.has("crashes")])
		return
	}
	at, reset := 0, false
	if json.Unmarshal(request.Cursor, &at) != nil {
		if !f.has("any cursor") {
			_, _ = io.WriteString(w, `{"error":{"kind":"cursor_invalid"}}`)
			return
		}
	}
	if f.has("no cursor") {
		at = 0
	}
	if f.has("overlaps") && at > 0 {
		at--
	}
	if f.has("skips") && at > 0 {
		at++
	}
	if at >= f.messages && !f.has("never ends") {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	to := min(at+request.Limit, f.messages)
	if f.has("no limit") {
		to = f.messages
	}
	list := []string{}
	for n := at + 1; n <= to; n++ {
		id := fmt.Sprint(n)
		if f.has("new ids") {
			id = fmt.Sprint(time.Now().UnixNano(), n)
		}
		list = append(list, fmt.Sprintf(`{"id":%q,"data":%d}`, id, n))
	}
	answer := map[string]any{"messages": json.RawMessage("[" + strings.Join(list, ",") + "]"), "has_more": to < f.messages || f.has("never ends"), "cursor_reset": reset}
	if !f.has("no cursor") {
		answer["next_cursor"] = max(to, at)
	}
	if f.has("too large") {
		answer["padding"] = strings.Repeat("x", maxBody)
	}
	_ = json.NewEncoder(w).Encode(answer)
}

func verify(t *testing.T, f *flawed, signed bool) map[string]Finding {
	t.Helper()
	f.t = t
	server := httptest.NewServer(f)
	defer server.Close()
	config := fmt.Sprintf(`{"url":%q}`, server.URL)
	if signed {
		config = string(signedConfig(server.URL))
	}
	findings, err := New(checktest.Client(t, fetch.Options{}), source()).Verify(t.Context(), Trial{Config: json.RawMessage(config), Account: "a"})
	if err != nil {
		t.Fatal(err)
	}
	byRule := make(map[string]Finding)
	for _, finding := range findings {
		if _, again := byRule[finding.Rule]; again {
			t.Errorf("%s is found twice", finding.Rule)
		}
		byRule[finding.Rule] = finding
		if (finding.Verdict == Fail) != (finding.Advice != "") && finding.Verdict != NotShown || finding.Seen == "" {
			t.Errorf("%+v", finding)
		}
		for _, secret := range []string{signingKey, apiToken} {
			if strings.Contains(finding.Seen+finding.Advice, secret) {
				t.Errorf("%s tells a secret: %+v", finding.Rule, finding)
			}
		}
	}
	if len(byRule) != 13 {
		t.Errorf("%d rules", len(byRule))
	}
	return byRule
}

// with returns the rules with a verdict, in alphabetical order.
func with(verdict Verdict, findings map[string]Finding) string {
	var rules []string
	for rule, finding := range findings {
		if finding.Verdict == verdict {
			rules = append(rules, rule)
		}
	}
	slices.Sort(rules)
	return strings.Join(rules, ", ")
}

func TestVerify(t *testing.T) {
	for flaw, want := range map[string]string{
		"":               "",
		"any signature":  "replay, signature",
		"old signatures": "replay",
		"strict":         "unknown fields",
		"crashes":        "malformed",
		"no limit":       "answer",
		"no cursor":      "cursor moves, end",
		"new ids":        "cursor resumes, same cursor, unknown fields",
		"overlaps":       "cursor resumes, end",
		"skips":          "cursor resumes",
		"never ends":     "end",
		"any cursor":     "unknown cursor",
		"down":           "answer",
		"too large":      "answer, size",
	} {
		t.Run(flaw, func(t *testing.T) {
			findings := verify(t, &flawed{messages: 60, flaws: []string{flaw}}, true)
			if got := with(Fail, findings); got != want {
				t.Errorf("failed: got %s, want %s\n%+v", got, want, findings)
			}
		})
	}
}

func TestVerifyWhatCannotBeShown(t *testing.T) {
	if got := with(Fail, verify(t, &flawed{messages: 40, flaws: []string{"no limit"}}, true)); got != "limit" {
		t.Errorf("no limit, but few messages: %s", got)
	}
	if got := with(NotShown, verify(t, &flawed{messages: 60}, true)); got != "" {
		t.Errorf("60 messages: %s", got)
	}
	if got := with(NotShown, verify(t, &flawed{messages: 1}, true)); got != "cursor resumes" {
		t.Errorf("1 message: %s", got)
	}
	if got := with(NotShown, verify(t, &flawed{messages: 0}, true)); got != "cursor moves, cursor resumes, limit, same cursor" {
		t.Errorf("no message: %s", got)
	}
	got := verify(t, &flawed{messages: 60, flaws: []string{"any signature"}}, false)
	if with(NotShown, got) != "replay, signature" || with(Fail, got) != "" {
		t.Errorf("without a secret: %+v", got)
	}
	if _, err := New(checktest.Client(t, fetch.Options{}), source()).Verify(t.Context(), Trial{Config: json.RawMessage(`{"url":"x"}`)}); err == nil {
		t.Error("a bad config: no error")
	}
	if _, err := New(checktest.Client(t, fetch.Options{}), source()).Verify(t.Context(), Trial{Config: json.RawMessage(`{"url":"http://127.0.0.1:1","signing_secret":{"secret":"NONE"}}`)}); err == nil {
		t.Error("no such secret: no error")
	}
}
