package imap

import (
	"bytes"
	"encoding/base64"
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"strings"
)

const (
	maxDepth = 8  // parts in parts
	maxParts = 64 // parts that are searched
)

// finder searches for a mail's text: the first text/plain, or else the first
// text/html, that is not an attachment.
type finder struct {
	cutOff bool // not all of the mail was read
	parts  int

	plain, html *text // nil: none yet
}

// text is the text of a part.
type text struct {
	utf8  string
	whole bool
}

// findText returns a mail's text and its type, both empty if there is none, and
// whether the text is whole.
func findText(h header, body []byte, cutOff bool) (found, kind string, whole bool) {
	f := &finder{cutOff: cutOff}
	f.look(h, body, 0)
	switch {
	case f.plain != nil:
		return f.plain.utf8, "text/plain", f.plain.whole
	case f.html != nil:
		return f.html.utf8, "text/html", f.html.whole
	}
	return "", "", !cutOff
}

// look searches one part.
func (f *finder) look(h header, body []byte, depth int) {
	if f.parts++; f.plain != nil || f.parts > maxParts || depth > maxDepth {
		return
	}
	kind, params, _ := mime.ParseMediaType(h.get("Content-Type"))
	if !strings.Contains(kind, "/") {
		kind = "text/plain" // RFC 2045, section 5.2
	}
	disposition, _, _ := mime.ParseMediaType(h.get("Content-Disposition"))
	switch {
	case strings.HasPrefix(kind, "multipart/") && params["boundary"] != "":
		f.lookInside(body, params["boundary"], depth)
	case disposition == "attachment":
	case kind == "text/plain":
		f.plain = f.decode(h, body, params["charset"])
	case kind == "text/html" && f.html == nil:
		f.html = f.decode(h, body, params["charset"])
	}
}

// lookInside searches the parts of a part. If the mail was cut off, only the last part
// is incomplete.
func (f *finder) lookInside(body []byte, boundary string, depth int) {
	cutOff := f.cutOff
	defer func() { f.cutOff = cutOff }()
	reader := multipart.NewReader(bytes.NewReader(body), boundary)
	for f.plain == nil && f.parts <= maxParts {
		part, err := reader.NextRawPart()
		if err != nil {
			return
		}
		var h header
		for name, values := range part.Header {
			for _, value := range values {
				h = append(h, field{name, value})
			}
		}
		content, err := io.ReadAll(part)
		f.cutOff = cutOff && err != nil
		f.look(h, content, depth+1)
	}
}

// decode decodes transfer encoding and charset, as far as possible.
func (f *finder) decode(h header, body []byte, label string) *text {
	var from io.Reader = bytes.NewReader(body)
	switch strings.ToLower(h.get("Content-Transfer-Encoding")) {
	case "base64":
		from = base64.NewDecoder(base64.StdEncoding, from)
	case "quoted-printable":
		from = quotedprintable.NewReader(from)
	}
	decoded, err := io.ReadAll(io.LimitReader(from, maxBodyText+1))
	if err != nil && len(decoded) == 0 {
		decoded = body // the encoding is wrong: the raw text is better than none
	}
	whole := !f.cutOff && len(decoded) <= maxBodyText
	if label != "" {
		if reader, err := charsetReader(label, bytes.NewReader(decoded)); err == nil {
			if read, err := io.ReadAll(io.LimitReader(reader, 4*maxBodyText)); err == nil {
				decoded = read
			}
		}
	}
	return &text{valid(string(decoded)), whole}
}
