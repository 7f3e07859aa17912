package telegram

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

type answer struct {
	OK     bool              `json:"ok"`
	Code   int               `json:"error_code"`
	Text   string            `json:"description"`
	Result []json.RawMessage `json:"result"`
	After  struct {
		Retry   int   `json:"retry_after"`
		Migrate int64 `json:"migrate_to_chat_id"`
	} `json:"parameters"`
}

func ask(ctx context.Context, t *testing.T, w *Telegram, token, body string) (a answer) {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://telegram/bot"+token+"/getUpdates", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	response, err := w.RoundTrip(r)
	if err != nil {
		a.Text = err.Error()
		return a
	}
	defer response.Body.Close()
	if err := json.NewDecoder(response.Body).Decode(&a); err != nil {
		a.Text = err.Error()
	}
	return a
}

// An offset confirms what is below it, and nothing else does.
func TestOffsetConfirms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(Options{})
		w.AddBot("1:a")
		w.PostN("1:a", 3)
		for range 2 {
			if a := ask(t.Context(), t, w, "1:a", `{"limit":2}`); len(a.Result) != 2 || Number(a.Result[1]) != 2 {
				t.Errorf("got %+v", a)
			}
		}
		if a := ask(t.Context(), t, w, "1:a", `{"offset":`+UpdateID("", 3)+`}`); len(a.Result) != 1 || w.Stats("1:a").Kept != 1 {
			t.Errorf("got %+v", a)
		}
		time.Sleep(25 * time.Hour)
		if a := ask(t.Context(), t, w, "1:a", `{}`); !a.OK || len(a.Result) != 0 {
			t.Errorf("after a day: got %+v", a)
		}
		w.Post("1:a", "edited_message")
		w.Post("1:a", "message")
		if a := ask(t.Context(), t, w, "1:a", `{"allowed_updates":["message"]}`); len(a.Result) != 1 || Number(a.Result[0]) != 5 {
			t.Errorf("allowed: got %+v", a)
		}
	})
}

func TestHoldAndConflicts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(Options{})
		w.AddBot("1:a")
		began := time.Now()
		if a := ask(t.Context(), t, w, "1:a", `{"timeout":30}`); !a.OK || time.Since(began) != 30*time.Second {
			t.Errorf("got %+v after %v", a, time.Since(began))
		}
		first := make(chan answer)
		go func() { first <- ask(t.Context(), t, w, "1:a", `{"timeout":30}`) }()
		synctest.Wait()
		time.AfterFunc(time.Second, func() { w.Post("1:a", "message") })
		if a := ask(t.Context(), t, w, "1:a", `{"timeout":30}`); len(a.Result) != 1 {
			t.Errorf("the second: got %+v", a)
		}
		if a := <-first; a.Code != 409 || a.Text != conflictOther {
			t.Errorf("the first: got %+v", a)
		}
		w.SetWebhook("1:a", "https://example.com/")
		if a := ask(t.Context(), t, w, "1:a", `{}`); a.Code != 409 || a.Text != conflictWebhook {
			t.Errorf("a webhook: got %+v", a)
		}
		w.Revoke("1:a")
		if a := ask(t.Context(), t, w, "1:a", `{}`); a.Code != 401 {
			t.Errorf("revoked: got %+v", a)
		}
	})
}

func TestFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(Options{})
		w.AddBot("1:a")
		for _, c := range []struct {
			f    Fault
			want func(answer) bool
		}{
			{Fault{RetryAfter: 17}, func(a answer) bool { return a.Code == 429 && a.After.Retry == 17 }},
			{Fault{MigrateTo: -1009}, func(a answer) bool { return a.Code == 400 && a.After.Migrate == -1009 }},
			{Fault{Code: 500}, func(a answer) bool { return a.Code == 500 }},
			{Fault{Reset: true}, func(a answer) bool { return strings.Contains(a.Text, "EOF") }},
			{Fault{Garbage: true}, func(a answer) bool { return a.Text != "" }},
			{Fault{Hang: true}, func(a answer) bool { return strings.Contains(a.Text, "deadline") }},
			{Fault{Bytes: 100, After: time.Second}, func(a answer) bool { return a.OK }},
		} {
			w.Fail("1:a", c.f)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			if a := ask(ctx, t, w, "1:a", `{}`); !c.want(a) {
				t.Errorf("%+v: got %+v", c.f, a)
			}
			cancel()
			w.Heal()
		}
	})
}
