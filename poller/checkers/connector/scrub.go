package connector

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/rounds-dev/rounds/poller/secrets"
)

const maxMessage = 500 // bytes of a connector's error message that are shown

var (
	// Errors often name the URL that failed. Its query may hold a token, and the part
	// before the @ a password.
	query    = regexp.MustCompile(`\?[^\s"'<>]+`)
	userinfo = regexp.MustCompile(`://[^\s/@"'<>]*@`)
)

// scrub returns a connector's text in a form that may be shown: one line of bounded
// length, without query strings, user names and the secrets that were sent to it.
func scrub(text string, hidden []string) string {
	text = secrets.Scrub(text, hidden)
	text = query.ReplaceAllString(text, "?…")
	text = userinfo.ReplaceAllString(text, "://…@")
	text = strings.Map(func(char rune) rune {
		if unicode.IsControl(char) {
			return ' '
		}
		return char
	}, text)
	if len(text) > maxMessage {
		end := maxMessage
		for !utf8.RuneStart(text[end]) {
			end--
		}
		text = text[:end] + "…"
	}
	return strings.TrimSpace(text)
}

// cleanCode returns a code that is short and has only the characters that metrics may
// have, or an empty text.
func cleanCode(code string) string {
	if len(code) > 64 {
		return ""
	}
	for _, char := range []byte(code) {
		switch {
		case 'a' <= char && char <= 'z', 'A' <= char && char <= 'Z', '0' <= char && char <= '9', strings.IndexByte("_.:-", char) >= 0:
		default:
			return ""
		}
	}
	return code
}
