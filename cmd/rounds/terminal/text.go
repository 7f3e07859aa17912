// Package terminal keeps what others wrote from being obeyed by the terminal that shows it:
// escape sequences, control characters, and characters that turn or hide the text around
// them.
package terminal

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// OneLine returns a text that stays in its place: where it holds anything but printable
// characters and plain spaces, those are written as Go escapes them.
func OneLine(text string) string {
	if strings.ContainsFunc(text, func(c rune) bool { return !unicode.IsPrint(c) }) {
		return strings.Trim(strconv.Quote(text), `"`)
	}
	return text
}

// Row returns a line of a table that is one line, whatever is in its columns. Tabs between
// them stay.
func Row(text string) string {
	if !strings.ContainsAny(text, "\r\n") {
		return text
	}
	return strings.NewReplacer("\n", `\n`, "\r", `\r`).Replace(text)
}

// obeyed reports whether a terminal does something at a character other than show it: C0
// but for the end of a line and a tab, DEL, C1, what turns the direction of text or hides
// in it, and separators of lines.
func obeyed(c rune) bool {
	switch c {
	case '\n', '\t':
		return false
	case '\u2028', '\u2029':
		return true
	}
	return unicode.IsControl(c) || unicode.Is(unicode.Cf, c)
}

// escaped appends a character as JSON writes it by its number, so that JSON stays what it
// means.
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

// plain appends a text without what would be obeyed. Bytes that are no UTF-8, which some
// terminals take for C1, become U+FFFD. It returns how much of the text it took: a
// character that is cut at the end is left.
func plain(to, text []byte) (out []byte, taken int) {
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
