package secrets

import (
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"slices"
	"strings"
)

const (
	scrubbed = "[secret]"

	// leastWord is the length of the shortest part of a secret that is searched for by
	// itself, and of the shortest secret that is searched for in other encodings. Shorter
	// texts would match too much.
	leastWord = 8

	maxScrubbed = 64 << 10 // bytes of a text; what follows is dropped
)

// Scrub returns a third party's text with secrets replaced, in each form in which the text may
// repeat them: unchanged, percent-encoded, escaped as in JSON or HTML, in hex, in base64 of either
// alphabet, also within a longer text, or in one of these within another. It replaces each word of
// a secret, as in "Bearer TOKEN". Every text that a checker has received and shows goes through
// Scrub.
func Scrub(text string, hidden []string) string {
	patterns := patternsOf(hidden)
	if len(patterns) == 0 {
		return text
	}
	if len(text) > maxScrubbed {
		// A secret that the cut splits would not be recognised, so it is dropped too.
		longest := 0
		for _, p := range patterns {
			longest = max(longest, len(p.text))
		}
		text = text[:max(0, maxScrubbed-maxEncoded*longest)]
	}
	for _, p := range patterns {
		text = p.replace(text)
	}
	return text
}

// pattern is one form of a secret.
type pattern struct {
	text  string
	bits  bool // base64: the characters beside it may hold bits of it
	upper bool // hex: in either case
}

// patternsOf returns the forms of all secrets, longest first.
func patternsOf(hidden []string) []pattern {
	var found []pattern
	for _, piece := range pieces(hidden) {
		found = append(found, pattern{text: piece})
		if len(piece) < leastWord {
			continue
		}
		found = append(found, pattern{text: hex.EncodeToString([]byte(piece)), upper: true})
		for offset := range 3 {
			within := withinBase64(piece, offset)
			found = append(found, pattern{text: within, bits: true})
			if url := strings.NewReplacer("+", "-", "/", "_").Replace(within); url != within {
				found = append(found, pattern{text: url, bits: true})
			}
		}
	}
	slices.SortStableFunc(found, func(a, b pattern) int { return cmp.Compare(len(b.text), len(a.text)) })
	return found
}

// pieces returns the secrets, their words, and the decoded base64 of secrets with known
// content: a signing key, or a user and a password.
func pieces(hidden []string) []string {
	var found []string
	add := func(piece string) {
		if piece != "" && !slices.Contains(found, piece) {
			found = append(found, piece)
		}
	}
	for _, secret := range hidden {
		add(secret)
		if _, rest, ok := strings.Cut(secret, " "); ok && len(rest) >= leastWord {
			add(rest) // what follows the scheme
		}
		words := strings.Fields(secret)
		for i, word := range words {
			word, key := strings.CutPrefix(word, "whsec_")
			if len(word) < leastWord {
				continue
			}
			add(word)
			if !key && (i == 0 || !strings.EqualFold(words[i-1], "basic")) {
				continue
			}
			decoded, err := base64.StdEncoding.DecodeString(word)
			if err != nil || len(decoded) < leastWord {
				continue
			}
			add(string(decoded))
			if _, password, ok := strings.Cut(string(decoded), ":"); ok && !key && len(password) >= leastWord {
				add(password)
			}
		}
	}
	return found
}

// withinBase64 returns the characters of a text within the base64 of a longer text, in
// which before bytes, modulo 3, precede it. It returns only characters that depend on
// the text alone.
func withinBase64(text string, before int) string {
	all := base64.RawStdEncoding.EncodeToString(append(make([]byte, before), text...))
	first := (before*8 + 5) / 6
	last := (before + len(text)) * 8 / 6
	return all[first:last]
}

// replace returns the text with a mark in place of each match of the pattern.
func (p pattern) replace(text string) string {
	var out strings.Builder
	kept := 0
	for i := 0; i < len(text); i++ {
		end := p.match(text, i)
		if end < 0 {
			continue
		}
		start := i
		if p.bits {
			if start > kept && isBase64(text[start-1]) {
				start--
			}
			if end < len(text) && isBase64(text[end]) {
				end++
			}
		}
		out.WriteString(text[kept:start])
		out.WriteString(scrubbed)
		kept, i = end, end-1
	}
	if kept == 0 {
		return text
	}
	return out.String() + text[kept:]
}

func isBase64(char byte) bool {
	return 'a' <= char && char <= 'z' || 'A' <= char && char <= 'Z' || '0' <= char && char <= '9' || strings.IndexByte("+/-_", char) >= 0
}
