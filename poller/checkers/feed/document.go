package feed

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/html/charset"
)

// skipped are the bytes that the parser skips, one by one, before it decides
// between XML and JSON.
const skipped = "\xef\xbb\xbf\xfe\xff\x00 \t\r\n"

// maxGrowth is how many times longer a text may become as UTF-8: Cyrillic and
// Greek double.
const maxGrowth = 2

var (
	errDeclared = errors.New("an encoding is declared elsewhere than at the start")
	errGrowth   = errors.New("the text grows too long as UTF-8")
	errUnknown  = errors.New("the encoding is not known")
)

// isJSON reports whether the parser will read an answer as JSON.
func isJSON(body []byte) bool {
	rest := body
	for len(rest) > 0 && strings.IndexByte(skipped, rest[0]) >= 0 {
		rest = rest[1:]
	}
	return len(rest) > 0 && rest[0] == '{'
}

// document prepares an answer in XML. guard and the parser then read the same bytes, and neither
// converts anything: the text is UTF-8, has only characters that XML allows, without the control
// characters that the parser skips, and has no declaration. The answer is overwritten.
//
// The encoding is what a byte order mark says, else the answer's Content-Type (RFC 7303), else the
// declaration. But text beyond ASCII that is valid UTF-8 is read as UTF-8, whatever single-byte
// encoding is declared. document also returns the first line with a character that XML does not
// allow, or 0.
func document(body []byte, contentType string) (text []byte, line int, err error) {
	label, text := marked(body)
	if label != "" {
		if text, err = convert(text, label); err != nil {
			return nil, 0, err
		}
	}
	text = clean(text)
	if isJSON(text) {
		return nil, 0, errXML // a control byte came first, so it was judged as XML
	}
	text = text[max(0, bytes.IndexByte(text, '<')):] // XML allows nothing before that, but often something is there
	end, declared := declaration(text)
	text = text[end:]
	if label == "" && !(utf8.Valid(text) && !ascii(text)) {
		header := ""
		if told := headerCharset.FindStringSubmatch(contentType); told != nil {
			header = told[1]
		}
		if converted, err := convert(text, saidOf(text, header, declared)); errors.Is(err, errGrowth) {
			return nil, 0, err
		} else if err == nil {
			text = clean(converted)
		} // the UTF-8 in an unknown encoding can be read
	}
	most := maxGrowth * len(body)
	if text, line = legal(text); len(text) > most {
		return nil, 0, errGrowth
	}
	return text, line, nil
}

// marked returns the encoding that a byte order mark or the pattern of the first bytes shows, and
// the text after the mark.
func marked(text []byte) (label string, rest []byte) {
	for _, m := range []struct{ mark, label string }{{"\xef\xbb\xbf", ""}, {"\xff\xfe", "utf-16le"}, {"\xfe\xff", "utf-16be"}} {
		if rest, ok := bytes.CutPrefix(text, []byte(m.mark)); ok {
			return m.label, rest
		}
	}
	switch {
	case bytes.HasPrefix(text, []byte("<\x00")):
		return "utf-16le", text
	case bytes.HasPrefix(text, []byte("\x00<")):
		return "utf-16be", text
	}
	return "", text
}

// wide reports whether an encoding has two or four bytes for each character.
func wide(label string) bool {
	label = strings.ToLower(label)
	return strings.HasPrefix(label, "utf-16") || strings.HasPrefix(label, "utf-32") || strings.HasPrefix(label, "ucs-") || strings.HasPrefix(label, "iso-10646-ucs")
}

func ascii(text []byte) bool {
	return bytes.IndexFunc(text, func(char rune) bool { return char >= utf8.RuneSelf }) < 0
}

// saidOf returns the first of the declared encodings that is known and that the text can be in, else
// a guess, else "". The text must be ASCII, or not UTF-8.
func saidOf(text []byte, said ...string) string {
	plain := ascii(text)
	for _, label := range said {
		encoding, name := charset.Lookup(label)
		switch {
		case encoding == nil, wide(name), name == "utf-8":
		case plain && !strings.HasPrefix(name, "iso-2022"): // ASCII already
		default:
			return label
		}
	}
	if singleBytes(text) {
		return "windows-1252" // as browsers do
	}
	return ""
}

