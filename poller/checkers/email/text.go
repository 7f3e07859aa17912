package email

import (
	"strconv"
	"strings"

	"golang.org/x/net/html/charset"

	"github.com/rounds-dev/rounds/poller/checkers/message"
)

const (
	maxDepth = 8   // nested parts
	maxParts = 64  // parts that are read
	maxName  = 256 // bytes of an attachment's name
	maxType  = 128 // bytes of its type
)

// Attachment is a part of a mail that is not its text.
type Attachment struct {
	Name string `json:"name,omitempty"`
	Type string `json:"type"`
	Size int    `json:"size,omitempty"` // decoded bytes; 0 also if the part was not read to its end

	// Part is the part's number, by which the server gives it (RFC 3501, section 6.4.5). It is empty
	// where the server may count other parts, because the mail breaks the rules.
	Part     string `json:"part,omitempty"`
	Encoding string `json:"encoding,omitempty"` // base64 or quoted-printable; empty: the part is not encoded
}

// finder searches a mail for its texts and its attachments. The texts are the first
// text/plain that is not blank, and the first text/html. An attachment is neither.
// If there is no such text, they are the texts of the first mail that is forwarded within
// this one.
type finder struct {
	hint   *hint // see decodeBytes
	cutOff bool  // not all of the mail was read
	parts  int
	more   bool   // there are more parts than are read
	damage string // see Data

	plain, html *text // nil: none yet
	attachments []Attachment
	forwarded   *forwarded // nil: none yet
}

// text is the text of a part.
type text struct {
	utf8  string
	whole bool
}

// blank reports whether the text has nothing to read.
func (t *text) blank() bool { return strings.TrimSpace(t.utf8) == "" }

// forwarded is a mail within a mail.
type forwarded struct {
	raw    []byte
	cutOff bool
	depth  int
	number string
}

// find searches a mail.
func find(h header, body []byte, hint *hint, cutOff bool) *finder {
	f := &finder{hint: hint, cutOff: cutOff}
	f.look(h, body, 0, place{message: true})
	if inner := f.forwarded; inner != nil && f.plain == nil && f.html == nil {
		f.cutOff = inner.cutOff
		f.lookAt(inner.raw, inner.depth, place{inner.number, true, inner.number == ""})
		f.cutOff = cutOff
	}
	return f
}

// text returns the text and its type, the HTML beside a text/plain, and whether they are whole.
func (f *finder) text() (found, kind, html string, whole bool) {
	switch {
	case f.plain != nil && f.html == nil:
		return f.plain.utf8, "text/plain", "", f.plain.whole
	case f.plain != nil && !f.plain.blank():
		return f.plain.utf8, "text/plain", f.html.utf8, f.plain.whole && f.html.whole
	case f.html != nil:
		return f.html.utf8, "text/html", "", f.html.whole
	}
	return "", "", "", !f.cutOff
}

// damaged notes what is wrong with the mail, unless something else is already.
func (f *finder) damaged(what string) {
	if f.damage == "" {
		f.damage = what
	}
}

// lookAt searches one part with its header.
func (f *finder) lookAt(raw []byte, depth int, at place) {
	h, body := split(raw)
	f.look(h, body, depth, at)
}

// place is where a part is in its mail, as servers count.
type place struct {
	number  string // of the part; empty for the mail itself
	message bool   // it is a mail, whose parts are counted without one for itself
	unsure  bool   // the server may count otherwise
}

// within returns the place of the n-th part within a part, counted from 1.
func (p place) within(n int) place {
	number := strconv.Itoa(n)
	if p.number != "" {
		number = p.number + "." + number
	}
	return place{number, false, p.unsure}
}

// own returns the number of a part that has no parts; empty: nobody can be sure.
func (p place) own() string {
	if p.message {
		p = p.within(1)
	}
	if p.unsure {
		return ""
	}
	return p.number
}

// look searches one part.
func (f *finder) look(h header, body []byte, depth int, at place) {
	if f.parts++; f.parts > maxParts || depth > maxDepth {
		f.more = true
		return
	}
	kind, params := mediaType(h.get("Content-Type"), f.hint)
	if !strings.Contains(kind, "/") {
		kind = "text/plain" // RFC 2045, section 5.2
	}
	if strings.HasPrefix(kind, "multipart/") {
		if f.lookInside(body, params["boundary"], depth, at) {
			return
		}
		at.unsure = true
		f.damaged("a multipart has no boundaries")
		if decoded, _ := transferred(h, body); encodingOf(h) != "" && f.lookInside(decoded, params["boundary"], depth, at) {
			return // the parts were encoded all together, which RFC 2045, section 6.4 forbids
		}
		kind = "text/plain" // without parts, the text is better than none
	}
	disposition, named := mediaType(h.get("Content-Disposition"), f.hint)
	name := named["filename"]
	if name == "" {
		name = params["name"]
	}
	content, clean := transferred(h, body)
	if !clean {
		f.damaged("a part is not encoded as it says, in " + encodingOf(h))
	}
	switch {
	case kind == "message/rfc822" || kind == "message/global":
		if f.forwarded == nil {
			f.forwarded = &forwarded{content, f.cutOff, depth + 1, at.own()}
		}
	case disposition == "attachment":
	case kind == "text/plain" && (f.plain == nil || f.plain.blank()):
		f.plain = f.decode(content, kind, params["charset"])
		return
	case kind == "text/html" && f.html == nil:
		f.html = f.decode(content, kind, params["charset"])
		return
	}
	size := len(content)
	if f.cutOff {
		size = 0
	}
	f.attachments = append(f.attachments, Attachment{message.Cut(name, maxName), message.Cut(valid(kind), maxType), size, at.own(), encodingOf(h)})
}

// lookInside searches the parts of a part, and reports whether there are any. If the
// mail was cut off, only the last part is incomplete.
func (f *finder) lookInside(body []byte, boundary string, depth int, at place) bool {
	cutOff := f.cutOff
	defer func() { f.cutOff = cutOff }()
	parts := splitParts(body, boundary, maxParts+1)
	if boundary == "" || len(parts) == 0 {
		if boundary = findBoundary(body); boundary == "" {
			return false
		}
		parts, at.unsure = splitParts(body, boundary, maxParts+1), true
		f.damaged("a multipart does not name its boundary")
	}
	for i, p := range parts {
		f.cutOff = cutOff && !p.ended
		f.lookAt(p.raw, depth+1, at.within(i+1))
		if f.more {
			break
		}
	}
	return len(parts) > 0
}

// decode decodes the charset of a part.
func (f *finder) decode(content []byte, kind, label string) *text {
	whole := !f.cutOff && len(content) <= maxBodyText
	content = content[:min(len(content), maxBodyText+1)]
	if label == "" && kind == "text/html" {
		if _, name, certain := charset.DetermineEncoding(content, kind); certain {
			label = name
		}
	}
	return &text{strings.TrimPrefix(decodeBytes(content, label, f.hint), "\ufeff"), whole}
}
