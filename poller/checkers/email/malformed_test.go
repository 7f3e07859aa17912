package email

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

// malformed are mails that break the rules as real ones did. Each names who saw that, or the rule that
// it breaks; RFC 7103 has advice on many of them.
var malformed = []struct {
	source string
	mail   string
	want   Data // with damage, and of attachments the name and the type
}{
	// Headers.
	{
		"RFC 7103, section 7.2: a line in the header is no field",
		"From: user@example.com\nTo: userpal@example.net\nSubject: This is your reminder\nabout the football game tonight\nDate: Wed, 20 Oct 2010 20:53:35 -0400\n\nDon't forget!",
		Data{From: at("user@example.com"), To: at("userpal@example.net"), Subject: "This is your reminder", Date: "2010-10-20T20:53:35-04:00", Text: "Don't forget!"},
	},
	{
		"MailCore/mailcore2#689: an mbox line comes first",
		"From a@example.com Fri Feb 14 08:55:52 2014\nFrom: a@example.com\nSubject: x\n\ntext",
		Data{From: at("a@example.com"), Subject: "x", Text: "text"},
	},
	{
		"GOVCERT-LU/eml_parser#58: no line break between two fields",
		"Message-ID:  \n <some@example.com>MIME-Version: 1.0\nSubject: x\n\ntext",
		Data{MessageID: "some@example.com", Subject: "x", Text: "text"},
	},
	{
		"staktrace/mailparse#68: no empty line before the body",
		"From: a@example.com\nSubject: x\nHello,\nyou have won",
		Data{From: at("a@example.com"), Subject: "x", Text: "Hello,\nyou have won"},
	},
	{
		"s1t5/mail-archiver#499: an empty line amid the header ends it",
		"To: a@example.com\n\nSubject: Order\nFrom: b@example.com\n\ntext",
		Data{To: at("a@example.com"), Text: "Subject: Order\nFrom: b@example.com\n\ntext"},
	},
	{
		"a script that is stored with a byte order mark",
		"\ufeffSubject: x\nFrom: a@example.com\n\ntext",
		Data{From: at("a@example.com"), Subject: "x", Text: "text"},
	},
	{
		"RFC 5322, section 4.5: blanks before the colon",
		"Subject : x\nFrom\t: a@example.com\n\ntext",
		Data{From: at("a@example.com"), Subject: "x", Text: "text"},
	},
	{
		"RFC 7103, section 7.5.1: two fields of which one is allowed: the first counts",
		"Subject: one\nSubject: two\nFrom: a@example.com\nFrom: b@example.com\n\ntext",
		Data{From: at("a@example.com"), Subject: "one", Text: "text"},
	},
	{
		"RFC 7103, section 7.3: a folded field with a line of blanks",
		"Subject: a\n \n b\nFrom: a@example.com\n\ntext",
		Data{From: at("a@example.com"), Subject: "a  b", Text: "text"},
	},
	{
		"RFC 5322, section 4: a NUL in the header and in the text",
		"Subject: a\x00b\n\nte\x00xt",
		Data{Subject: "a\x00b", Text: "te\x00xt"},
	},

	// Encoded words.
	{
		"zammad/zammad#2953: a character is split over two encoded words, in base64",
		"Subject: =?utf-8?B?QmVow7ZyZGVuIGbD?=\n =?utf-8?B?vHIgTcOkcno=?=\n\n",
		Data{Subject: "Behörden für März"},
	},
	{
		"neomutt/neomutt#1015: a character is split over two encoded words, in Q",
		"Subject: =?UTF-8?Q?pasi=C5=BEad=C4?=\n =?UTF-8?Q?=97jim=C5=B3!?=\n\n",
		Data{Subject: "pasižadėjimų!"},
	},
	{
		"mikel/mail#1397: an escape sequence of ISO-2022-JP is split over two encoded words",
		"Subject: =?iso-2022-jp?Q?=1B=24B0F7o=3EpJs=1B=28B_=1B=24?=\n =?iso-2022-jp?Q?BBg=3Cj=1B=28B?=\n\n",
		Data{Subject: "案件情報 大手"},
	},
	{
		"postalsys/postal-mime#68: padding within adjacent encoded words",
		"Subject: =?ISO-2022-JP?B?GyRCRUUbKEI=?=\n =?ISO-2022-JP?B?GyRCO1IbKEI=?=\n\n",
		Data{Subject: "電子"},
	},
	{
		"thunderbird/thunderbird-android#2499: GBK called gb2312, base64 without padding",
		"Subject: =?gb2312?B?0OnQxKOoQUSjqQ?=\n\n",
		Data{Subject: "虚心（AD）"},
	},
	{
		"RFC 2047, section 5 (3): encoded words within quotes, in a name and in a parameter",
		"From: \"=?utf-8?B?5byg5LiJ?=\" <z@example.com>\nContent-Type: application/pdf; name=\"=?utf-8?B?5Y+R56Wo?=.pdf\"\n\nx",
		Data{From: []Address{{"张三", "z@example.com"}}, Attachments: []Attachment{{Name: "发票.pdf", Type: "application/pdf"}}},
	},
	{
		"RFC 2047, section 2: blanks within an encoded word, and one that was cut off",
		"Subject: =?utf-8?Q?a b =E4=BD=A0?= =?utf-8?B?5L2g\n\n",
		Data{Subject: "a b 你 =?utf-8?B?5L2g"},
	},

	// Ids, threads and dates.
	{
		"RFC 822, section 4.6.2: words beside the id",
		"In-Reply-To: Your message of \"Mon, 2 Jan 2006\" <a@example.com>\nReferences: the thread <a@example.com>, <b@example.com><a@example.com>\n\n",
		Data{InReplyTo: "a@example.com", References: []string{"a@example.com", "b@example.com"}},
	},
	{
		"RFC 5322, section 3.6.4: ids without angle brackets, and one that is folded",
		"Message-ID: a@example.com\nReferences: b@example.com c@example.com\nIn-Reply-To: <d@\n example.com>\n\n",
		Data{MessageID: "a@example.com", References: []string{"b@example.com", "c@example.com"}, InReplyTo: "d@example.com"},
	},
	{
		"RFC 5322, section 4.3: a zone with a name",
		"Date: Mon, 2 Jan 06 15:04:05 EST\n\n",
		Data{Date: "2006-01-02T15:04:05-05:00"},
	},
	{
		"RFC 5322, section 3.3: a zone that is no offset, a weekday in another language",
		"Date: lun., 2 Jan 2006 15:04:05 GMT+08:00 (CST)\n\n",
		Data{Date: "2006-01-02T15:04:05+08:00"},
	},
	{
		"RFC 5322, section 3.3: a date of another standard",
		"Date: 2006-01-02T15:04:05Z\n\n",
		Data{Date: "2006-01-02T15:04:05Z"},
	},
	{
		"RFC 5322, section 4.3: a zone whose name says nothing",
		"Date: Mon, 2 Jan 2006 15:04:05 LMT\n\n",
		Data{},
	},

	// Addresses.
	{
		"rspamd/rspamd#6143: semicolons between addresses",
		"To: A <a@example.com>; b@example.com;\n\n",
		Data{To: []Address{{"A", "a@example.com"}, {"", "b@example.com"}}},
	},
	{
		"RFC 7103, sections 7.1.2 and 7.1.3: an angle bracket too many, and one too few",
		"From: <<a@example.com>>\nTo: b <b@example.com\nCc: <c@example.com\n\n",
		Data{From: at("a@example.com"), To: []Address{{"b", "b@example.com"}}, Cc: at("c@example.com")},
	},
	{
		"RFC 7103, section 7.1.5, and nodemailer/addressparser#9: a comma in a name that is not quoted",
		"From: Doe, John <john@example.com>\n\n",
		Data{From: []Address{{Name: "Doe"}, {"John", "john@example.com"}}},
	},
	{
		"RFC 5322, section 3.4: an address as a name that is not quoted, and no domain",
		"From: a@example.com <a@example.com>\nTo: MAILER-DAEMON (Mail Delivery System)\n\n",
		Data{From: []Address{{"a@example.com", "a@example.com"}}, To: []Address{{Name: "MAILER-DAEMON (Mail Delivery System)"}}},
	},

	// Parts.
	{
		"mikel/mail#379: the inner boundary begins with the outer one",
		"Content-Type: multipart/mixed; boundary=foo\n\n--foo\nContent-Type: multipart/alternative; boundary=foo_bar\n\n--foo_bar\n\nplain\n--foo_bar\nContent-Type: text/html\n\n<p>\n--foo_bar--\n--foo\nContent-Type: image/png; name=a.png\n\nx\n--foo--",
		Data{Text: "plain", HTML: "<p>", Attachments: []Attachment{{Name: "a.png", Type: "image/png"}}},
	},
	{
		"staktrace/mailparse#100: the inner boundary is the outer one with two hyphens more",
		"Content-Type: multipart/mixed; boundary=\"sb\"\n\n--sb\nContent-Type: multipart/alternative; boundary=\"--sb\"\n\n----sb\nContent-Type: text/html;\n\n<em>Good</em>\n----sb\nContent-Type: text/plain;\n\nGood\n----sb\n--sb",
		Data{Text: "Good", HTML: "<em>Good</em>"},
	},
	{
		"php-mime-mail-parser#470: text that begins like the last boundary",
		"Content-Type: multipart/mixed; boundary=\"Part\"\n\n--Part\n\nabc\n\n--Part--More\n\n--Part--",
		Data{Text: "abc\n\n--Part--More\n"},
	},
	{
		"nodemailer/mailparser#263 and #224: cPanel's boundaries never end",
		"Content-Type: multipart/mixed; boundary=m\n\n--m\nContent-Type: multipart/alternative; boundary=a\n\n--a\n\nTest\n\n--a\nContent-Type: multipart/related; boundary=r\n\n--r\nContent-Type: text/html\n\n<b>Test</b>\n\n--r\n--a\n--m\nContent-Type: text/plain; name=log.txt\nContent-Disposition: attachment\n\nlog",
		Data{Text: "Test\n", HTML: "<b>Test</b>\n", Attachments: []Attachment{{Name: "log.txt", Type: "text/plain"}}},
	},
	{
		"nodemailer/mailparser#252: the boundary's line is not folded",
		"Content-Type: multipart/alternative;\nboundary=\"x\"\n\n--x\n\nplain\n--x\nContent-Type: text/html\n\n<p>\n--x--",
		Data{Text: "plain", HTML: "<p>", Damage: "a multipart does not name its boundary"},
	},
	{
		"kisli/vmime#227: blanks behind a boundary, and a boundary in the text",
		"Content-Type: multipart/mixed; boundary=x\n\n--x \t\n\nsee --x\n--x-- \n",
		Data{Text: "see --x"},
	},
	{
		"zbateson/mail-mime-parser#55: a boundary's value is folded",
		"Content-Type: multipart/mixed; boundary=\"=_mixed\n 00\"\n\n--=_mixed 00\n\ntext\n--=_mixed 00--",
		Data{Text: "text"},
	},
	{
		"golang/go#6507: a multipart says that it is quoted-printable",
		"Content-Type: multipart/related; boundary=\"==9==\"\nContent-Transfer-Encoding: quoted-printable\n\nThis is a multi-part message in MIME format.\n--==9==\nContent-Type: text/html; charset=utf-8\nContent-Transfer-Encoding: quoted-printable\n\n<p>=C3=A9\n--==9==--",
		Data{Text: "<p>é"},
	},
	{
		"RFC 2045, section 6.4: a multipart in base64",
		"Content-Type: multipart/mixed; boundary=x\nContent-Transfer-Encoding: base64\n\nLS14CgppbnNpZGUKLS14LS0K",
		Data{Text: "inside", Damage: "a multipart has no boundaries"},
	},
	{
		"RFC 2046, section 5.2.1: a forwarded mail in base64",
		"Content-Type: message/rfc822\nContent-Transfer-Encoding: base64\n\nU3ViamVjdDogeAoKaW5uZXI=",
		Data{Text: "inner", Attachments: []Attachment{{Type: "message/rfc822"}}},
	},
	{
		"MIME without an end: the mail was cut on its way, within base64",
		"Content-Type: multipart/mixed; boundary=x\n\n--x\n\ntext\n--x\nContent-Type: image/png; name=a.png\nContent-Transfer-Encoding: base64\n\niVBORw0KG",
		Data{Text: "text", Attachments: []Attachment{{Name: "a.png", Type: "image/png"}}, Damage: "a part is not encoded as it says, in base64"},
	},

	// Types and encodings.
	{
		"RFC 2045, section 5.2: types that are none",
		"Content-Type: text\n\ntext",
		Data{Text: "text"},
	},
	{
		"SpamScope/mail-parser#117 and RFC 2045, section 6.1: encodings with a comment, in quotes, in capitals",
		"Content-Type: multipart/alternative; boundary=x\n\n--x\nContent-Transfer-Encoding: \"Quoted-Printable\"\n\n=C3=A9\n--x\nContent-Type: text/html\nContent-Transfer-Encoding: BASE64 (of course)\n\nPHA+\n--x--",
		Data{Text: "é", HTML: "<p>"},
	},
	{
		"zbateson/mail-mime-parser#31: text that is not quoted-printable, as it says",
		"Content-Transfer-Encoding: quoted-printable\n\n<a href=\"x\"> 1+1=two",
		Data{Text: "<a href=\"x\"> 1+1=two", Damage: "a part is not encoded as it says, in quoted-printable"},
	},
	{
		"RFC 2231, section 4: a parameter without a charset, one in quotes, and one that is given twice",
		"Content-Type: multipart/mixed; boundary=x; boundary=y\n\n--x\nContent-Disposition: attachment; filename*=%E5%8F%91.pdf\n\n--x\nContent-Disposition: attachment; filename*=\"utf-8''%E5%8F%91.pdf\"\n\n--x\nContent-Disposition: attachment; filename=my file.pdf; size=1\n\n--x--",
		Data{Attachments: []Attachment{{Name: "发.pdf", Type: "text/plain"}, {Name: "发.pdf", Type: "text/plain"}, {Name: "my file.pdf", Type: "text/plain"}}},
	},
	{
		"RFC 7103, section 7.7: bytes beyond ASCII in a text that says us-ascii, and in the header",
		"Subject: Gr\xfc\xdfe an Jos\xe9\nContent-Type: text/plain; charset=us-ascii\n\nGr\xfc\xdfe an Jos\xe9",
		Data{Subject: "Grüße an José", Text: "Grüße an José"},
	},
	{
		"WHATWG Encoding: Windows-1252 that says iso-8859-1",
		"Content-Type: text/plain; charset=iso-8859-1\n\n\x93quoted\x94 \x80",
		Data{Text: "“quoted” €"},
	},
	{
		"a charset with a name that no registry has",
		"Content-Type: text/plain; charset=win-1251\n\n\xcf\xf0\xe8\xe2\xe5\xf2",
		Data{Text: "Привет"},
	},
}

