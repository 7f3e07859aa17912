// Package terminal makes untrusted text safe to print on a terminal. It escapes control
// characters, with which escape sequences begin, and characters that reverse or hide the text
// around them.
package terminal

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// OneLine returns a text as one printable line. Characters that are not printable are escaped
// as in a Go string, and so are quotes and backslashes of a text that has such characters.
func OneLine(text string) string {
	if strings.ContainsFunc(text, func(c rune) bool { return !unicode.IsPrint(c) }) {
		return strings.Trim(strconv.Quote(text), `"`)
	}
	return text
}

// Row returns a row of a table as one line. It escapes line breaks in columns, and keeps tabs.
func Row(text string) string {
	if !strings.ContainsAny(text, "\r\n") {
		return text
	}
	return strings.NewReplacer("\n", `\n`, "\r", `\r`).Replace(text)
}

// Text returns a text with each such character as a JSON escape such as \u202e. It leaves newlines
// and tabs. The text of a JSON value keeps its meaning.
func Text(text string) string {
	out, taken := Append(nil, []byte(text))
	if taken < len(text) { // the text ends within a character
		out = utf8.AppendRune(out, utf8.RuneError)
	}
	return string(out)
}

// obeyed reports whether a character does something other than show itself. Such characters
// are C0 except for newline and tab, DEL, C1, format characters, which change the
// direction of text or are invisible, and Unicode's line separators.
func obeyed(c rune) bool {
	switch c {
	case '\n', '\t':
		return false
	case '\u2028', '\u2029':
		return true
	}
	return unicode.IsControl(c) || unicode.Is(unicode.Cf, c)
}

// escaped appends a character as a JSON escape such as \u001b, so that JSON keeps its meaning.
func escaped(to []byte, c rune) []byte {
	if c > 0xffff {
		high, low := utf16.EncodeRune(c)
		return escaped(escaped(to, high), low)
	}
	to = append(to, `\u`...)
	for shift := 12; shift >= 0; shift -= 4 {
		to = append(to, "0123456789abcdef"[c>>shift&15])
	}
	return to
}

// Append appends a text, with such characters escaped. Bytes that are not UTF-8 become U+FFFD,
// because some terminals treat them as C1. taken is how many bytes of the text were used: an
// incomplete character at the end is not used.
func Append(to, text []byte) (out []byte, taken int) {
	for taken < len(text) {
		if c := text[taken]; c < utf8.RuneSelf {
			if c >= ' ' && c != 0x7f || c == '\n' || c == '\t' {
				to = append(to, c)
			} else {
				to = escaped(to, rune(c))
			}
			taken++
			continue
		}
		if !utf8.FullRune(text[taken:]) {
			break
		}
		c, size := utf8.DecodeRune(text[taken:])
		switch {
		case c == utf8.RuneError && size == 1:
			to = utf8.AppendRune(to, utf8.RuneError)
		case obeyed(c):
			to = escaped(to, c)
		default:
			to = append(to, text[taken:taken+size]...)
		}
		taken += size
	}
	return to, taken
}
