package accounts

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A cause names what went wrong with a check, so that failures that differ only in
// numbers, ids or times fall together.

const (
	// unknownCause is the code of a text that has none.
	unknownCause = "unknown"

	maxCode = 64 // bytes of a code
	// maxText is how many bytes of a text count: as many as the ring stores of an error.
	// The reason of a parked account has more.
	maxText = 120
	// maxPattern is how many runes of a pattern count. It is less than maxText, so that
	// texts cut at the same length do not differ at their ends only because their lengths
	// differed.
	maxPattern = 80
	// longWord is the length in bytes from which on a word without a digit counts as an
	// id.
	longWord = 32
)

// Cause is what went wrong.
type Cause struct {
	Name string // the code, a tilde and eight digits of the pattern's digest: http_404~1b2c3d4e
	Code string // short and stable, such as http_404; unknown if the text has none
	Text string // for people, without the code
}

// CauseOf returns the cause in the text of a failed check, "http_503: Service
// Unavailable". Host is the host in the account's config, or empty: texts that only
// differ in their own hosts have the same cause.
//
// Two causes have the same name if their codes and the first 80 runes of their patterns
// are the same. A pattern is the text in lower case, in which a # replaces each of these:
// the host, addresses with a scheme, texts in double quotes, words with a digit, and
// words of 32 bytes or more. Several # in a row, with only punctuation between them,
// become one, and so do several spaces.
func CauseOf(text, host string) Cause {
	code, rest := split(clip(text, maxText))
	rest = strings.TrimSpace(rest)
	digest := sha256.Sum256([]byte(code + "\x00" + pattern(rest, host)))
	return Cause{Name: code + "~" + hex.EncodeToString(digest[:4]), Code: code, Text: rest}
}

// codeOf returns the code of the cause in a text, which costs less than the whole cause.
func codeOf(text string) string {
	code, _ := split(clip(text, maxText))
	return code
}

// split cuts a text into its code and the rest.
func split(text string) (code, rest string) {
	if code, rest, ok := strings.Cut(text, ": "); ok && isCode(code) {
		return code, rest
	}
	return unknownCause, text
}

// codeIn returns the code in the name of a cause.
func codeIn(name string) string {
	if i := strings.LastIndexByte(name, '~'); i >= 0 {
		return name[:i]
	}
	return name
}

// CauseOfReason returns the cause for which an account is parked: the cause of the check
// that parked it, if the reason has it.
func CauseOfReason(reason, host string) Cause {
	for _, rule := range []string{"gone: ", "config: ", "auth: "} {
		if text, ok := strings.CutPrefix(reason, rule); ok {
			return CauseOf(text, host)
		}
	}
	if rest, ok := strings.CutPrefix(reason, "retry budget: "); ok {
		if _, text, ok := strings.Cut(rest, "the last: "); ok {
			return CauseOf(text, host)
		}
	}
	return CauseOf(reason, host)
}

// isCode reports whether a word can be a code: letters, digits, dots, dashes and underscores.
func isCode(word string) bool {
	if word == "" || len(word) > maxCode {
		return false
	}
	return strings.IndexFunc(word, func(r rune) bool {
		return r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '.' && r != '-' && r != '_'
	}) < 0
}

// pattern replaces the parts that differ from account to account.
func pattern(text, host string) string {
	text = strings.ToLower(text)
	if host != "" {
		text = strings.ReplaceAll(text, strings.ToLower(host), "0") // a word with a digit
		text = strings.ReplaceAll(text, strings.ToLower(WithoutPort(host)), "0")
	}
	var out []rune
	for text != "" && len(out) < maxPattern {
		r, size := utf8.DecodeRuneInString(text)
		switch {
		case r == '"':
			out, text = hide(out), afterQuote(text[size:])
		case inWord(r):
			word := text[:wordEnd(text)]
			text = text[len(word):]
			if rest, ok := strings.CutPrefix(text, "://"); ok {
				out, text = hide(out), rest[addressEnd(rest):]
			} else if len(word) >= longWord || strings.IndexFunc(word, unicode.IsDigit) >= 0 {
				out = hide(out)
			} else {
				out = append(out, []rune(word)...)
			}
		case unicode.IsSpace(r):
			text = text[size:]
			if n := len(out); n > 0 && out[n-1] != ' ' {
				out = append(out, ' ')
			}
		default:
			out, text = append(out, r), text[size:]
		}
	}
	return strings.TrimSpace(string(out[:min(len(out), maxPattern)]))
}

// hide appends a #, unless only punctuation stands between it and the one before. It then
// drops that punctuation.
func hide(out []rune) []rune {
	n := len(out)
	for n > 0 && out[n-1] != '#' && out[n-1] != ' ' && !inWord(out[n-1]) {
		n--
	}
	if n > 0 && out[n-1] == '#' {
		return out[:n]
	}
	return append(out, '#')
}

func inWord(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) || r == '_' }

// wordEnd returns where the word at the beginning ends. A dash within it is part of it.
func wordEnd(text string) int {
	for i, r := range text {
		if inWord(r) {
			continue
		}
		if next, _ := utf8.DecodeRuneInString(text[i+utf8.RuneLen(r):]); r == '-' && inWord(next) {
			continue
		}
		return i
	}
	return len(text)
}

// addressEnd returns where an address ends.
func addressEnd(text string) int {
	end := strings.IndexFunc(text, func(r rune) bool { return unicode.IsSpace(r) || r == '"' })
	if end < 0 {
		return len(text)
	}
	return end
}

// clip cuts a text between two runes.
func clip(text string, most int) string {
	if len(text) <= most {
		return text
	}
	cut := most
	for cut > 0 && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut]
}

func afterQuote(text string) string {
	_, rest, _ := strings.Cut(text, `"`)
	return rest
}
