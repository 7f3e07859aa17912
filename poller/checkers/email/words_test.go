package email

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/text/encoding/simplifiedchinese"
)

func TestDecodeWords(t *testing.T) {
	for text, want := range map[string]string{
		"plain = ? text":                                "plain = ? text",
		"=?gb18030?B?xOM=?=":                            "你",
		`"=?gb18030?B?xOM=?="`:                          `"你"`,
		"=?gbk?B?xA==?= =?GBK?Q?=E3?=":                  "你", // one character in two words
		"=?gbk?B?xA==?==?gbk?B?4w==?=":                  "你",
		"=?gbk?B?xA==?= x =?gbk?B?4w==?=":               "\uFFFD x \uFFFD",
		"=?utf-8?Q?a?= =?us-ascii?Q?b?=  =?x?q?_c?=":    "ab c",
		"a =?utf-8?Q?b?= c":                             "a b c",
		"=?utf-8*en?Q?h=C3=A9?=":                        "hé",
		"=?utf-8?B?5L2g5a W9?=":                         "你好", // a line that was folded within a word
		"=?utf-8?Q?a b?=":                               "a b",
		"=?nobodys?B?xOM=?=":                            "你",
		"=?utf-8?B?!?=":                                 "",
		"=?utf-8?X?abc?=":                               "=?utf-8?X?abc?=",
		"=?gb2312?Q?=C4=E3?= \xba\xc3":                  "你 好",
		"=?hz-gb-2312?B?fntEY359?=":                     "你",
		"=?iso-2022-jp?B?GyRCRnxLXBsoQg==?=":            "日本",
		"=?big5?B?p0Gmbg==?= =?ks_c_5601-1987?B?vsg=?=": "你好안",
	} {
		if got := decodeWords(text, nil); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

// GBK is recognized under each of its names.
func TestNamesOfGBK(t *testing.T) {
	for _, name := range []string{"gb2312", "GBK", "gb18030", "cp936", "CP-936", "windows-936", "ms936", "x-gbk", "GB_2312-80", "EUC-CN", "gb18030-2022", `"gbk"`} {
		if got := decodeBytes([]byte("\xe9\x46\x84\x31\xa4\x39"), name, nil); !strings.HasPrefix(got, "镕") || len([]rune(got)) != 2 {
			t.Errorf("%s: got %q", name, got)
		}
	}
}

// One wrong byte in a text in GBK costs one character, wherever a character ends.
func TestOneBadByte(t *testing.T) {
	const text = "您好，附件是本月的发票。"
	raw, err := simplifiedchinese.GBK.NewEncoder().Bytes([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	for at := 0; at <= len(raw); at += 2 {
		broken := slices.Insert(slices.Clone(raw), at, 0xff)
		got := []rune(decodeBytes(broken, "gbk", nil))
		if want := slices.Insert([]rune(text), at/2, utf8.RuneError); !slices.Equal(got, want) {
			t.Errorf("at %d: got %q", at, string(got))
		}
	}
}

// Short Chinese texts that declare nothing are recognized, and short European ones are
// not taken for Chinese.
func TestGuess(t *testing.T) {
	for _, text := range []string{"张", "张三", "发票", "会议", "Re: 发票 2026", "您好", "关于会议的通知", "朱镕基", "订单（已发货）"} {
		raw, err := simplifiedchinese.GBK.NewEncoder().Bytes([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if got := undeclared(raw, nil); got != text {
			t.Errorf("%s: got %q", text, got)
		}
	}
	for raw, want := range map[string]string{
		"J\xf6rg": "Jörg", "caf\xe9": "café", "Gr\xf6\xdfe": "Größe", "Zo\xeb & Fran\xe7ois": "Zoë & François",
		"\xcf\xf0\xe8\xe2\xe5\xf2": "Привет", "\xf0\xd2\xc9\xd7\xc5\xd4": "Привет", "你好\xff": "你好\uFFFD",
	} {
		if got := undeclared([]byte(raw), nil); got != want {
			t.Errorf("%q: got %q, want %q", raw, got, want)
		}
	}
	if got := undeclared([]byte("\xe9\x46"), &hint{likely: simplifiedchinese.GB18030}); got != "镕" {
		t.Errorf("with a hint: got %q", got)
	}
}

// A charset that no header can be in says nothing about the header.
func TestHintOfUTF16(t *testing.T) {
	d := decoded(t, "Subject: \xb7\xa2\xc6\xb1\nContent-Type: text/plain; charset=utf-16\n\n\xfe\xff\x4f\x60")
	if d.Subject != "发票" || d.Text != "你" {
		t.Errorf("got %q, %q", d.Subject, d.Text)
	}
}

// The raw field is beside the decoded one, byte for byte.
func TestRawHeaders(t *testing.T) {
	d := decoded(t, "Subject: =?gbk?B?xOM=?=\nX-A: \xc4\xe3\nX-B: plain\n\n")
	want := []Field{{"Subject", "你", "=?gbk?B?xOM=?="}, {"X-A", "你", "\u00c4\u00e3"}, {"X-B", "plain", ""}}
	if !slices.Equal(d.Headers, want) {
		t.Errorf("got %+v", d.Headers)
	}
}

func TestAddresses(t *testing.T) {
	for text, want := range map[string][]Address{
		"\xd5\xc5\xc8\xfd <z@example.com>":                  {{"张三", "z@example.com"}},
		`"=?gbk?B?1cXI/Q==?=" <z@example.com>, b@c.example`: {{"张三", "z@example.com"}, {"", "b@c.example"}},
		"=?gbk?B?1cXI/Q==?=<z@example.com>":                 {{"张三", "z@example.com"}},
		"=?utf-8?Q?a=2C_=22b=22?= <z@example.com>":          {{`a, "b"`, "z@example.com"}},
		"z@example.com (=?gbk?B?1cXI/Q==?=)":                {{"张三", "z@example.com"}},
		"broken@, Anna <anna@example.com>, x y":             {{"broken@", ""}, {"Anna", "anna@example.com"}, {"x y", ""}},
		"undisclosed-recipients:;":                          nil,
	} {
		d := new(Data)
		if got := d.addresses(text, nil); !slices.Equal(got, want) {
			t.Errorf("%q: got %+v", text, got)
		}
	}
}

func TestParameters(t *testing.T) {
	for text, want := range map[string]string{
		`a/b; name=x`:                        "x",
		`a/b; name="x;y\"z"`:                 `x;y"z`,
		`a/b; NAME = x ; n=1`:                "x",
		"a/b; name=\xc4\xe3":                 "你",
		`a/b; broken; name="=?gbk?B?xOM=?="`: "你",
		`a/b; name*=gb2312''%C4%E3%zz`:       "你%zz",
		`a/b; name*0*=gbk'zh'%C4; name*1*=%E3; name*2=.x; name*9=no`:          "你.x",
		`a/b; name*0="=?gbk?B?"; name*1="xOM=?="`:                             "你",
		`a/b; name=old; name*=utf-8''new`:                                     "new",
		`a/b; name*=x`:                                                        "x",
		"a/b" + strings.Repeat("; name*0=x", 10) + "; name*" + "99999999999=": "x",
	} {
		if kind, params := mediaType(text, nil); kind != "a/b" || params["name"] != want {
			t.Errorf("%q: got %q, %q, want %q", text, kind, params, want)
		}
	}
}

// Guessing by statistics is expensive, so it is done only a few times for one mail.
func TestGuessesAreBounded(t *testing.T) {
	hint := new(hint)
	words := decodeWords(strings.Repeat("=?x1?Q?=CF=F0=E8=E2=E5=F2?= =?x2?Q?=CF=F0=E8=E2=E5=F2?=", maxGuesses), hint)
	if !strings.HasPrefix(words, strings.Repeat("Привет", maxGuesses-1)) || strings.Count(words, "Привет") > maxGuesses || hint.guesses < 2*maxGuesses {
		t.Errorf("%d guesses: %q", hint.guesses, words)
	}
}

// Elements and depth are bounded, not only bytes, and the message says what was left out.
func TestBoundsOfParts(t *testing.T) {
	many := "Content-Type: multipart/mixed; boundary=x\n\n" + strings.Repeat("--x\nContent-Type: image/png; name="+strings.Repeat("\x01", 2*maxName)+"\n\nx\n", 3*maxParts) + "--x--"
	if d := decoded(t, many); len(d.Attachments) != maxParts-1 || len(d.Attachments[0].Name) != maxName || !d.Truncated {
		t.Errorf("%d attachments, truncated %t", len(d.Attachments), d.Truncated)
	}
	forwarded := strings.Repeat("Content-Type: message/rfc822\n\n", 3*maxDepth) + "\ndeep"
	if d := decoded(t, forwarded); len(d.Attachments) > maxDepth+1 {
		t.Errorf("%d attachments", len(d.Attachments))
	}
	nested := ""
	for i := range 3 * maxDepth { // each with a boundary of its own
		nested += fmt.Sprintf("Content-Type: multipart/mixed; boundary=x%d\n\n--x%d\n", i, i)
	}
	if d := decoded(t, nested+"\ndeep"); d.Text != "" || !d.Truncated {
		t.Errorf("got %q, truncated %t", d.Text, d.Truncated)
	}
}

// A long thread keeps its first mail and its last ones, and a mail some of its flags.
func TestBoundsOfThreadsAndFlags(t *testing.T) {
	thread := ""
	for i := range 2 * maxReferences {
		thread += fmt.Sprintf(" <%d@example.com>", i)
	}
	d := decoded(t, "References:"+thread+"\n\n")
	if n := len(d.References); n != maxReferences || !d.Truncated || d.References[0] != "0@example.com" || d.References[1] != fmt.Sprintf("%d@example.com", maxReferences+1) ||
		d.References[n-1] != fmt.Sprintf("%d@example.com", 2*maxReferences-1) {
		t.Errorf("%d ids, truncated %t: %q", n, d.Truncated, d.References)
	}
	if d := decoded(t, "References: <"+strings.Repeat("x", maxReference+1)+"> <a@b>\n\n"); !slices.Equal(d.References, []string{"a@b"}) || !d.Truncated {
		t.Errorf("got %q, truncated %t", d.References, d.Truncated)
	}
	flagged := new(Data)
	for i := range maxFlags {
		flagged.AddFlag(fmt.Sprintf("a%d", i))
		flagged.AddFlag(fmt.Sprintf("A%d", i))
	}
	flagged.AddFlag(`\Recent`)
	if len(flagged.Flags) != maxFlags || flagged.Truncated {
		t.Errorf("got %q, truncated %t", flagged.Flags, flagged.Truncated)
	}
	if flagged.AddFlag("one more"); len(flagged.Flags) != maxFlags || !flagged.Truncated {
		t.Errorf("got %q, truncated %t", flagged.Flags, flagged.Truncated)
	}
	long := new(Data)
	if long.AddFlag(strings.Repeat("x", maxFlag+1)); long.Flags != nil || !long.Truncated {
		t.Errorf("got %q, truncated %t", long.Flags, long.Truncated)
	}
}

// An attachment that was not read to its end is reported without a size.
func TestAttachmentThatIsCutOff(t *testing.T) {
	mail := "Content-Type: multipart/mixed; boundary=x\r\n\r\n--x\r\n\r\ntext\r\n--x\r\nContent-Type: image/png; name=a.png\r\n\r\nxxx"
	var d Data
	if err := json.Unmarshal(Parse([]byte(mail), 1<<20).Encode(), &d); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(d.Attachments, []Attachment{{Name: "a.png", Type: "image/png", Part: "2"}}) || d.Text != "text" {
		t.Errorf("got %+v", d)
	}
}

// A field in any charset becomes valid UTF-8. A field in plain ASCII stays as it is.
func FuzzWords(f *testing.F) {
	f.Add("=?gbk?B?xA==?= =?GBK?Q?=E3?=", "gbk")
	f.Add("\xd5\xc5\xc8\xfd <z@example.com>, \"", "")
	f.Add("a/b; name*0*=gb2312''%C4; name*1*=%E3", "utf-16")
	f.Fuzz(func(t *testing.T, text, label string) {
		hint := &hint{likely: lookup(label)}
		got := decodeWords(text, hint)
		if !utf8.ValidString(got) || plain(text) && got != text {
			t.Errorf("got %q", got)
		}
		d := new(Data)
		for _, a := range d.addresses(text, hint) {
			if !utf8.ValidString(a.Name + a.Address) {
				t.Errorf("got %+v", a)
			}
		}
		if _, params := mediaType(text, hint); !utf8.ValidString(params["name"]) {
			t.Errorf("got %q", params)
		}
		if body := decodeBytes([]byte(text), label, hint); !utf8.ValidString(body) {
			t.Errorf("got %q", body)
		}
		if encoded, clean := decodeBase64([]byte(base64.StdEncoding.EncodeToString([]byte(text)))); string(encoded) != text || !clean {
			t.Errorf("base64: got %q", encoded)
		}
	})
}
