package email

import (
	"encoding/json"
	"strings"
	"testing"
)

func decoded(t *testing.T, mail string) Data {
	t.Helper()
	mail = strings.ReplaceAll(mail, "\n", "\r\n")
	var d Data
	raw := Parse([]byte(mail), int64(len(mail))).Encode()
	if err := json.Unmarshal(raw, &d); err != nil || len(raw) > maxData {
		t.Fatalf("%d bytes: %v", len(raw), err)
	}
	return d
}

func TestTexts(t *testing.T) {
	const mixed = "Content-Type: multipart/mixed; boundary=x\n\n--x\n"
	for mail, want := range map[string]string{
		"\nplain":                                                                                             "text/plain plain",
		"Content-Type: text/html\n\n<p>":                                                                      "text/html <p>",
		"Content-Type: nonsense;;;\n\nplain":                                                                  "text/plain plain",
		"Content-Type: application/pdf\n\n%PDF":                                                               " ",
		"Content-Transfer-Encoding: base64\n\naGVs\nbG8=":                                                     "text/plain hello",
		"Content-Transfer-Encoding: base64\n\n!!!":                                                            "text/plain !!!",
		"Content-Transfer-Encoding: quoted-printable\n\nh=C3=A9=\nllo":                                        "text/plain héllo",
		"Content-Type: text/plain; charset=gb2312\n\n\xc4\xe3\xba\xc3":                                        "text/plain 你好",
		"Content-Type: text/plain; charset=nobodys\n\nx\xff":                                                  "text/plain xÿ",
		mixed + "Content-Type: text/html\n\n<p>\n--x\n\nplain\n--x--":                                         "text/plain plain",
		mixed + "Content-Type: text/html\n\n<p>\n--x--":                                                       "text/html <p>",
		mixed + "Content-Disposition: attachment\n\nfile\n--x\n\nplain\n--x--":                                "text/plain plain",
		mixed + "Content-Type: multipart/alternative; boundary=y\n\n--y\n\ninner\n--y--\n--x\n\nouter\n--x--": "text/plain inner",
		mixed + "\nno end": "text/plain no end",
		"Content-Type: multipart/mixed\n\nno boundary":                                             "text/plain no boundary",
		"Content-Type: multipart/mixed\n\n--x y\n--z\n\npart\n--z--":                               "text/plain part",
		"Content-Type: multipart/mixed; boundary=x\n\nno boundary":                                 "text/plain no boundary",
		"Content-Type: multipart/mixed; name=\xce\xc4; boundary=x\n\n--x\nno field\n\n--x\n\npart": "text/plain no field\r\n",
		"Content-Type: message/rfc822\n\nSubject: inner\n\ninner":                                  "text/plain inner",
		mixed + "Content-Type: message/rfc822\n\nSubject: inner\n\ninner\n--x\n\nouter":            "text/plain outer",
		"Subject: x\nno empty line\nhere":                                                          "text/plain no empty line\r\nhere",
		"no header at all\nbut lines":                                                              "text/plain no header at all\r\nbut lines",
		"no header at all\n\nbut lines":                                                            "text/plain no header at all\r\n\r\nbut lines",
		"Content-Transfer-Encoding: base64\n\naGVs*bG8=\nIHlvdQ=":                                  "text/plain hello you",
		"Content-Transfer-Encoding: quoted-printable\n\n=zz=C3=A9= \n=":                            "text/plain =zzé",
		"Content-Type: text/html\n\n<meta charset=gbk>\xc4\xe3":                                    "text/html <meta charset=gbk>你",
		"Content-Type: text/plain; charset=utf-8\n\n\xc4\xe3\xba\xc3":                              "text/plain 你好",
		"Content-Type: text/plain; charset=utf-8\n\n你\xff\xff好":                                    "text/plain 你\uFFFD\uFFFD好",
		"Content-Type: text/plain; charset=gbk\n\n\xc4\xe3\xff\xba\xc3":                            "text/plain 你\uFFFD好",
	} {
		d := decoded(t, mail)
		if got := d.TextType + " " + d.Text; got != want {
			t.Errorf("%q: got %q, want %q", mail, got, want)
		}
	}
}

