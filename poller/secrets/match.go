package secrets

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxEncoded is the most bytes that one byte may become, as in &#x000026;.
const maxEncoded = 12

// match returns the end of the pattern that begins at a place of the text, however the
// text writes its characters, or -1 if it does not begin there. A character may be read
// in several ways: "%41" is an A, or the three characters themselves. match follows all
// of them.
func (p pattern) match(text string, at int) int {
	if first := text[at]; first != p.text[0] && !escapes(first) && (!p.upper || first|0x20 != p.text[0]) {
		return -1 // the case nearly everywhere
	}
	ends := []int{at}
	for rest := p.text; rest != ""; {
		char, size := utf8.DecodeRuneInString(rest)
		if char == utf8.RuneError && size == 1 {
			char = -1 // a byte that is no text
		}
		var next []int
		for _, end := range ends {
			next = p.follow(next, text, end, rest[:size], char)
		}
		if len(next) == 0 {
			return -1
		}
		ends, rest = next, rest[size:]
	}
	return slices.Max(ends)
}

// escapes reports whether a character may begin another one's encoding.
func escapes(char byte) bool { return char == '%' || char == '\\' || char == '&' || char == '+' }

// follow adds the places behind a character that is written at a place.
func (p pattern) follow(ends []int, text string, at int, raw string, char rune) []int {
	add := func(end int) {
		if end > at && !slices.Contains(ends, end) {
			ends = append(ends, end)
		}
	}
	left := text[at:]
	if strings.HasPrefix(left, raw) || p.upper && len(left) > 0 && strings.EqualFold(left[:1], raw) {
		add(at + len(raw))
	}
	if left == "" || !escapes(left[0]) {
		return ends
	}
	switch left[0] {
	case '+':
		if char == ' ' {
			add(at + 1)
		}
	case '%':
		for _, sign := range []string{"%", "%25"} { // once, or twice
			if n := percent(left, raw, sign); n > 0 {
				add(at + n)
			}
			if n := percent(left, "+", sign); char == ' ' && n > 0 {
				add(at + n) // as a plus, and then once more
			}
		}
	case '\\':
		if n := escape(left, char); n > 0 {
			add(at + n)
		}
	case '&':
		if n := entity(left, char); n > 0 {
			add(at + n)
		}
	}
	return ends
}

// percent returns the length of a percent-encoded character, for a given spelling of
// the percent sign.
func percent(text, raw, sign string) int {
	n := 0
	for _, b := range []byte(raw) {
		value, ok := hexAt(text, n+len(sign), 2)
		if !ok || value != uint64(b) || !strings.HasPrefix(text[n:], sign) {
			return 0
		}
		n += len(sign) + 2
	}
	return n
}

// escape returns the length of a character that is escaped as in JSON.
func escape(text string, char rune) int {
	if char < 0 || len(text) < 2 {
		return 0
	}
	if short := strings.IndexByte(`"\/bfnrt'`, text[1]); short >= 0 && rune("\"\\/\b\f\n\r\t'"[short]) == char {
		return 2
	}
	if text[1] == 'x' {
		if value, ok := hexAt(text, 2, 2); ok && value == uint64(char) {
			return 4
		}
	}
	if text[1] != 'u' {
		return 0
	}
	value, ok := hexAt(text, 2, 4)
	switch {
	case !ok:
		return 0
	case value == uint64(char):
		return 6
	case value>>10 == 0xd800>>10 && strings.HasPrefix(text[6:], `\u`):
		if second, ok := hexAt(text, 8, 4); ok && 0x10000+(value-0xd800)<<10+(second-0xdc00) == uint64(char) {
			return 12
		}
	}
	return 0
}

// entity returns the length of a character that is escaped as in HTML.
func entity(text string, char rune) int {
	if char < 0 {
		return 0
	}
	name, _, ok := strings.Cut(text[1:min(len(text), maxEncoded)], ";")
	if !ok || name == "" {
		return 0
	}
	if number, ok := strings.CutPrefix(name, "#"); ok {
		base := 10
		if number != "" && (number[0] == 'x' || number[0] == 'X') {
			number, base = number[1:], 16
		}
		if value, err := strconv.ParseUint(number, base, 32); err != nil || rune(value) != char {
			return 0
		}
		return len(name) + 2
	}
	for i, known := range []string{"amp", "lt", "gt", "quot", "apos", "nbsp", "sol", "plus", "equals"} {
		if strings.EqualFold(name, known) && []rune("&<>\"'\u00a0/+=")[i] == char {
			return len(name) + 2
		}
	}
	return 0
}

// hexAt reads the given number of hex digits.
func hexAt(text string, at, digits int) (uint64, bool) {
	if at+digits > len(text) {
		return 0, false
	}
	value, err := strconv.ParseUint(text[at:at+digits], 16, 32)
	return value, err == nil
}
