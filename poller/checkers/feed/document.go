package feed

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strings"

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
)

// isJSON reports whether the parser will read an answer as JSON.
func isJSON(body []byte) bool {
	rest := body
	for len(rest) > 0 && strings.IndexByte(skipped, rest[0]) >= 0 {
		rest = rest[1:]
	}
	return len(rest) > 0 && rest[0] == '{'
}

// document prepares an answer in XML. Guard and the parser then read the same bytes:
// UTF-8 without the control characters that the parser skips, and without a
// declaration, so that neither of them converts anything. The answer is overwritten.
func document(body []byte) ([]byte, error) {
	text := clean(body)
	text = bytes.TrimLeft(bytes.TrimPrefix(text, []byte("\xef\xbb\xbf")), " \t\r\n")
	if !bytes.HasPrefix(text, []byte("<?xml")) {
		return text, nil
	}
	// The declaration is read by the parser's own rules.
	var label string
	decoder := xml.NewDecoder(bytes.NewReader(text))
	decoder.Strict = false
	decoder.CharsetReader = func(declared string, _ io.Reader) (io.Reader, error) {
		label = declared
		return nil, errDeclared
	}
	_, err := decoder.Token()
	if label == "" {
		return text, err
	}
	text, err = convert(text[decoder.InputOffset():], label)
	return clean(text), err
}

// convert converts a text to UTF-8 of at most maxGrowth times its length.
func convert(text []byte, label string) ([]byte, error) {
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
