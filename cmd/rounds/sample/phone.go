package sample

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"html/template"
	"math/big"
	"net/http"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/cmd/rounds/sample/ilink"
)

// maxText is the longest name or message that somebody types into the phone, in bytes.
const maxText = 200

// answersShown is how many of the last answers to a friend the phone shows.
const answersShown = 5

// phonePage is a phone with WeChat in it: it scans codes, and its owners get messages.
var phonePage = template.Must(template.New("phone").Parse(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light dark">
<title>A pretend phone · rounds demo</title>
<style>body { font: 15px/1.5 system-ui, sans-serif; max-width: 420px; margin: 24px auto; padding: 0 16px } form { margin: 0 0 14px } button, input { font: inherit; padding: 4px 10px } section { border: 1px solid #8888; border-radius: 12px; padding: 4px 16px; margin: 0 0 16px } b { letter-spacing: .15em } img { display: block; max-width: 100% }</style></head>
<body><h1>A pretend phone</h1><p>It plays the phone of somebody with WeChat, for the demo alone.</p>
{{range .Codes}}<section><h2>A code, {{.Age}} old</h2>
{{if eq .Status "wait"}}<form method="post" action="/phone/scan"><input type="hidden" name="code" value="{{.ID}}"><p><label>I am <input name="person" value="{{$.Name}}" maxlength="40" required></label></p>
<p><button>Scan it</button> <button name="digits" value="yes">Scan it, and show digits</button></p></form>
{{else if eq .Status "scaned"}}<form method="post" action="/phone/confirm"><input type="hidden" name="code" value="{{.ID}}"><p>{{.Person}} has scanned it.</p><p><button>Confirm</button></p></form>
{{else}}<p>{{.Person}} has scanned it. Type these digits where the code is shown:</p><p><b>{{.Digits}}</b></p>{{end}}
<form method="post" action="/phone/expire"><input type="hidden" name="code" value="{{.ID}}"><button>Let it expire</button></form></section>
{{else}}<p>No code waits to be scanned.</p>{{end}}
{{range .Accounts}}<section><h2>{{.Name}}</h2><p>Messages: {{.Posted}}, fetched: {{.Given}}. Answers to the friend: {{.Sent}}.</p>
{{range .Answers}}<p dir="auto">↩ {{.Text}}{{with .Picture}}<img src="{{.}}" alt="">{{end}}</p>
{{end}}<form method="post" action="/phone/write"><input type="hidden" name="person" value="{{.Name}}"><label>A friend writes <input name="text" value="Hello {{.Next}}" maxlength="200"></label> <button>Send</button></form>
<form method="post" action="/phone/picture"><input type="hidden" name="person" value="{{.Name}}"><button>A friend sends a picture</button></form>
<form method="post" action="/phone/leave"><input type="hidden" name="person" value="{{.Name}}"><button>Sign out</button></form></section>{{end}}
<p><a href="/phone">Look again</a></p></body></html>
`))

// shownCode and shownAccount are what the phone shows.
type shownCode struct {
	ID, Status, Person, Digits string
	Age                        time.Duration
}

type shownAccount struct {
	Name                string
	Posted, Given, Next int
	Sent                int      // how many answers the bot has sent
	Answers             []answer // the last of them
}

// answer is what the bot has sent: a text, a picture, or the name of another file.
type answer struct {
	Text    string
	Picture template.URL
}

// maxPicture is the most bytes of a picture that the phone shows.
const maxPicture = 1 << 20

func answerOf(s ilink.Sent) answer {
	a := answer{Text: s.Text}
	if s.File == "" {
		return a
	}
	if kind := http.DetectContentType([]byte(s.File)); len(s.File) <= maxPicture && (kind == "image/png" || kind == "image/jpeg") {
		a.Picture = template.URL("data:" + kind + ";base64," + base64.StdEncoding.EncodeToString([]byte(s.File))) //nolint:gosec // base64 of an image
		return a
	}
	a.Text = fmt.Sprintf("%s (%d bytes)", cmp.Or(s.Text, "a file"), len(s.File))
	return a
}

// phone answers what a person does with a phone.
func (w *weixin) phone(rw http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(rw, r.Body, 4<<10)
	if err := r.ParseForm(); err != nil {
		http.Error(rw, err.Error(), http.StatusBadRequest)
		return
	}
	switch {
	case r.Method == http.MethodGet && (r.URL.Path == "/" || r.URL.Path == "/phone"):
		w.show(rw)
	case r.Method != http.MethodPost:
		http.NotFound(rw, r)
	case r.Header.Get("Sec-Fetch-Site") != "" && r.Header.Get("Sec-Fetch-Site") != "same-origin":
		http.Error(rw, "the phone is not in your hands", http.StatusForbidden) // a form of another site
	case !w.act(strings.TrimPrefix(r.URL.Path, "/phone/"), r):
		http.Error(rw, "there is no such code or person any more", http.StatusConflict)
	default:
		http.Redirect(rw, r, "/phone", http.StatusSeeOther)
	}
}

// act does on the phone what a form asks for, and reports whether that was possible.
func (w *weixin) act(what string, r *http.Request) bool {
	person := strings.TrimSpace(r.PostForm.Get("person"))
	if len(person) > maxText {
		person = person[:maxText]
	}
	code := r.PostForm.Get("code")
	switch what {
	case "scan":
		return person != "" && w.scan(code, person, r.PostForm.Get("digits") != "")
	case "confirm":
		_, open := w.code(code)
		return open && w.Confirm(code)
	case "expire":
		return w.Expire(code)
	}
	b, ok := w.named(person)
	if !ok {
		return false
	}
	switch what {
	case "write":
		text := r.PostForm.Get("text")
		w.Write(b.Token, strings.ToValidUTF8(text[:min(len(text), maxText)], ""))
	case "picture":
		w.SendFile(b.Token, "image", ilink.File{Data: picture(b.Posted), CDN: "http://" + r.Host + "/c2c"})
	case "leave":
		w.Void(b.Token) // nobody gets the new token
	default:
		return false
	}
	return true
}

// scan makes a person scan a code.
func (w *weixin) scan(id, person string, show bool) bool {
	digits := ""
	if show {
		n, _ := rand.Int(rand.Reader, big.NewInt(9000)) // it never fails
		digits = fmt.Sprint(1000 + n.Int64())
	}
	c, open := w.code(id)
	return open && c.Status == ilink.StatusWait && w.Scan(id, person, digits)
}

// show writes what the phone shows.
func (w *weixin) show(rw http.ResponseWriter) {
	var shown struct {
		Name     string
		Codes    []shownCode
		Accounts []shownAccount
	}
	for _, c := range w.Open() {
		if c.Status == ilink.StatusWait || c.Status == ilink.StatusScanned || c.Status == ilink.StatusDigits {
			shown.Codes = append(shown.Codes, shownCode{c.QRCode, c.Status, c.User, c.Digits, time.Until(c.Until.Add(-ilink.DefaultCodeLife)).Abs().Round(time.Second)})
		}
	}
	for _, b := range w.Bots() {
		sent := w.Sent(b.Token)
		var answers []answer
		for _, s := range sent[max(0, len(sent)-answersShown):] {
			answers = append(answers, answerOf(s))
		}
		shown.Accounts = append(shown.Accounts, shownAccount{b.User, b.Posted, b.Given, b.Posted + 1, len(sent), answers})
	}
	shown.Name = []string{"Mei", "Chen", "Wang"}[len(shown.Accounts)%3]
	rw.Header().Set("Content-Type", "text/html; charset=utf-8")
	rw.Header().Set("Content-Security-Policy", "default-src 'none'; img-src data:; style-src 'unsafe-inline'; form-action 'self'; frame-ancestors 'none'")
	_ = phonePage.Execute(rw, shown) // a client that has hung up misses nothing
}

// ScanNext makes the phone scan and confirm the next code by itself, each after a pause. It
// returns when that is done, or when ctx is.
func (u *Upstream) ScanNext(ctx context.Context, person string, wait time.Duration) {
	pause := func(d time.Duration) bool {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(d):
			return true
		}
	}
	for pause(200 * time.Millisecond) {
		open := u.weixin.Codes()
		if len(open) == 0 {
			continue
		}
		id := open[len(open)-1]
		if pause(wait) && u.weixin.scan(id, person, false) && pause(wait) && u.weixin.Confirm(id) {
			return
		}
	}
}
