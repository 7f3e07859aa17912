package sample

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rounds-dev/rounds/cmd/rounds/sample/ilink"
)

// told is what WeChat answers.
type told struct {
	Ret    int    `json:"ret"`
	QRCode string `json:"qrcode"`
	Image  string `json:"qrcode_img_content"`
	Status string `json:"status"`
	Token  string `json:"bot_token"`
	Base   string `json:"baseurl"`
	Msgs   []struct {
		ID json.Number `json:"message_id"`
	} `json:"msgs"`
}

// wechat asks WeChat without a network.
func wechat(t *testing.T, w *weixin, method, path, token, body string) (told, string) {
	t.Helper()
	r := request(t, method, "http://wechat.example"+path, body)
	r.Header = http.Header{
		"Content-Type": {"application/json"}, "Authorizationtype": {"ilink_bot_token"},
		"X-Wechat-Uin": {base64.StdEncoding.EncodeToString([]byte("7"))}, "Ilink-App-Clientversion": {"132105"},
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	if method == "POST" && !strings.HasPrefix(path, "/ilink/") {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	out := &recorder{header: make(http.Header)}
	w.ServeHTTP(out, r)
	var answer told
	_ = json.Unmarshal([]byte(out.body.String()), &answer) // the phone's pages are no JSON
	return answer, fmt.Sprint(out.status, " ", out.body.String())
}

type recorder struct {
	header http.Header
	status int
	body   strings.Builder
}

func (r *recorder) Header() http.Header            { return r.header }
func (r *recorder) WriteHeader(status int)         { r.status = status }
func (r *recorder) Write(text []byte) (int, error) { return r.body.Write(text) }

// A code is scanned, digits are typed in, and the account that is bound gets what friends write,
// each message once. Signed out, its token is void.
func TestWeChat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWeixin()
		go w.chat(t.Context())
		phone := func(what string, form url.Values) string {
			_, text := wechat(t, w, "POST", "/phone/"+what, "", form.Encode())
			return text
		}
		status := func(code, digits string) told {
			answer, _ := wechat(t, w, "GET", "/ilink/bot/get_qrcode_status?qrcode="+code+"&verify_code="+digits, "", "")
			return answer
		}
		c, _ := wechat(t, w, "POST", "/ilink/bot/get_bot_qrcode?bot_type=3", "", "{}")
		if !strings.HasPrefix(c.Image, "http://wechat.example/phone?code=") {
			t.Errorf("got %+v", c)
		}
		began := time.Now()
		if s := status(c.QRCode, ""); s.Status != "wait" || time.Since(began) != ilink.DefaultHold {
			t.Errorf("got %+v after %v", s, time.Since(began))
		}
		phone("scan", url.Values{"code": {c.QRCode}, "person": {"<Mei>"}, "digits": {"yes"}})
		_, page := wechat(t, w, "GET", "/phone", "", "")
		digits := regexp.MustCompile(`<b>(\d{4})</b>`).FindStringSubmatch(page)
		if digits == nil || !strings.Contains(page, "&lt;Mei&gt;") || strings.Contains(page, "<Mei>") {
			t.Fatalf("the phone shows %s", page)
		}
		for _, step := range []struct{ digits, want string }{{"", "need_verifycode"}, {"1", "need_verifycode"}, {digits[1], "scaned"}} {
			if s := status(c.QRCode, step.digits); s.Status != step.want {
				t.Errorf("%q: got %+v", step.digits, s)
			}
		}
		phone("confirm", url.Values{"code": {c.QRCode}})
		bound := status(c.QRCode, "")
		if bound.Status != "confirmed" || bound.Token == "" || bound.Base != "http://wechat.example" || status(c.QRCode, "").Status != "expired" {
			t.Errorf("got %+v", bound)
		}

		seen := make(map[string]bool)
		for n := range 3 {
			phone("write", url.Values{"person": {"<Mei>"}, "text": {fmt.Sprint(n)}})
		}
		for len(seen) < 5 { // friends write by themselves too
			got, text := wechat(t, w, "POST", "/ilink/bot/getupdates", bound.Token, "{}")
			for _, m := range got.Msgs {
				if seen[m.ID.String()] {
					t.Errorf("%s comes twice", m.ID)
				}
				seen[m.ID.String()] = true
			}
			if len(got.Msgs) == 0 && time.Since(began) > time.Hour {
				t.Fatalf("got %s", text)
			}
		}
		phone("leave", url.Values{"person": {"<Mei>"}})
		for _, call := range []string{"getupdates", "msg/notifystart"} {
			if got, text := wechat(t, w, "POST", "/ilink/bot/"+call, bound.Token, "{}"); got.Ret != -14 {
				t.Errorf("%s: %s", call, text)
			}
		}
		for what, form := range map[string]url.Values{"write": {"person": {"nobody"}}, "scan": {"code": {"x"}, "person": {"U"}}, "odd": {"person": {"Lin"}}} {
			if text := phone(what, form); !strings.HasPrefix(text, "409") {
				t.Errorf("%s: %s", what, text)
			}
		}
	})
}