// at is a list of one address without a name.
func at(text string) []Address { return []Address{{Address: text}} }

// What can be read of malformed mail is read, with both kinds of line breaks, and what breaks the rules
// of MIME is said.
func TestMalformed(t *testing.T) {
	for _, c := range malformed {
		for _, end := range []string{"\n", "\r\n"} {
			lines := strings.NewReplacer("\n", end)
			mail := []byte(lines.Replace(c.mail))
			var got Data
			d := Parse(mail, int64(len(mail)))
			if err := json.Unmarshal(d.Encode(), &got); err != nil {
				t.Fatalf("%s: %v", c.source, err)
			}
			got.Damage = d.Damage
			want := c.want
			want.Text, want.HTML, want.Size, want.Damaged = lines.Replace(want.Text), lines.Replace(want.HTML), int64(len(mail)), want.Damage != ""
			for i, a := range got.Attachments {
				got.Attachments[i] = Attachment{Name: a.Name, Type: a.Type}
			}
			if got.TextType = ""; !reflect.DeepEqual(withoutHeaders(got), want) {
				t.Errorf("%s:\ngot  %+v\nwant %+v", c.source, withoutHeaders(got), want)
			}
		}
	}
}

func withoutHeaders(d Data) Data {
	d.Headers = nil
	return d
}