// singleBytes reports whether a text beyond ASCII has more bytes that are not UTF-8 than characters
// that are.
func singleBytes(text []byte) bool {
	good, bad := 0, 0
	for at := 0; at < len(text); {
		if text[at] < utf8.RuneSelf {
			at++
			continue
		}
		_, size := utf8.DecodeRune(text[at:])
		if at += size; size > 1 {
			good++
		} else {
			bad++
		}
	}
	return bad > good
}

var (
	headerCharset  = regexp.MustCompile(`(?i)[; \t]charset[ \t]*=[ \t]*["']?([A-Za-z0-9._:-]+)`)
	xmlDeclaration = regexp.MustCompile(`^<\?xml[ \t\r\n][^<>]{0,200}\?>`)
	xmlEncoding    = regexp.MustCompile(`[ \t\r\n]encoding[ \t\r\n]*=[ \t\r\n]*["']([A-Za-z0-9._:-]+)["']`)
)

// declaration returns the end of a text's XML declaration, of any version, and the encoding that it
// names.
func declaration(text []byte) (end int, label string) {
	found := xmlDeclaration.Find(text)
	if encoding := xmlEncoding.FindSubmatch(found); encoding != nil {
		label = string(encoding[1])
	}
	return len(found), label
}

// legal replaces everything that XML does not allow. Bytes that are not UTF-8, and forbidden
// characters, become U+FFFD; references to such characters are removed. It returns the first line
// that has any.
func legal(text []byte) ([]byte, int) {
	first := -1
	bad := func(at int) {
		if first < 0 {
			first = at
		}
	}
	out, from := []byte(nil), 0 // the text before from is already in out
	for at := 0; at < len(text); {
		char, size := rune(text[at]), 1
		if char >= utf8.RuneSelf {
			char, size = utf8.DecodeRune(text[at:])
		}
		switch {
		case char == utf8.RuneError && size == 1, char == 0xFFFE, char == 0xFFFF:
			bad(at)
			out = append(append(out, text[from:at]...), "\uFFFD"...)
			from = at + size
		case char == '&' && at+1 < len(text) && text[at+1] == '#':
			if end := strayReference(text[at:]); end > 0 {
				bad(at)
				out = append(out, text[from:at]...)
				size, from = end, at+end
			}
		}
		at += size
	}
	if first < 0 {
		return text, 0
	}
	line := 1 + bytes.Count(text[:first], []byte("\n"))
	return append(out, text[from:]...), line
}

// strayReference returns the length of the character reference with which a text begins, if XML
// does not allow its character, and otherwise 0. The text must begin with "&#".
func strayReference(text []byte) int {
	end := bytes.IndexByte(text[:min(len(text), 12)], ';')
	if end < 0 {
		return 0
	}
	digits, base := string(text[2:end]), 10
	if hex, ok := strings.CutPrefix(digits, "x"); ok {
		digits, base = hex, 16
	}
	code, err := strconv.ParseUint(digits, base, 32)
	switch {
	case err != nil:
		return 0
	case code == '\t', code == '\n', code == '\r', code >= ' ' && code <= 0xD7FF, code >= 0xE000 && code <= 0xFFFD, code >= 0x10000 && code <= utf8.MaxRune:
		return 0
	}
	return end + 1
}

// convert converts a text to UTF-8 that is at most maxGrowth times as long.
func convert(text []byte, label string) ([]byte, error) {
	if encoding, _ := charset.Lookup(label); encoding == nil {
		return nil, errUnknown
	}
	reader, err := charset.NewReaderLabel(label, bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	most := maxGrowth * len(text)
	out := bytes.NewBuffer(make([]byte, 0, len(text)+len(text)/4+bytes.MinRead))
	if _, err := out.ReadFrom(io.LimitReader(reader, int64(most)+1)); err != nil {
		return nil, err
	}
	if out.Len() > most {
		return nil, errGrowth
	}
	return out.Bytes(), nil
}

// clean drops, in place, the control characters that the parser drops.
func clean(text []byte) []byte {
	kept := text[:0]
	for _, char := range text {
		if char >= ' ' || char == '\t' || char == '\n' || char == '\r' {
			kept = append(kept, char)
		}
	}
	return kept
}
