package wecom

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rounds-dev/rounds/cmd/rounds/callback/wecomcrypt"
	"github.com/rounds-dev/rounds/testing/upstream/wecomseal"
)

type answer struct {
	ErrCode     int               `json:"errcode"`
	AccessToken string            `json:"access_token"`
	ExpiresIn   int               `json:"expires_in"`
	NextCursor  string            `json:"next_cursor"`
	HasMore     int               `json:"has_more"`
	List        []json.RawMessage `json:"msg_list"`
}

func call(t *testing.T, w *WeCom, method, path string, body any) (a answer) {
	t.Helper()
	raw, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), method, "http://wecom"+path, bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	response, err := w.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || json.Unmarshal(text, &a) != nil {
		t.Fatalf("%s: %d %q, %v", path, response.StatusCode, text, err)
	}
	return a
}

func getToken(t *testing.T, w *WeCom, secret string) answer {
	t.Helper()
	return call(t, w, "GET", "/cgi-bin/gettoken?corpid=c&corpsecret="+secret, nil)
}

func syncMsg(t *testing.T, w *WeCom, token string, q request) answer {
	t.Helper()
	return call(t, w, "POST", "/cgi-bin/kf/sync_msg?access_token="+token, q)
}

func started(o Options) *WeCom {
	w := New(o)
	w.AddCorp("c", "s")
	w.AddAccount("c", "k")
	return w
}

func TestTokenLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := started(Options{})
		first := getToken(t, w, "s")
		time.Sleep(time.Hour)
		again := getToken(t, w, "s")
		if first.ExpiresIn != 7200 || again.AccessToken != first.AccessToken || again.ExpiresIn != 3600 {
			t.Errorf("got %+v, then %+v", first, again)
		}
		w.Revoke("c")
		second := getToken(t, w, "s")
		time.Sleep(2 * time.Hour)
		for token, want := range map[string]int{"": 40014, "x": 40014, first.AccessToken: 40014, second.AccessToken: 42001, getToken(t, w, "s").AccessToken: 0} {
			if got := syncMsg(t, w, token, request{OpenKfID: "k"}).ErrCode; got != want {
				t.Errorf("%.5s: got %d, want %d", token, got, want)
			}
		}
		if s := w.Stats("c"); s.Tokens != 3 || s.GetToken != 4 || s.SyncMsg != 1 {
			t.Errorf("got %+v", s)
		}
	})
}

func TestWrongSecretsBan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := started(Options{BanAfter: 3})
		for _, want := range []int{40001, 40001, 40001, 60020} {
			if got := getToken(t, w, "wrong").ErrCode; got != want {
				t.Errorf("got %d, want %d", got, want)
			}
		}
		if !w.Banned() || getToken(t, w, "s").ErrCode != 60020 {
			t.Error("not banned")
		}
		time.Sleep(time.Hour)
		if w.Banned() || getToken(t, w, "s").ErrCode != 0 || w.Stats("c").WrongSecrets != 3 {
			t.Errorf("still banned: %+v", w.Stats("c"))
		}
	})
}

func TestPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := started(Options{EmptyPages: true, CallsWithoutToken: -1})
		w.PostN("k", 5)
		time.Sleep(72*time.Hour + time.Second)
		token := getToken(t, w, "s").AccessToken
		for range 10 {
			w.PostEvent("k", "enter_session")
		}
		var numbers []int
		cursor, empty := "", 0
		for more := 1; more == 1; {
			a := syncMsg(t, w, token, request{OpenKfID: "k", Cursor: cursor, Limit: 3})
			if len(a.List) == 0 {
				empty++
			}
			for _, raw := range a.List {
				numbers = append(numbers, Number(raw))
			}
			cursor, more = a.NextCursor, a.HasMore
		}
		if fmt.Sprint(numbers) != "[6 7 8 9 10 11 12 13 14 15]" || empty == 0 {
			t.Errorf("got %v with %d empty pages", numbers, empty)
		}
		for _, bad := range []request{{OpenKfID: "k", Limit: 1001}, {OpenKfID: "k", VoiceFormat: 2}, {OpenKfID: "k", Cursor: "cur-other-1"}} {
			if got := syncMsg(t, w, token, bad).ErrCode; got != 40058 {
				t.Errorf("%+v: got %d", bad, got)
			}
		}
		if got := syncMsg(t, w, token, request{OpenKfID: "none"}).ErrCode; got != 95000 {
			t.Errorf("got %d", got)
		}
	})
}

func TestLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := started(Options{CallsPerMinute: 20, Latency: time.Second})
		token := getToken(t, w, "s").AccessToken
		codes := make(map[int]int)
		many := func(n int, q func() request) {
			clear(codes)
			var all sync.WaitGroup
			var mu sync.Mutex
			for range n {
				all.Go(func() {
					a := syncMsg(t, w, token, q())
					mu.Lock()
					defer mu.Unlock()
					codes[a.ErrCode]++
				})
			}
			all.Wait()
		}
		with := func() request { return request{OpenKfID: "k", Token: w.CallbackToken("k")} }
		without := func() request { return request{OpenKfID: "k"} }
		many(8, with)
		if codes[0] != 5 || codes[45033] != 3 || w.Stats("c").AtOnce != 5 {
			t.Errorf("at once: %v", codes)
		}
		time.Sleep(time.Minute)
		for range 4 {
			many(3, without)
		}
		if codes[45009] != 2 {
			t.Errorf("without a token: %v", codes)
		}
		for range 4 {
			many(3, with)
		}
		if codes[45009] == 0 {
			t.Errorf("in a minute: %v", codes)
		}
		old := w.CallbackToken("k")
		time.Sleep(10 * time.Minute)
		if got := syncMsg(t, w, token, request{OpenKfID: "k", Token: old}).ErrCode; got != 95007 {
			t.Errorf("an old token: %d", got)
		}
	})
}

func TestCallback(t *testing.T) {
	crypt, err := wecomseal.New("token", strings.Repeat("a", 43), "c")
	if err != nil {
		t.Fatal(err)
	}
	w := started(Options{})
	query, body, err := w.Callback(crypt, "k")
	if err != nil {
		t.Fatal(err)
	}
	encrypted, err := wecomcrypt.ParseBody(body)
	if err != nil {
		t.Fatal(err)
	}
	message, err := crypt.Open(query.Get("msg_signature"), query.Get("timestamp"), query.Get("nonce"), encrypted)
	if err != nil {
		t.Fatal(err)
	}
	event, err := wecomcrypt.ParseEvent(message)
	if err != nil || event.ToUserName != "c" || event.OpenKfID != "k" || event.Event != wecomcrypt.EventMessages {
		t.Fatalf("got %+v, %v", event, err)
	}
	a := syncMsg(t, w, getToken(t, w, "s").AccessToken, request{OpenKfID: "k", Token: event.Token})
	if s := w.Stats("c"); a.ErrCode != 0 || s.WithoutToken != 0 || s.SyncMsg != 1 {
		t.Errorf("got %+v, %+v", a, s)
	}
}
