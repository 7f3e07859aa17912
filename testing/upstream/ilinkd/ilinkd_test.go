package ilinkd

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rounds-dev/rounds/cmd/rounds/sample/ilink"
)

type answer struct {
	Ret     int               `json:"ret"`
	ErrCode int               `json:"errcode"`
	Msgs    []json.RawMessage `json:"msgs"`
	Buf     string            `json:"get_updates_buf"`
	Told    int               `json:"longpolling_timeout_ms"`
	QRCode  string            `json:"qrcode"`
	Status  string            `json:"status"`
	Host    string            `json:"redirect_host"`
	Token   string            `json:"bot_token"`
	Base    string            `json:"baseurl"`
}

func send(ctx context.Context, w *Server, method, path, token string, body any) (a answer, err error) {
	raw, err := json.Marshal(body)
	if err != nil {
		return a, err
	}
	r, err := http.NewRequestWithContext(ctx, method, "http://ilink"+path, bytes.NewReader(raw))
	if err != nil {
		return a, err
	}
	r.Header = http.Header{
		"Content-Type": {"application/json"}, "Authorizationtype": {"ilink_bot_token"}, "Authorization": {"Bearer " + token},
		"X-Wechat-Uin": {base64.StdEncoding.EncodeToString([]byte("4294967295"))}, "Ilink-App-Clientversion": {"132099"},
	}
	response, err := w.RoundTrip(r)
	if err != nil {
		return a, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return a, err
	}
	if json.Unmarshal(text, &a) != nil {
		return a, errors.New(response.Status + " " + string(text))
	}
	return a, nil
}

func must(t *testing.T, w *Server, method, path, token string, body any) answer {
	t.Helper()
	a, err := send(t.Context(), w, method, path, token, body)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return a
}

func poll(t *testing.T, w *Server, token string) answer {
	t.Helper()
	return must(t, w, "POST", "/ilink/bot/getupdates", token, map[string]any{"get_updates_buf": "old"})
}

func TestHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(ilink.Options{NextHold: 20 * time.Second})
		w.AddBot("T")
		began := time.Now()
		if a := poll(t, w, "T"); len(a.Msgs) != 0 || time.Since(began) != ilink.DefaultHold || a.Told != 20_000 {
			t.Errorf("got %+v after %v", a, time.Since(began))
		}
		time.AfterFunc(3*time.Second, func() { w.Post("T", "image") })
		began = time.Now()
		a := poll(t, w, "T")
		if len(a.Msgs) != 1 || time.Since(began) != 3*time.Second || a.Buf == "" || Number(a.Msgs[0]) != 1 {
			t.Errorf("got %+v after %v", a, time.Since(began))
		}
		if !strings.Contains(string(a.Msgs[0]), `"message_id":`+ilink.MessageID("T", 1)+`,`) {
			t.Errorf("got %s", a.Msgs[0])
		}
	})
}

// What was handed out is not given again, even if the answer broke.
func TestAMessageIsGivenOnce(t *testing.T) {
	w := New(ilink.Options{Hold: -1})
	w.AddBot("T")
	w.PostN("T", 2)
	w.Fail(GetUpdates, Fault{Cut: true, Times: 1})
	if _, err := send(t.Context(), w, "POST", "/ilink/bot/getupdates", "T", map[string]any{}); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("cut: got %v", err)
	}
	if a := poll(t, w, "T"); len(a.Msgs) != 0 || w.Stats("T").Given != 2 {
		t.Errorf("got %+v, %+v", a, w.Stats("T"))
	}
}

func TestTwoPollersStealFromEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(ilink.Options{})
		w.AddBot("T")
		found := make(chan int, 2)
		for range 2 {
			go func() { found <- len(poll(t, w, "T").Msgs) }()
		}
		synctest.Wait()
		w.Post("T", "text")
		if a, b := <-found, <-found; a+b != 1 || w.Stats("T").AtOnce != 2 {
			t.Errorf("got %d and %d, %+v", a, b, w.Stats("T"))
		}
	})
}

// Code -14 has two meanings: one heals with notifystart, the other does not.
func TestStale(t *testing.T) {
	w := New(ilink.Options{Hold: -1})
	w.AddBot("T")
	w.Idle("T")
	start := func(token string) int {
		return must(t, w, "POST", "/ilink/bot/msg/notifystart", token, map[string]any{}).Ret
	}
	if a := poll(t, w, "T"); a.ErrCode != -14 || a.Ret != -14 {
		t.Errorf("idle: got %+v", a)
	}
	if ret, a := start("T"), poll(t, w, "T"); ret != 0 || a.Ret != 0 {
		t.Errorf("started: got %d, %+v", ret, a)
	}
	w.Post("T", "text")
	other := w.Void("T")
	if ret, a := start("T"), poll(t, w, "T"); ret != -14 || a.Ret != -14 {
		t.Errorf("void: got %d, %+v", ret, a)
	}
	if a := poll(t, w, other); len(a.Msgs) != 1 {
		t.Errorf("the new one: got %+v", a)
	}
}

func TestFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(ilink.Options{})
		w.AddBot("T")
		for _, c := range []struct {
			f    Fault
			want string
		}{
			{Fault{Status: 524, After: 30 * time.Second}, "524"}, {Fault{Garbage: true}, "garbage"}, {Fault{Reset: true}, "EOF"},
			{Fault{Hang: true}, "deadline"}, {Fault{Drip: true}, "deadline"}, {Fault{Body: "no JSON"}, "no JSON"},
		} {
			w.Fail(GetUpdates, c.f)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			if _, err := send(ctx, w, "POST", "/ilink/bot/getupdates", "T", map[string]any{}); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%+v: got %v", c.f, err)
			}
			cancel()
			w.Heal()
		}
		w.Fail(GetUpdates, Fault{Empty: true, Times: 2})
		began := time.Now()
		if poll(t, w, "T"); time.Since(began) != 0 {
			t.Error("an empty answer at once was held")
		}
		if w.Fail(GetUpdates, Fault{Code: -2}); poll(t, w, "T").ErrCode != -2 {
			t.Error("no errcode")
		}
	})
}

func TestHeadersAreChecked(t *testing.T) {
	w := New(ilink.Options{Hold: -1})
	r := httptest.NewRequestWithContext(t.Context(), "POST", "/ilink/bot/getupdates", strings.NewReader("{}"))
	rw := httptest.NewRecorder()
	if w.ServeHTTP(rw, r); rw.Code != http.StatusBadRequest {
		t.Errorf("got %d", rw.Code)
	}
}
