// Package terminal makes untrusted text safe to print on a terminal. It escapes control
// characters, with which escape sequences begin, and characters that reverse or hide the text
// around them.
package terminal

import (
	"strconv"
	"strings"
	"unicode"
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
