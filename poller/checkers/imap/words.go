package imap

import (
	"regexp"
	"strings"
)

// encodedWord is the form of an encoded word (RFC 2047, section 2), read leniently: mail
// programs leave spaces in the text and fold lines in the middle of it.
var encodedWord = regexp.MustCompile(`=\?([^?\s]{1,64})\?([bBqQ])\?([^?]*)\?=`)

// piece is a part of a field: text as it stands there, or decoded words.
type piece struct {
	text  string
	words bool
}

// pieces splits a field at its encoded words. Adjacent words of one charset are joined
// before they are decoded, because senders split characters over two words. What the
// words do not cover is decoded first, as it declares no charset.
func pieces(text string, hint *hint) (all []piece) {
	text = undeclared([]byte(text), hint)
	var (
		label string // of raw
		raw   []byte // of adjacent words, not decoded yet
		words strings.Builder
	)
	flush := func() {
		words.WriteString(decodeBytes(raw, label, hint))
		label, raw = "", nil
	}
	end := func() {
		if flush(); words.Len() > 0 {
			all = append(all, piece{words.String(), true})
			words.Reset()
		}
	}
	at := 0
	for _, m := range encodedWord.FindAllStringSubmatchIndex(text, -1) {
		between := text[at:m[0]]
		if at == 0 || strings.TrimSpace(between) != "" {
			end()
			if between != "" {
				all = append(all, piece{between, false})
			}
		}
		at = m[1]
		if charset := strings.ToLower(text[m[2]:m[3]]); charset != label {
			flush()
			label = charset
		}
		if content := text[m[6]:m[7]]; strings.EqualFold(text[m[4]:m[5]], "b") {
			decoded, _ := decodeBase64([]byte(content))
			raw = append(raw, decoded...)
		} else {
			decoded, _ := decodeQuoted([]byte(strings.ReplaceAll(content, "_", " ")))
			raw = append(raw, decoded...)
		}
	}
	end()
	if at < len(text) {
		all = append(all, piece{text[at:], false})
	}
	return all
}

// decodeWords returns a field's text in UTF-8. Like mail programs, and unlike RFC 2047,
// it decodes encoded words within quotes too.
func decodeWords(text string, hint *hint) string {
	if plain(text) {
		return text
	}
	var out strings.Builder
	for _, p := range pieces(text, hint) {
		out.WriteString(p.text)
	}
	return out.String()
}

// plain reports whether a field has nothing to decode.
func plain(text string) bool {
	for i := range len(text) {
		if text[i] >= 0x80 {
			return false
		}
	}
	return !strings.Contains(text, "=?")
}
