package imap

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding"
)

const maxFields = 1000 // of one header

// field is one field of a header.
type field struct {
	Name  string `json:"name"`
	Value string `json:"value"` // in a message: decoded
	// Raw is the field as it came, if decoding changed it. A byte beyond ASCII is the
	// character of that number, as in ISO 8859-1, so that no byte is lost.
	Raw string `json:"raw,omitempty"`
}

// decoded returns the field for a message, of a mail that declares the hint.
func (f field) decoded(d *data, hint *hint) field {
	shown := field{Name: f.Name, Value: d.cut(decodeWords(f.Value, hint), 2*maxLine)}
	if !plain(f.Value) {
		raw := make([]rune, 0, min(len(f.Value), 2*maxLine))
		for i := range min(len(f.Value), 2*maxLine) {
			raw = append(raw, rune(f.Value[i]))
		}
		d.Truncated = d.Truncated || len(f.Value) > 2*maxLine
		shown.Raw = string(raw)
	}
	return shown
}

// header is a mail's or a part's header, in its order. Its values are bytes in any
// charset.
type header []field

// split returns the header and the body of a mail or a part. Like mail programs, and
// unlike net/mail, it skips lines that are not fields: no message may be lost because
// of one of its lines. Without any field, all of it is the body. If no empty line ends the
// header, the body is what follows the last field.
func split(raw []byte) (header, []byte) {
	var h header
	whole, after := raw, raw // after the last field
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
		text := strings.TrimSuffix(string(line), "\r")
		switch {
		case text == "" && len(h) == 0 && len(whole) != len(raw):
			return nil, whole
		case text == "":
			return h, rest
		case text[0] == ' ' || text[0] == '\t':
			if len(h) > 0 {
				folded = append(folded, strings.TrimSpace(text))
				after = rest
			}
			raw = rest
			continue
		}
		raw = rest
		name, value, ok := strings.Cut(text, ":")
		if name = strings.TrimSpace(name); ok && name != "" && !strings.ContainsAny(name, " \t") && len(h) < maxFields {
			end()
			h = append(h, field{Name: cut(valid(name), 256), Value: strings.TrimSpace(value)})
			after = rest
		}
	}
	if len(h) == 0 {
		return nil, whole
	}
	return h, after
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

// hint returns the likely charset of texts of the mail that declare none: what the header
// names, in its type or in an encoded word, or else a guess from all of the header.
func (h header) hint() *hint {
	return &hint{likely: h.likely()}
}

func (h header) likely() encoding.Encoding {
	_, params := mediaType(h.get("Content-Type"), nil)
	if named := lookup(params["charset"]); extendsASCII(named) {
		return named
	}
	var beyond []byte
	for _, f := range h {
		if word := encodedWord.FindStringSubmatch(f.Value); word != nil {
			if named := lookup(word[1]); extendsASCII(named) {
				return named
			}
		}
		if !utf8.ValidString(f.Value) && len(beyond) < maxSample {
			beyond = append(append(beyond, f.Value...), '\n')
		}
	}
	if len(beyond) == 0 {
		return nil
	}
	return guess(beyond, nil)
}

// extendsASCII reports whether a charset can be that of a header. UTF-16 cannot, and nearly
// all bytes mean something in it.
func extendsASCII(named encoding.Encoding) bool {
	if named == nil {
		return false
	}
	text, _ := decodeAs(named, []byte("Az"))
	return text == "Az"
}
