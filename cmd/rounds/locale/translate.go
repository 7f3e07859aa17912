package locale

import (
	"embed"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

//go:embed assets/text
var assets embed.FS

// messages is the catalogue of messages, which is read when the first one is translated.
var messages = sync.OnceValue(func() *index {
	texts, err := Texts(assets, Chinese)
	if err != nil {
		panic(err) // an error of the program, which any test finds
	}
	x, err := newIndex(texts)
	if err != nil {
		panic(err)
	}
	return x
})

const (
	maxText  = 256 << 10 // a longer text is not translated, in bytes
	maxLine  = 4 << 10   // and neither is a longer line
	maxDepth = 8         // how deep errors that wrap each other are translated
	maxSteps = 500       // see steps
)

// Translate returns a message in the language, or as it is where the language has no text for it.
// Each of its lines may be another message.
func (l Language) Translate(text string) string {
	if l != Chinese || len(text) > maxText {
		return text
	}
	lines := strings.Split(text, "\n")
	left := steps(maxSteps)
	for i, line := range lines {
		said := strings.TrimSpace(line)
		if len(said) > maxLine {
			continue
		}
		if other, ok := messages().translate(said, 0, &left); ok {
			before, behind, _ := strings.Cut(line, said)
			lines[i] = before + other + behind
		}
	}
	return strings.Join(lines, "\n")
}

// translate returns a line in the other language, or false if it stays as it is.
func (x *index) translate(text string, depth int, left *steps) (string, bool) {
	if depth == maxDepth || text == "" {
		return text, false
	}
	for _, t := range x.candidates(text) {
		if stands, ok := t.match(text, left); ok {
			return x.write(t, stands, depth, left), true
		}
	}
	// What wraps an error stands before a colon: the name of a field, a file, an account.
	about, rest, found := strings.Cut(text, ": ")
	if !found {
		return text, false
	}
	other, ok := x.translate(rest, depth+1, left)
	if !ok {
		return text, false
	}
	return about + "：" + other, true
}

// write returns a template in the other language, with what stands in place of its verbs.
func (x *index) write(t *template, stands []string, depth int, left *steps) string {
	var b strings.Builder
	for _, p := range t.parts {
		switch {
		case p.at == 0:
			b.WriteString(p.literal)
		case p.message:
			other, _ := x.translate(stands[p.at-1], depth+1, left)
			if last, _ := utf8.DecodeLastRuneInString(b.String()); unicode.Is(unicode.Han, last) && begins(other) {
				b.WriteByte(' ')
			}
			b.WriteString(other)
		default:
			b.WriteString(stands[p.at-1])
		}
	}
	return b.String()
}

// begins reports whether a text begins with a Latin word or a number, which a space sets apart from
// Chinese before it.
func begins(text string) bool {
	return text != "" && text[0] < utf8.RuneSelf && (unicode.IsLetter(rune(text[0])) || unicode.IsDigit(rune(text[0])))
}
