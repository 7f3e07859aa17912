package locale

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// template is a message in English and in another language.
type template struct {
	english  string
	literals []string // the English text before, between and behind the verbs
	verbs    []byte   // s, d, q, w and so on
	weight   int      // how much of it is literal, in bytes
	parts    []part   // in the other language
}

// part is a literal, or what stands at one of the verbs.
type part struct {
	literal string
	at      int  // the number of the verb, from 1; 0: a literal
	message bool // what stands there is a message, and is translated too
}

// parse takes a format of fmt apart. Its verbs have no explicit indexes.
func parse(format string) (literals []string, verbs []byte) {
	var literal strings.Builder
	for i := 0; i < len(format); i++ {
		if format[i] != '%' || i+1 == len(format) {
			literal.WriteByte(format[i])
			continue
		}
		i++
		if format[i] == '%' {
			literal.WriteByte('%')
			continue
		}
		for i+1 < len(format) && strings.IndexByte("+-# .0123456789", format[i]) >= 0 {
			i++
		}
		literals, verbs = append(literals, literal.String()), append(verbs, format[i])
		literal.Reset()
	}
	return append(literals, literal.String()), verbs
}

// newTemplate returns the template of an English text and its translation. In the
// translation %[1]s is what stands at the first verb, and %[1]m is that translated.
func newTemplate(english, other string) (*template, error) {
	t := &template{english: english}
	t.literals, t.verbs = parse(english)
	for _, literal := range t.literals {
		t.weight += len(literal)
	}
	for other != "" {
		before, rest, found := strings.Cut(other, "%[")
		if before != "" {
			t.parts = append(t.parts, part{literal: before})
		}
		if !found {
			break
		}
		number, behind, _ := strings.Cut(rest, "]")
		at, err := strconv.Atoi(number)
		if err != nil || at < 1 || at > len(t.verbs) || behind == "" || behind[0] != 's' && behind[0] != 'm' {
			return nil, fmt.Errorf("%q: its translation has %%[%.10s, which must be %%[1]s or %%[1]m, and so on", english, rest)
		}
		t.parts = append(t.parts, part{at: at, message: behind[0] == 'm'})
		other = behind[1:]
	}
	return t, nil
}

// steps bounds the attempts to find the literals of templates in one text.
type steps int

// match returns what stands at the verbs in a text, or false if the text is not of this template.
func (t *template) match(text string, left *steps) ([]string, bool) {
	rest, ok := strings.CutPrefix(text, t.literals[0])
	if !ok {
		return nil, false
	}
	stands := make([]string, len(t.verbs))
	return stands, t.fill(stands, 0, rest, left)
}

// fill finds what stands at the verbs from number i on.
func (t *template) fill(stands []string, i int, text string, left *steps) bool {
	if i == len(t.verbs) {
		return text == ""
	}
	literal := t.literals[i+1]
	if i == len(t.verbs)-1 { // the last literal ends the text
		before, ok := strings.CutSuffix(text, literal)
		stands[i] = before
		return ok && fits(t.verbs[i], before)
	}
	if t.verbs[i] == 'q' {
		quoted, err := strconv.QuotedPrefix(text)
		if err != nil || !strings.HasPrefix(text[len(quoted):], literal) {
			return false
		}
		stands[i] = quoted
		return t.fill(stands, i+1, text[len(quoted)+len(literal):], left)
	}
	for from := 0; *left > 0; {
		*left--
		found := strings.Index(text[from:], literal)
		if found < 0 {
			return false
		}
		at := from + found
		if fits(t.verbs[i], text[:at]) {
			stands[i] = text[:at]
			if t.fill(stands, i+1, text[at+len(literal):], left) {
				return true
			}
		}
		if from = at + 1; from > len(text) {
			return false
		}
	}
	return false
}

// fits reports whether a verb writes such a text.
func fits(verb byte, text string) bool {
	switch verb {
	case 'd':
		_, err := strconv.ParseInt(text, 10, 64)
		return err == nil
	case 'q':
		quoted, err := strconv.QuotedPrefix(text)
		return err == nil && len(quoted) == len(text)
	}
	return true
}

// index finds the templates that a text may be of.
type index struct {
	plain    map[string]*template   // without a verb
	prefixes map[string][]*template // by the literal before the first verb
	suffixes map[string][]*template // templates that begin with a verb, by the literal behind the last verb
	begins   []int                  // the lengths of the prefixes
	ends     []int                  // the lengths of the suffixes
}

// newIndex returns the index of a catalogue.
func newIndex(texts map[string]string) (*index, error) {
	x := &index{plain: make(map[string]*template), prefixes: make(map[string][]*template), suffixes: make(map[string][]*template)}
	for english, other := range texts {
		t, err := newTemplate(english, other)
		if err != nil {
			return nil, err
		}
		switch first, last := t.literals[0], t.literals[len(t.literals)-1]; {
		case len(t.verbs) == 0:
			x.plain[first] = t
		case first != "":
			x.prefixes[first] = append(x.prefixes[first], t)
		default:
			x.suffixes[last] = append(x.suffixes[last], t)
		}
	}
	x.begins, x.ends = lengths(x.prefixes), lengths(x.suffixes)
	return x, nil
}

func lengths(by map[string][]*template) []int {
	var all []int
	for literal := range by {
		all = append(all, len(literal))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// candidates returns the templates that a text may be of, those with the most literal text first.
func (x *index) candidates(text string) []*template {
	if t := x.plain[text]; t != nil {
		return []*template{t}
	}
	var all []*template
	for _, n := range x.begins {
		if n <= len(text) {
			all = append(all, x.prefixes[text[:n]]...)
		}
	}
	for _, n := range x.ends {
		if n <= len(text) {
			all = append(all, x.suffixes[text[len(text)-n:]]...)
		}
	}
	slices.SortFunc(all, func(a, b *template) int {
		return cmp.Or(cmp.Compare(b.weight, a.weight), cmp.Compare(a.english, b.english)) // always in the same order
	})
	return all
}