// The phone scans the next code by itself, unless somebody was faster.
func TestThePhoneScansByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := &Upstream{weixin: newWeixin()}
		ended := make(chan struct{})
		go func() {
			u.ScanNext(t.Context(), "Mei", time.Second)
			close(ended)
		}()
		synctest.Wait()
		first, _ := wechat(t, u.weixin, "POST", "/ilink/bot/get_bot_qrcode?bot_type=3", "", "{}")
		u.weixin.Expire(first.QRCode)
		time.Sleep(time.Minute)
		next, _ := wechat(t, u.weixin, "POST", "/ilink/bot/get_bot_qrcode?bot_type=3", "", "{}")
		<-ended
		if s, _ := wechat(t, u.weixin, "GET", "/ilink/bot/get_qrcode_status?qrcode="+next.QRCode, "", ""); s.Status != "confirmed" {
			t.Errorf("got %+v", s)
		}
	})
}

// The phone shows what its friend was answered.
func TestThePhoneShowsAnswers(t *testing.T) {
	w := newWeixin()
	w.Write(FirstToken, "Are you there?")
	for _, text := range []string{"one", "two", "three", "four", "five", "<six>"} {
		got, said := wechat(t, w, "POST", "/ilink/bot/sendmessage", FirstToken,
			`{"msg":{"from_user_id":"","to_user_id":"person@im.wechat","client_id":"`+text+`","message_type":2,"message_state":2,"context_token":"context-1","item_list":[{"type":1,"text_item":{"text":"`+text+`"}}]},"base_info":{"channel_version":"1","bot_agent":"rounds/1"}}`)
		if got.Ret != 0 || !strings.Contains(said, "message_id") {
			t.Fatalf("%s: %s", text, said)
		}
	}
	_, page := wechat(t, w, "GET", "/phone", "", "")
	for want, is := range map[string]bool{"Answers to the friend: 6.": true, ">↩ two<": true, ">↩ &lt;six&gt;<": true, ">↩ one<": false, "<six>": false} {
		if strings.Contains(page, want) != is {
			t.Errorf("%q: %t in %s", want, !is, page)
		}
	}
}

// The phone shows pictures, and names other files. It shows none of their bytes as a page.
func TestThePhoneShowsFiles(t *testing.T) {
	for _, tt := range []struct {
		sent          ilink.Sent
		text, picture string
	}{
		{ilink.Sent{Text: "hello"}, "hello", ""},
		{ilink.Sent{File: string(picture(1))}, "", "data:image/png;base64,iVBOR"},
		{ilink.Sent{Text: "a.html", File: "<html>"}, "a.html (6 bytes)", ""},
		{ilink.Sent{File: string(append(picture(1), make([]byte, maxPicture)...))}, fmt.Sprintf("a file (%d bytes)", len(picture(1))+maxPicture), ""},
	} {
		if got := answerOf(tt.sent); got.Text != tt.text || !strings.HasPrefix(string(got.Picture), tt.picture) || tt.picture == "" && got.Picture != "" {
			t.Errorf("got %q, %.40q; want %q, %q", got.Text, got.Picture, tt.text, tt.picture)
		}
	}
}

// A friend sends a picture, which the message leads to, and which only its key opens.
func TestPicture(t *testing.T) {
	w := newWeixin()
	wechat(t, w, "POST", "/phone/picture", "", url.Values{"person": {"Lin"}}.Encode())
	var m struct {
		Items []struct {
			Type  int `json:"type"`
			Image struct {
				Key   string `json:"aeskey"`
				Media struct {
					URL string `json:"full_url"`
				} `json:"media"`
			} `json:"image_item"`
		} `json:"item_list"`
	}
	if err := json.Unmarshal(w.Message(FirstToken, 1), &m); err != nil || len(m.Items) != 1 || m.Items[0].Type != 2 || len(m.Items[0].Image.Key) != 32 {
		t.Fatalf("%+v, %v", m, err)
	}
	path, ok := strings.CutPrefix(m.Items[0].Image.Media.URL, "http://wechat.example/c2c/")
	_, text := wechat(t, w, "GET", "/c2c/"+path, "", "")
	if sealed := strings.TrimPrefix(text, "0 "); !ok || len(sealed) != (len(picture(0))/16+1)*16 || strings.Contains(sealed, "PNG") {
		t.Errorf("%s leads to %d bytes", m.Items[0].Image.Media.URL, len(sealed))
	}
}
