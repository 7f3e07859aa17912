// Package mailtest makes mails for tests.
package mailtest

import (
	"bytes"
	"encoding/base64"
	"mime/quotedprintable"
	"strings"
)

// Head is the header of a mail, without the type.
const Head = "From: a@example.com\r\nSubject: files\r\nMIME-Version: 1.0\r\n"

// Text is a part that is a text.
const Text = "Content-Type: text/plain\r\n\r\ntext"

// Attachment returns a part that is a file, in base64, quoted-printable or another transfer encoding,
// which is not applied.
func Attachment(name, encoding string, data []byte) string {
	head := "Content-Type: application/pdf\r\nContent-Disposition: attachment; filename=" + name + "\r\nContent-Transfer-Encoding: " + encoding + "\r\n\r\n"
	switch encoding {
	case "base64":
		return head + wrapped(data)
	case "quoted-printable":
		var out bytes.Buffer
		w := quotedprintable.NewWriter(&out)
		w.Binary = true
		_, _ = w.Write(data)
		_ = w.Close()
		return head + out.String()
	}
	return head + string(data)
}

// wrapped returns the base64 of bytes, in lines.
func wrapped(data []byte) string {
	var out strings.Builder
	for text := base64.StdEncoding.EncodeToString(data); text != ""; {
		n := min(76, len(text))
		out.WriteString(text[:n] + "\r\n")
		text = text[n:]
	}
	return out.String()
}

// Multipart returns a part of parts.
func Multipart(boundary string, parts ...string) string {
	return "Content-Type: multipart/mixed; boundary=" + boundary + "\r\n\r\n--" + boundary + "\r\n" + strings.Join(parts, "\r\n--"+boundary+"\r\n") + "\r\n--" + boundary + "--\r\n"
}

// Nested returns a mail with files at several depths, and what they hold, by name. Files without a
// name are by their type and their place, counted from 1. The mail has more than 128 KiB, and
// unread.pdf is behind them.
func Nested() (mail string, want map[string][]byte) {
	large := bytes.Repeat([]byte("large \x00\xff"), 60_000)
	forwarded := Head + Multipart("y", Text, Attachment("inner.pdf", "base64", []byte("inner")))
	plain := "Subject: plain\r\n\r\nforwarded"
	mail = Head + Multipart("x",
		Multipart("z", Text, Attachment("first.pdf", "quoted-printable", []byte("first = é"))),
		"Content-Type: message/rfc822\r\n\r\n"+forwarded,
		"Content-Type: message/rfc822\r\n\r\n"+plain,
		Attachment("none.pdf", "base64", nil),
		Attachment("large.pdf", "base64", large),
		Attachment("unread.pdf", "base64", []byte("behind what is read")),
	)
	return mail, map[string][]byte{
		"first.pdf": []byte("first = é"), "message/rfc822 2": []byte(forwarded), "message/rfc822 3": []byte(plain),
		"none.pdf": nil, "large.pdf": large, "mail.eml": []byte(mail),
	}
}
