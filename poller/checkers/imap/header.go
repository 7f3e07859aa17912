package imap

import (
	"bytes"
	"io"
	"mime"
	"strings"

	"golang.org/x/net/html/charset"
)

const maxFields = 1000 // of one header

// field is one field of a header.
type field struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// header is a mail's or a part's header, in its order.
type header []field

// split returns the header and the body of a mail or a part. Like mail programs, and
// unlike net/mail, it skips lines that are not fields: no message may be lost because
// of one of its lines.
func split(raw []byte) (header, []byte) {
	var h header
	// Lines that continue a field are joined when the field ends, because a mail may
	// have tens of thousands of them.
	var folded []string
	end := func() {
		if len(folded) > 0 {
			last := &h[len(h)-1]
			last.Value = strings.Join(append([]string{last.Value}, folded...), " ")
			folded = folded[:0]
		}
	}
	defer end()
	for len(raw) > 0 {
		line, rest, _ := bytes.Cut(raw, []byte("\n"))
		raw = rest
		text := strings.TrimSuffix(string(line), "\r")
		switch {
		case text == "":
			return h, raw
		case text[0] == ' ' || text[0] == '\t':
			if len(h) > 0 {
				folded = append(folded, strings.TrimSpace(text))
			}
			continue
		}
		name, value, ok := strings.Cut(text, ":")
		if name = strings.TrimSpace(name); ok && name != "" && !strings.ContainsAny(name, " \t") && len(h) < maxFields {
			end()
			h = append(h, field{cut(valid(name), 256), strings.TrimSpace(value)})
		}
	}
	return h, nil
}

// get returns the text of the first field of a name, or an empty text.
func (h header) get(name string) string {
	for _, f := range h {
		if strings.EqualFold(f.Name, name) {
			return f.Value
		}
	}
	return ""
}

// decoder returns a decoder of encoded words (RFC 2047) in any charset that browsers
// know.
func decoder() *mime.WordDecoder { return &mime.WordDecoder{CharsetReader: charsetReader} }

func charsetReader(name string, input io.Reader) (io.Reader, error) {
	return charset.NewReaderLabel(name, input)
}

// decodeWords returns a field's text in UTF-8. A text that cannot be decoded is left
// unchanged.
func decodeWords(text string) string {
	if decoded, err := decoder().DecodeHeader(text); err == nil {
		text = decoded
	}
	return valid(text)
}

// valid returns a text as valid UTF-8.
func valid(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }
