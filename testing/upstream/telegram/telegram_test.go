package telegram

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

type answer struct {
	OK     bool              `json:"ok"`
	Code   int               `json:"error_code"`
	Text   string            `json:"description"`
	Result []json.RawMessage `json:"-"`
	Raw    json.RawMessage   `json:"result"`
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
	r.Header.Set("Content-Type", "application/json")
	return answered(t, w, r)
}

func answered(t *testing.T, w *Telegram, r *http.Request) (a answer) {
	t.Helper()
	response, err := w.RoundTrip(r)
	if err != nil {
		a.Text = err.Error()
		return a
	}
	defer response.Body.Close()
	if err := json.NewDecoder(response.Body).Decode(&a); err != nil {
		a.Text = err.Error()
	}
	_ = json.Unmarshal(a.Raw, &a.Result) // some results are no array
	return a
}

// numbers returns the numbers of a page's updates.
func (a answer) numbers() (all []int) {
	for _, raw := range a.Result {
		all = append(all, Number(raw))
	}
	return all
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

// The queue's own rules for an offset, as the real server has them. Each case has five updates.
func TestOffsetsThatTheQueueDoesNotKnow(t *testing.T) {
	for name, tt := range map[string]struct {
		offset     int64 // beyond the last update's id
		page, kept []int
	}{
		"none":                  {-firstUpdate - 5, []int{1, 2, 3, 4, 5}, []int{1, 2, 3, 4, 5}},
		"within":                {-1, []int{4, 5}, []int{4, 5}},
		"behind the last":       {1, nil, nil},
		"ten beyond the end":    {11, nil, nil},
		"eleven beyond the end": {12, []int{1, 2, 3, 4, 5}, []int{1, 2, 3, 4, 5}},
		"far before the head":   {-100_005, []int{1, 2, 3, 4, 5}, []int{1, 2, 3, 4, 5}},
		"the last two":          {-firstUpdate - 5 - 2, []int{4, 5}, []int{4, 5}},
		"more than there are":   {-firstUpdate - 5 - 9, []int{1, 2, 3, 4, 5}, []int{1, 2, 3, 4, 5}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := New(Options{})
			w.AddBot("1:a")
			w.PostN("1:a", 5)
			a := ask(t.Context(), t, w, "1:a", fmt.Sprintf(`{"offset":%d}`, firstUpdate+5+tt.offset))
			left := ask(t.Context(), t, w, "1:a", `{}`)
			if !slices.Equal(a.numbers(), tt.page) || !slices.Equal(left.numbers(), tt.kept) {
				t.Errorf("got %v, kept %v", a.numbers(), left.numbers())
			}
		})
	}
}

// After a quiet week the next update_id may be lower. A call that waits under the old offset
// gets it.
func TestIDsJumpAfterAQuietWeek(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(Options{Random: func() int64 { return 1000 }})
		w.AddBot("1:a")
		w.PostN("1:a", 3)
		time.Sleep(quietWeek)
		time.AfterFunc(time.Second, func() { w.PostN("1:a", 2) })
		a := ask(t.Context(), t, w, "1:a", `{"timeout":30,"offset":`+UpdateID("", 4)+`}`)
		if !slices.Equal(a.numbers()[:1], []int{4}) || w.Stats("1:a").Next != 1002 {
			t.Errorf("got %s", a.Raw)
		}
		if a := ask(t.Context(), t, w, "1:a", `{"offset":1001}`); !slices.Equal(a.numbers(), []int{5}) || w.Stats("1:a").Kept != 1 {
			t.Errorf("got %s", a.Raw)
		}
	})
}

// Clients call in other ways than ours.
func TestOtherClients(t *testing.T) {
	w := New(Options{})
	w.AddBot("17:a")
	w.PostN("17:a", 3)
	call := func(method, path, kind, body string) answer {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, "http://telegram/bot17:a/"+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", kind)
		return answered(t, w, r)
	}
	const form = "application/x-www-form-urlencoded"
	offset := UpdateID("", 2)
	for _, way := range [][4]string{
		{"GET", "getUpdates?limit=1&offset=" + offset},
		{"POST", "getUpdates", form, "limit=1&offset=" + offset + `&allowed_updates=["message"]`},
		{"POST", "getUpdates", "multipart/form-data; boundary=x", "--x\r\nContent-Disposition: form-data; name=\"limit\"\r\n\r\n1\r\n--x--\r\n"},
	} {
		if got := call(way[0], way[1], way[2], way[3]); !slices.Equal(got.numbers(), []int{2}) {
			t.Errorf("%v: got %+v", way, got)
		}
	}
	if a := call("POST", "getUpdates", form, "allowed_updates=message"); a.Code != 400 {
		t.Errorf("got %+v", a)
	}
	if a := call("GET", "getMe", "", ""); !strings.Contains(string(a.Raw), `"id":17`) {
		t.Errorf("got %s", a.Raw)
	}
	w.SetWebhook("17:a", "https://example.com/")
	if a := call("POST", "deleteWebhook", form, "drop_pending_updates=true"); string(a.Raw) != "true" || w.Stats("17:a").Kept != 0 {
		t.Errorf("got %s", a.Raw)
	}
	if a := call("POST", "getUpdates", "", ""); !a.OK {
		t.Errorf("got %+v", a)
	}
}
