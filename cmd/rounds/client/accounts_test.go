package client

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/cmd/rounds/api"
)

// recorded returns a client of an API that accepts everything, and the requests it got:
// method, path, the headers that make a change conditional, and the body.
func recorded(t *testing.T, status int, kind, body string) (c *Client, got *[]string) {
	t.Helper()
	got = new([]string)
	return faked(t, func(w http.ResponseWriter, r *http.Request) {
		sent, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		line := r.Method + " " + r.RequestURI
		if match := r.Header.Get("If-Match"); match != "" {
			line += " if " + match
		}
		if key := r.Header.Get("Idempotency-Key"); key != "" {
			line += " named " + key
		}
		if kind := r.Header.Get("Content-Type"); kind == "application/merge-patch+json" {
			line += " patch"
		}
		*got = append(*got, strings.TrimSpace(line+" "+string(sent)))
		w.Header().Set("ETag", `"7"`)
		answer(w, status, kind, body)
	}), got
}

func expectRequests(t *testing.T, got []string, want ...string) {
	t.Helper()
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestRequestsOfSingleAccounts(t *testing.T) {
	c, got := recorded(t, http.StatusOK, "application/json", `{"id":"a","kind":"feed"}`)
	ctx := t.Context()
	added, err := c.Add(ctx, accounts.Account{ID: "a", Kind: "feed"}, "")
	_, err2 := c.Add(ctx, accounts.Account{ID: "a"}, accounts.BeginNow)
	_, err3 := c.Put(ctx, accounts.Account{ID: "a"}, accounts.BeginNow)
	_, err4 := c.PutRecord(ctx, "a", json.RawMessage(`{"kind":"imap"}`), `"6"`)
	_, err5 := c.Patch(ctx, "a", map[string]any{"labels": map[string]any{"team": nil}})
	read, err6 := c.Get(ctx, "a/b")
	_, tag, err7 := c.GetTagged(ctx, "a")
	if err := errors.Join(err, err2, err3, err4, err5, err6, err7, c.Resume(ctx, "a", accounts.ResumeNow)); err != nil {
		t.Fatal(err)
	}
	if added.Kind != "feed" || read.ID != "a" || tag != `"7"` {
		t.Errorf("read %+v, %+v, tag %s", added, read, tag)
	}
	expectRequests(t, *got,
		`POST /v1/accounts {"id":"a","kind":"feed"}`,
		`POST /v1/accounts?from=now {"id":"a","kind":""}`,
		`PUT /v1/accounts/a?from=now {"id":"a","kind":""}`,
		`PUT /v1/accounts/a if "6" {"kind":"imap"}`,
		`PATCH /v1/accounts/a patch {"labels":{"team":null}}`,
		"GET /v1/accounts/a%2Fb",
		"GET /v1/accounts/a",
		`POST /v1/accounts/a/resume {"from":"now"}`,
	)
}

func TestRequestsOfTheService(t *testing.T) {
	c, got := recorded(t, http.StatusOK, "application/json", "{}")
	ctx := t.Context()
	_, err := c.Reload(ctx)
	_, err2 := c.Resharding(ctx)
	_, err3 := c.Reshard(ctx, api.ReshardRequest{Shards: 3})
	_, err4 := c.AbortResharding(ctx)
	_, err5 := c.FinishResharding(ctx)
	_, err6 := c.Webhook(ctx, "..")
	_, err7 := c.RetryWebhook(ctx, "a/b", api.WebhookRetryRequest{})
	_, err8 := c.SkipWebhook(ctx, "a", api.WebhookSkipRequest{})
	_, err9 := c.Audit(ctx, false, "")
	_, err10 := c.Audit(ctx, true, "a&b")
	if err := errors.Join(err, err2, err3, err4, err5, err6, err7, err8, err9, err10); err != nil {
		t.Fatal(err)
	}
	for i := range *got {
		(*got)[i], _, _ = strings.Cut((*got)[i], " {")
	}
	expectRequests(t, *got,
		"POST /v1/reload",
		"GET /v1/reshard",
		"POST /v1/reshard",
		"POST /v1/reshard:abort",
		"POST /v1/reshard:finish",
		"GET /v1/webhooks/%2E%2E",
		"POST /v1/webhooks/a%2Fb/retry",
		"POST /v1/webhooks/a/skip",
		"GET /v1/audit",
		"POST /v1/audit:repair?cursor=a%26b",
	)
}

func TestRequestsOfSends(t *testing.T) {
	c, got := recorded(t, http.StatusAccepted, "application/json", `{"id":"s1","sends":[{"id":"s1"}]}`)
	ctx := t.Context()
	sent, err := c.Send(ctx, "a/b", "k 1", api.SendRequest{To: "anna", Data: json.RawMessage(`{"text":"a&b"}`)})
	page, err2 := c.Sends(ctx, SendQuery{Account: "a&b", States: []string{"unknown", "rejected"}, Limit: 5, Cursor: "c"})
	_, err3 := c.LookSend(ctx, "s/1")
	_, err4 := c.CancelSend(ctx, "s1")
	_, err5 := c.RetrySend(ctx, "s1", api.SendRetryRequest{Attempts: 1})
	_, err6 := c.ResolveSend(ctx, "s1", api.SendResolveRequest{State: "accepted"})
	if err := errors.Join(err, err2, err3, err4, err5, err6); err != nil {
		t.Fatal(err)
	}
	if sent.ID != "s1" || len(page.Sends) != 1 {
		t.Errorf("read %+v, %+v", sent, page)
	}
	expectRequests(t, *got,
		`POST /v1/accounts/a%2Fb/sends named k 1 {"to":"anna","data":{"text":"a&b"}}`,
		"GET /v1/sends?account=a%26b&cursor=c&limit=5&state=unknown&state=rejected",
		"GET /v1/sends/s%2F1",
		"POST /v1/sends/s1/cancel",
		`POST /v1/sends/s1/retry {"attempts":1}`,
		`POST /v1/sends/s1/resolve {"state":"accepted"}`,
	)
}

// If a server demands an ETag, the client sends If-Match: *, but only if the caller has no
// ETag. A change that must not overwrite another's is never made unconditional.
func TestChangesWithoutAnETagWhereOneIsDemanded(t *testing.T) {
	c, got := recorded(t, http.StatusPreconditionRequired, "application/problem+json", `{"detail":"If-Match is needed"}`)
	_, err := c.Patch(t.Context(), "a", map[string]any{})
	_, err2 := c.PutRecord(t.Context(), "a", json.RawMessage("{}"), `"6"`)
	if Status(err) != http.StatusPreconditionRequired || Status(err2) != http.StatusPreconditionRequired {
		t.Errorf("got %v, %v", err, err2)
	}
	expectRequests(t, *got,
		"PATCH /v1/accounts/a patch {}",
		"PATCH /v1/accounts/a if * patch {}",
		`PUT /v1/accounts/a if "6" {}`,
	)
	lost, _ := recorded(t, http.StatusPreconditionFailed, "application/problem+json", `{"detail":"the record was changed"}`)
	if _, err := lost.PutRecord(t.Context(), "a", json.RawMessage("{}"), `"6"`); Status(err) != http.StatusPreconditionFailed || !strings.Contains(err.Error(), "the record was changed") {
		t.Errorf("got %v", err)
	}
}

// An audit that is cut off half way must not look like an audit that found nothing.
func TestAuditThatIsCutOff(t *testing.T) {
	for name, handler := range map[string]http.HandlerFunc{
		"cut off": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"accounts":5`)
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		},
		"half a document": func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"accounts":5`) },
	} {
		if _, err := faked(t, handler).Audit(t.Context(), false, ""); !errors.Is(err, errCutOff) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	c := faked(t, func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusServiceUnavailable, "application/problem+json", `{"detail":"Redis cannot be reached"}`)
	})
	if _, err := c.Audit(t.Context(), true, ""); Status(err) != http.StatusServiceUnavailable {
		t.Errorf("got %v", err)
	}
}

// If the answer to a call is cut off, the call may have been done. Its error must not read
// like a refusal.
func TestAnswerThatBreaksOff(t *testing.T) {
	c := faked(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(w, `{"phase":`)
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
	if _, err := c.Resharding(t.Context()); err == nil || Status(err) != 0 || !strings.Contains(err.Error(), "broke off") {
		t.Errorf("got %v", err)
	}
	nowhere := New("http://127.0.0.1:1", "")
	t.Cleanup(nowhere.Close)
	if err := nowhere.Pause(t.Context(), "a"); !errors.Is(err, errUnreachable) || !strings.Contains(err.Error(), "ROUNDS_API_URL") {
		t.Errorf("got %v", err)
	}
}
