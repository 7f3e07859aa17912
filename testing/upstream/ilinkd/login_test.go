package ilinkd

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/rounds-dev/rounds/cmd/rounds/sample/ilink"
)

func status(t *testing.T, w *Server, code, digits string) answer {
	t.Helper()
	return must(t, w, "GET", "/ilink/bot/get_qrcode_status?qrcode="+code+"&verify_code="+digits, "", nil)
}

func newCode(t *testing.T, w *Server, tokens ...string) string {
	t.Helper()
	return must(t, w, "POST", "/ilink/bot/get_bot_qrcode?bot_type=3", "", map[string]any{"local_token_list": tokens}).QRCode
}

func TestSignIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(ilink.Options{Host: "https://far.example.com"})
		q := newCode(t, w)
		began := time.Now()
		if a := status(t, w, q, ""); a.Status != ilink.StatusWait || time.Since(began) != ilink.DefaultHold {
			t.Errorf("nobody scans: got %+v after %v", a, time.Since(began))
		}
		time.AfterFunc(2*time.Second, func() { w.Scan(q, "U", "42") })
		for _, c := range []struct{ digits, want string }{{"", ilink.StatusDigits}, {"13", ilink.StatusDigits}, {"42", ilink.StatusScanned}} {
			if a := status(t, w, q, c.digits); a.Status != c.want {
				t.Errorf("with %q: got %+v", c.digits, a)
			}
		}
		time.AfterFunc(2*time.Second, func() { w.Confirm(q) })
		a := status(t, w, q, "")
		if a.Status != ilink.StatusDone || a.Token == "" || a.Base != "https://far.example.com" {
			t.Errorf("got %+v", a)
		}
		if again := status(t, w, q, ""); again.Status != ilink.StatusExpired || again.Token != "" {
			t.Errorf("used twice: got %+v", again)
		}
		// A second sign-in of the same person makes the first token void.
		q = newCode(t, w)
		w.Scan(q, "U", "")
		w.Confirm(q)
		if b := status(t, w, q, ""); b.Token == a.Token || w.Known(a.Token) || !w.Known(b.Token) {
			t.Errorf("got %+v, then %+v", a, b)
		}
	})
}

func TestSignInGoesWrong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(ilink.Options{})
		q := newCode(t, w)
		w.Redirect(q, "elsewhere.example.com")
		if a := status(t, w, q, ""); a.Status != ilink.StatusRedirect || a.Host != "elsewhere.example.com" {
			t.Errorf("got %+v", a)
		}
		w.Redirect(q, "ilink")
		w.Scan(q, "U", "42")
		for _, want := range []string{ilink.StatusDigits, ilink.StatusDigits, ilink.StatusBlocked, ilink.StatusBlocked} {
			if a := status(t, w, q, "1"); a.Status != want {
				t.Errorf("got %+v, want %s", a, want)
			}
		}
		if w.Confirm(q) {
			t.Error("confirmed without the digits")
		}
		q = newCode(t, w)
		time.Sleep(6 * time.Minute)
		if a := status(t, w, q, ""); a.Status != ilink.StatusExpired || len(w.Codes()) != 0 {
			t.Errorf("late: got %+v, %v", a, w.Codes())
		}
		w.AddBot("T")
		q = newCode(t, w, "T")
		w.Scan(q, "user-of-T", "")
		if a := status(t, w, q, ""); a.Status != ilink.StatusBound {
			t.Errorf("bound already: got %+v", a)
		}
	})
}
