package main

import (
	"fmt"
	"strings"
)

// Tickets and replica names are recognised by how they begin, so that a text can be
// turned into another that differs only in which ticket is which. A token's number is
// unique among both sorts.
const (
	ticketMark = "77777"   // and nine digits
	nameMark   = "replica" // and three digits

	firstTicket = 0       // the ticket that nothing renames
	fresh       = 500_000 // the sequence's value before each step
	reserved    = 16      // token numbers that no step issues
)

func ticketText(n int) string { return fmt.Sprintf("%s%09d", ticketMark, n) }
func nameText(n int) string   { return fmt.Sprintf("%s%03d", nameMark, n) }

// rewrite replaces every token of a text. The token firstTicket stays.
func rewrite(text string, f func(n int) int) string {
	var b strings.Builder
	rest := text
	for {
		at, mark, digits := nextToken(rest)
		if at < 0 {
			if b.Len() == 0 {
				return text
			}
			b.WriteString(rest)
			return b.String()
		}
		start := at + len(mark)
		n := 0
		for _, c := range []byte(rest[start : start+digits]) {
			n = 10*n + int(c-'0')
		}
		b.WriteString(rest[:start])
		if n != firstTicket {
			n = f(n)
		}
		fmt.Fprintf(&b, "%0*d", digits, n)
		rest = rest[start+digits:]
	}
}

// nextToken finds where the next token begins, or returns -1.
func nextToken(text string) (at int, mark string, digits int) {
	ticket, name := strings.Index(text, ticketMark), strings.Index(text, nameMark)
	if ticket >= 0 && (name < 0 || ticket < name) {
		return ticket, ticketMark, 9
	}
	for name >= 0 {
		rest := text[name+len(nameMark):]
		if len(rest) >= 3 && isDigit(rest[0]) && isDigit(rest[1]) && isDigit(rest[2]) {
			return name, nameMark, 3
		}
		next := strings.Index(rest, nameMark)
		if next < 0 {
			break
		}
		name += len(nameMark) + next
	}
	return -1, "", 0
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// labels number tokens in the order of their first appearance, from 1.
type labels struct {
	of    map[int]int
	order []int // the tokens, by label
}

func newLabels() *labels { return &labels{of: make(map[int]int)} }

func (l *labels) label(n int) int {
	if _, known := l.of[n]; !known {
		l.order = append(l.order, n)
		l.of[n] = len(l.order)
	}
	return l.of[n]
}

// canonical rewrites a text so that texts become the same if they differ only in which
// token is which. It returns which was which.
func canonical(text string) (string, []int) {
	l := newLabels()
	text = rewrite(text, l.label)
	return text, l.order
}

// tokens returns the tokens of a text in the order of their first appearance.
func tokens(text string) []int {
	_, order := canonical(text)
	return order
}