func TestHeaders(t *testing.T) {
	d := decoded(t, "From x Mon\nSubject: =?utf-8?B?5L2g5aW9?=\n =?iso-8859-1?Q?_=E9?=\nno field\nFrom: =?utf-8?Q?J=C3=B6rg?= <j@example.com>, broken@\n"+
		"To: undisclosed-recipients:;\nDate: yesterday\nMessage-ID: <a@b> x\nX: \xff\n\ntext")
	if d.Subject != "你好 é" || len(d.From) != 2 || d.From[0] != (Address{"Jörg", "j@example.com"}) || d.From[1] != (Address{Name: "broken@"}) || d.To != nil || d.Date != "" || d.MessageID != "a@b" || d.Text != "text" {
		t.Errorf("got %+v", d)
	}
	if last := d.Headers[len(d.Headers)-1]; last != (Field{"X", "ÿ", "ÿ"}) || len(d.Headers) != 6 {
		t.Errorf("got %+v", d.Headers)
	}
}

// The data of any mail stays within the limit and says what is missing.
func TestBounds(t *testing.T) {
	for name, mail := range map[string]string{
		"control characters": "\n" + strings.Repeat("\x01", MaxRaw-10),
		"a long subject":     "Subject: " + strings.Repeat("x", MaxRaw-100) + "\n\n",
		"many addresses":     "From: " + strings.Repeat("\"\\\"\\\"\\\"\\\"\" <a@example.com>, ", 3000) + "b@example.com\n\n",
		"many headers":       strings.Repeat("X: y\n", 20_000) + "\n",
		"many parts":         "Content-Type: multipart/mixed; boundary=x\n\n" + strings.Repeat("--x\nContent-Type: image/png\n\n\n", 3000) + "--x\n\ntext",
		"two long texts":     "References: " + strings.Repeat("<"+strings.Repeat("\x01", 900)+"@x> <y>", 70) + "\nContent-Type: multipart/alternative; boundary=x\n\n--x\n\n" + strings.Repeat("\x01", 20<<10) + "\n--x\nContent-Type: text/html\n\n" + strings.Repeat("\x02", 30<<10) + "\n--x--",
		"deep parts":         strings.Repeat("Content-Type: multipart/mixed; boundary=x\n\n--x\n", 2000),
	} {
		raw := Parse([]byte(mail), int64(len(mail))).Encode()
		var d Data
		if err := json.Unmarshal(raw, &d); err != nil || len(raw) > maxData {
			t.Errorf("%s: %d bytes: %v", name, len(raw), err)
		}
		if !d.Truncated && !strings.HasSuffix(name, "parts") {
			t.Errorf("%s: not said to be truncated", name)
		}
	}
	if d := Parse([]byte("Content-Type: multipart/mixed; boundary=x\r\n\r\n--x\r\nContent-Type: image/png\r\n\r\nxxx"), 1<<20).Encode(); !strings.Contains(string(d), `"truncated":true`) {
		t.Errorf("a text that was not reached: got %s", d)
	}
}

func FuzzData(f *testing.F) {
	f.Add([]byte("Content-Type: multipart/mixed; boundary=x\r\n\r\n--x\r\n\r\ntext\r\n--x--"), int64(9))
	f.Add([]byte("Subject: =?utf-8?B?5L2g5aW9?=\r\nContent-Transfer-Encoding: base64\r\n\r\naGVsbG8="), int64(0))
	all, _ := mails(f)
	for _, mail := range all {
		f.Add(mail, int64(len(mail)))
	}
	for _, c := range malformed {
		f.Add([]byte(c.mail), int64(len(c.mail)))
	}
	f.Fuzz(func(t *testing.T, raw []byte, size int64) {
		if len(raw) > MaxRaw {
			raw = raw[:MaxRaw]
		}
		if got := Parse(raw, size).Encode(); !json.Valid(got) || len(got) > maxData {
			t.Errorf("%d bytes: %.200s", len(got), got)
		}
	})
}

// A header may be folded into as many lines as fit into a mail.
func TestFoldedHeader(t *testing.T) {
	const lines = 40_000
	h, body := split([]byte("Subject: a\r\n" + strings.Repeat(" b\n", lines) + "To: c\n\td\n \n\ne\n"))
	if len(h) != 2 || h[0].Value != "a"+strings.Repeat(" b", lines) || h[1].Value != "c d " || string(body) != "e\n" {
		t.Errorf("%d fields, To is %q, the body %q", len(h), h.get("to"), body)
	}
	if h, _ := split([]byte(" b\nTo: c\n d")); len(h) != 1 || h[0].Value != "c d" {
		t.Errorf("got %q", h)
	}
}
