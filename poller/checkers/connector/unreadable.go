package connector

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/url"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/poller/secrets"
)

const (
	maxExcerpt  = 24      // runes of an unreadable answer that are shown
	maxSearched = 8 << 10 // bytes of it, on either side of them, that must hold no secret
	maxAddress  = 256     // bytes of it, on either side, that must hold no query and no user
	maxShownURL = 200     // bytes of a redirect's target that are shown
)

// These errors say what is wrong with an answer that has no fields to name. See unreadable.
var (
	errNotObject = errors.New("not a JSON object")
	errNotUTF8   = errors.New("not UTF-8")
)

// unreadable says where an answer ceases to be a JSON object, and which characters stand there. It
// shows nothing of an answer that has a secret nearby.
func unreadable(answer *fetch.Response, hidden []string, err error) error {
	body := answer.Body
	if errors.Is(err, errNotUTF8) {
		return fmt.Errorf("not UTF-8 at byte %d", validUTF8(body))
	}
	if !errors.Is(err, errNotObject) {
		return err
	}
	const mark = "\ufeff"
	text := bytes.TrimLeft(body, " \t\r\n")
	kind, _, _ := mime.ParseMediaType(answer.Header.Get("Content-Type"))
	kind = cmp.Or(oneWord(kind), "no Content-Type")
	switch {
	case len(text) == 0:
		return errors.New("empty, and not a JSON object: answer 204 where nothing is new")
	case bytes.HasPrefix(body, []byte(mark)):
		return errors.New("begins with a byte order mark, which JSON must not have")
	case text[0] == '<':
		return fmt.Errorf("not a JSON object: %s%s", kind, excerpt(", begins with ", body, len(body)-len(text), hidden))
	}
	var any json.RawMessage
	fault := json.Unmarshal(body, &any)
	syntax := new(json.SyntaxError)
	switch {
	case fault == nil:
		return fmt.Errorf("not a JSON object: it is %s", sortOf(text[0]))
	case !errors.As(fault, &syntax):
		return err
	case int(syntax.Offset) >= len(body) && strings.HasPrefix(syntax.Error(), "unexpected end"):
		return fmt.Errorf("not a JSON object: it ends at byte %d, within its JSON", len(body))
	}
	at := max(0, min(int(syntax.Offset)-1, len(body)-1))
	if strings.HasSuffix(syntax.Error(), "after top-level value") {
		return fmt.Errorf("not a JSON object: more follows behind it at byte %d%s", at, excerpt(": ", body, at, hidden))
	}
	return fmt.Errorf("not a JSON object: not JSON at byte %d%s (%s)", at, excerpt(": ", body, at, hidden), kind)
}

// excerpt returns a few characters of a body in quotes, behind a word. If a secret is near them, or
// if they belong to an address with a query or a user, it returns an empty text.
func excerpt(word string, body []byte, at int, hidden []string) string {
	near := string(body[max(0, at-maxSearched):min(len(body), at+maxSearched)])
	if secrets.Scrub(near, hidden) != near {
		return ""
	}
	near = string(body[max(0, at-maxAddress):min(len(body), at+maxAddress)])
	if query.MatchString(near) || userinfo.MatchString(near) {
		return ""
	}
	text := []rune(string(body[at:min(len(body), at+maxExcerpt*utf8.UTFMax)]))
	end := ""
	if len(text) > maxExcerpt {
		text, end = text[:maxExcerpt], "…"
	}
	return word + strconv.Quote(string(text)) + end
}

// validUTF8 returns how many bytes at the start of a text are UTF-8.
func validUTF8(text []byte) (n int) {
	for n < len(text) {
		char, size := utf8.DecodeRune(text[n:])
		if char == utf8.RuneError && size == 1 {
			break
		}
		n += size
	}
	return n
}

// sortOf names the sort of JSON that begins with a character, if it is not an object.
func sortOf(first byte) string {
	switch first {
	case '[':
		return "an array"
	case '"':
		return "a string"
	case 'n':
		return "null"
	case 't', 'f':
		return "a truth value"
	}
	return "a number"
}

// oneWord returns a media type if it is short and has only characters that media types may have.
func oneWord(text string) string {
	if len(text) > 64 || strings.ContainsFunc(text, func(char rune) bool {
		return char > unicode.MaxASCII || !unicode.IsLetter(char) && !unicode.IsDigit(char) && !strings.ContainsRune("/.+-_", char)
	}) {
		return ""
	}
	return text
}

// redirect says where a redirect leads, without the query. It returns an empty text if the answer
// does not say where, or has a secret there.
func redirect(answer *fetch.Response, hidden []string) string {
	from, err := url.Parse(answer.URL)
	if err != nil {
		return ""
	}
	to, err := from.Parse(answer.Header.Get("Location"))
	if err != nil || answer.Header.Get("Location") == "" || to.Host == "" {
		return ""
	}
	text := (&url.URL{Scheme: to.Scheme, Host: to.Host, Path: to.Path}).String()
	if secrets.Scrub(text, hidden) != text {
		return ""
	}
	if len(text) > maxShownURL {
		text = strings.ToValidUTF8(text[:maxShownURL], "") + "…"
	}
	return text
}
