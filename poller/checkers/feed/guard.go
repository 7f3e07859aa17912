package feed

import (
	"bytes"
	"encoding/xml"
	"errors"
	"strings"

	"golang.org/x/net/html/charset"
)

const (
	maxDepth      = 512     // of elements in elements; the parser recurses, and a full stack cannot be recovered from
	maxNamespaces = 1024    // the parser looks through all of them at each foreign element
	maxTextCost   = 2 << 30 // bytes copied while mixed text is put together, piece by piece: a fraction of a second
)

// skipped are the bytes that the parser passes over, one by one, before it looks
// whether it has XML or JSON.
const skipped = "\xef\xbb\xbf\xfe\xff\x00 \t\r\n"

// What makes a feed too costly to parse.
var (
	errDepth      = errors.New("elements are nested too deeply")
	errNamespaces = errors.New("too many namespaces are declared")
	errText       = errors.New("text is broken into too many pieces")
)

// guard refuses XML that would cost the parser all the stack or all the time
// there is: a small answer is enough for either. What is not XML at all it
// leaves to the parser, which sees no more of it than guard does.
func guard(body []byte) error {
	start := 0
	for start < len(body) && strings.IndexByte(skipped, body[start]) >= 0 {
		start++
	}
	if start < len(body) && body[start] == '{' {
		return nil // JSON; its decoder limits depth itself
	}
	decoder := xml.NewDecoder(bytes.NewReader(body))
	decoder.Strict = false // as the parser reads
	decoder.CharsetReader = charset.NewReaderLabel
	var texts []int // how much text each open element has
	var cost int64
	namespaces := 0
	for {
		token, err := decoder.Token()
		if err != nil {
			return nil
		}
		switch token := token.(type) {
		case xml.StartElement:
			texts = append(texts, 0)
			for _, attr := range token.Attr {
				if attr.Name.Space == "xmlns" || attr.Name.Local == "xmlns" {
					namespaces++
				}
			}
		case xml.EndElement:
			if len(texts) > 0 {
				texts = texts[:len(texts)-1]
			}
		case xml.CharData:
			if open := len(texts) - 1; open >= 0 {
				cost += int64(texts[open])
				texts[open] += len(token)
			}
		}
		switch {
		case len(texts) > maxDepth:
			return errDepth
		case namespaces > maxNamespaces:
			return errNamespaces
		case cost > maxTextCost:
			return errText
		}
	}
}
