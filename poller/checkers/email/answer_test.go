package email

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/mail"
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/poller"
)

// foundMail is a mail as a check finds it.
func foundMail(raw string) *poller.Message {
	return &poller.Message{ID: "1:1", Data: Parse([]byte(raw), int64(len(raw))).Encode()}
}

// What a mail lacks is not made up, and what the send says itself stays.
func TestWhatAnAnswerTakesFromItsMail(t *testing.T) {
	many := ""
	for n := range 40 {
		many += fmt.Sprintf(" <%d@x>", n)
	}
	latest := ""
	for n := 22; n < 40; n++ {
		latest += fmt.Sprintf(`,"%d@x"`, n)
	}
	for name, c := range map[string]struct{ mail, data, want string }{
		"no ids":                {"From: a@b\r\nSubject: x", `{}`, `{"subject":"Re: x"}`},
		"no subject":            {"From: a@b\r\nMessage-ID: <1@x>", `{}`, `{"in_reply_to":"1@x","references":["1@x"],"subject":"Re:"}`},
		"answered before":       {"From: a@b\r\nSubject: RE: x", `{}`, `{"subject":"RE: x"}`},
		"answered in Chinese":   {"From: a@b\r\nSubject: 回复：x", `{}`, `{"subject":"回复：x"}`},
		"only what it answered": {"From: a@b\r\nMessage-ID: <2@x>\r\nIn-Reply-To: <1@x>", `{"subject":"s"}`, `{"in_reply_to":"2@x","references":["1@x","2@x"],"subject":"s"}`},
		"own ids":               {"From: a@b\r\nMessage-ID: <2@x>", `{"in_reply_to":"9@x","references":["8@x"],"subject":"s"}`, `{"in_reply_to":"9@x","references":["8@x"],"subject":"s"}`},
		"an id that is none":    {"From: a@b\r\nMessage-ID: <2é@x>", `{"subject":"s"}`, `{"subject":"s"}`},
		"a long thread":         {"From: a@b\r\nMessage-ID: <40@x>\r\nReferences:" + many, `{"subject":"s"}`, `{"in_reply_to":"40@x","references":["0@x"` + latest + `,"40@x"],"subject":"s"}`},
		"a line's end":          {"From: a@b\r\nSubject: =?utf-8?q?a=0D=0ABcc:_x@y?=", `{}`, `{"subject":"Re: a Bcc: x@y"}`},
		"a long subject":        {"From: a@b\r\nSubject: " + strings.Repeat("x", 2000), `{}`, `{"subject":"Re: ` + strings.Repeat("x", maxSubject-4) + `"}`},
	} {
		data := strings.Replace(c.data, "{", `{"text":"t",`, 1)
		out := poller.Outgoing{Type: "text", Data: json.RawMessage(strings.Replace(data, ",}", "}", 1))}
		want := strings.TrimSuffix(c.want, "}") + `,"text":"t"}`
		if err := Answer(&out, foundMail(c.mail+"\r\n\r\nx")); err != nil || string(out.Data) != want {
			t.Errorf("%s: got %s, %v; want %s", name, out.Data, err, want)
		}
	}
}

// Two programs must not answer each other for ever.
func TestMailOfProgramsIsAnsweredOnlyByName(t *testing.T) {
	for name, c := range map[string]struct {
		mail     string
		answered bool
	}{
		"a person":        {"From: a@b\r\nAuto-Submitted: no", true},
		"a vacation":      {"From: a@b\r\nAuto-Submitted: auto-replied", false},
		"a bounce":        {"From: a@b\r\nReturn-Path: <>", false},
		"a list":          {"From: a@b\r\nReturn-Path: <list@b>", true},
		"nobody":          {"Subject: x", false},
		"a broken sender": {"From: undisclosed", false},
	} {
		out := poller.Outgoing{Type: "text", Data: json.RawMessage(`{"text":"t"}`)}
		err := Answer(&out, foundMail(c.mail+"\r\n\r\nx"))
		if (err == nil) != c.answered || err != nil && !strings.HasPrefix(err.Error(), "reply_to: ") {
			t.Errorf("%s: %v", name, err)
		}
		out = poller.Outgoing{Peer: "c@d", Type: "text", Data: json.RawMessage(`{"text":"t"}`)}
		if err := Answer(&out, foundMail(c.mail+"\r\n\r\nx")); err != nil || out.Peer != "c@d" {
			t.Errorf("%s, by name: %v", name, err)
		}
	}
}

// A server is told the size of a mail before the mail.
func TestSizeOfAMail(t *testing.T) {
	for _, text := range []string{"", "a", strings.Repeat("你好\n", 1000), strings.Repeat("=.\r\n", 1000)} {
		for _, size := range []int64{-1, 1, 2, 56, 57, 58, 113, 114, 115, 100_000} {
			o := Outgoing{Draft: Draft{Text: text, Subject: text[:len(text)/100]}, ID: "1@x", From: &mail.Address{Address: "a@b"}, To: "c@d", At: time.Unix(0, 0)}
			if size >= 0 {
				o.File = &poller.File{Name: "你好", Type: "text/plain", Size: size}
			}
			want, err := o.Size()
			if err != nil {
				t.Fatal(err)
			}
			var got bytes.Buffer
			if err := o.Write(&got, bytes.NewReader(make([]byte, max(0, size)))); err != nil || int64(got.Len()) != want {
				t.Errorf("a text of %d bytes and a file of %d: %d bytes, want %d, %v", len(text), size, got.Len(), want, err)
			}
			if !bytes.HasSuffix(got.Bytes(), []byte("\r\n")) {
				t.Errorf("it ends in %q", got.Bytes()[got.Len()-10:])
			}
		}
	}
}
