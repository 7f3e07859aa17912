package sample

import (
	"bytes"
	"context"
	"image"
	"image/color"
	"image/png"
	"net/http"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/cmd/rounds/sample/ilink"
)

// FirstToken is the token of the account that WeChat has from the start.
const FirstToken = "demo-weixin-token"

// Friend is who writes to the accounts of WeChat.
const Friend = "person@im.wechat"

// weixin is WeChat: its bot interface, phones, and friends who write by themselves.
type weixin struct {
	*ilink.Ilink
	next map[string]time.Time // when a friend writes, by the person they write to; only chat uses it
}

func newWeixin() *weixin {
	w := &weixin{next: make(map[string]time.Time), Ilink: ilink.New(ilink.Options{
		Full: true, // the address of files is the demo's own
		Page: 50,
		Link: func(r *http.Request, qrcode string) string { return "http://" + r.Host + "/phone?code=" + qrcode },
	})}
	w.Bind("Lin", FirstToken)
	return w
}

// ServeHTTP answers a call of the interface. Everything else is for a phone.
func (w *weixin) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	if !strings.HasPrefix(r.URL.Path, "/ilink/") && !strings.HasPrefix(r.URL.Path, "/c2c/") {
		w.phone(rw, r)
		return
	}
	w.Ilink.ServeHTTP(rw, r)
}

// picture returns a picture, another one for each number.
func picture(n int) []byte {
	drawn := image.NewRGBA(image.Rect(0, 0, 320, 200))
	for y := range 200 {
		for x := range 320 {
			drawn.Set(x, y, color.RGBA{uint8(x * (n%5 + 1) / 3), uint8(y + 40*n), uint8((x + y) / (n%3 + 2)), 255})
		}
	}
	var out bytes.Buffer
	_ = png.Encode(&out, drawn) // it fails only where its writer does
	return out.Bytes()
}

// greetings are what friends write by themselves.
var greetings = []string{"Are you there?", "你好 😀", "The parcel has come", "明天见", "Shall we meet at six?", "收到，谢谢"}

// chat makes friends write until ctx is done.
func (w *weixin) chat(ctx context.Context) {
	looks := time.NewTicker(time.Second)
	defer looks.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-looks.C:
			w.write()
		}
	}
}

// write makes the friends write whose time has come. They wait until their last message was
// fetched.
func (w *weixin) write() {
	for _, b := range w.Bots() {
		next, known := w.next[b.User]
		switch now := time.Now(); {
		case !known:
			w.next[b.User] = now.Add(3 * time.Second)
		case !now.Before(next) && b.Posted == b.Given:
			w.next[b.User] = now.Add(pace(b.User))
			w.Write(b.Token, greetings[b.Posted%len(greetings)])
		}
	}
}

// named returns a person's bot.
func (w *weixin) named(person string) (ilink.Bot, bool) {
	for _, b := range w.Bots() {
		if b.User == person {
			return b, true
		}
	}
	return ilink.Bot{}, false
}

// code returns a code that may still be used.
func (w *weixin) code(qrcode string) (ilink.Code, bool) {
	for _, c := range w.Open() {
		if c.QRCode == qrcode {
			return c, true
		}
	}
	return ilink.Code{}, false
}
