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

	// leastWord is the shortest part of a secret that is looked for by itself, and
	// the shortest secret that is looked for in other alphabets: shorter ones would
	// blank out half of any text.
	leastWord = 8

	maxScrubbed = 64 << 10 // bytes of a text; what follows is dropped
)

// Scrub replaces secrets in a text that a third party wrote, in whatever form it
// repeats them: as they are, percent-encoded, escaped as in JSON or HTML, in hex,
// and in base64 of either alphabet, also within something longer, or in one of
// these within another. Of a secret of several words each counts, as in "Bearer
// TOKEN". It is the only place where that is done: whatever a checker shows of what
// it was sent goes through here.
func Scrub(text string, hidden []string) string {
	patterns := patternsOf(hidden)
	if len(patterns) == 0 {
		return text
	}
	if len(text) > maxScrubbed {
		// What is cut through would not be recognised: that goes as well.
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
	bits  bool // base64: bits of what stands around it may be in the characters beside it
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

// pieces are the secrets and their words, and what those are base64 of where that
// is known: a signing key, or a user and a password.
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
			add(rest) // behind the scheme
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

// withinBase64 returns the characters that a text has in base64 of something longer
// in which so many bytes, modulo 3, stand before it: those that nothing else has a
// part in.
func withinBase64(text string, before int) string {
	all := base64.RawStdEncoding.EncodeToString(append(make([]byte, before), text...))
	first := (before*8 + 5) / 6
	last := (before + len(text)) * 8 / 6
	return all[first:last]
}

// replace puts a mark in place of what reads as the pattern.
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
