package main

import (
	"fmt"
	"regexp"
	"strconv"
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

// ofAccount stands between a ticket and its account's id where that is no entry.
const ofAccount = "@"

// ticketed finds a ticket and whose it is: in an entry, or before ofAccount.
var ticketed = regexp.MustCompile(ticketMark + `(\d{9})((?:\|\d{13}\|[^|]{10}\||` + ofAccount + `)account(\d))`)

// apart gives each account tickets of its own. All accounts of a step share a ticket, and
// nothing depends on which of them do, because no step compares tickets of two accounts.
// Tickets up to some number are apart already.
func apart(text string, above int) string {
	return ticketed.ReplaceAllStringFunc(text, func(found string) string {
		parts := ticketed.FindStringSubmatch(found)
		return apartTicket(parts[1], parts[3], above) + parts[2]
	})
}

func apartTicket(digits, account string, above int) string {
	n, _ := strconv.Atoi(digits) // a pattern has found both
	a, _ := strconv.Atoi(account)
	if n > above {
		n = above + 10*(n-above) + a
	}
	return ticketText(n)
}

// apart is apart of everything that a snapshot has.
func (s snapshot) apart(above int) snapshot {
	all := make(snapshot, len(s))
	for i, k := range s {
		_, name, _ := splitTag(k.name)
		all[i] = key{k.name, k.kind, make([]string, len(k.elements))}
		for j, text := range k.elements {
			if name == "tickets" && j%2 == 1 {
				id := k.elements[j-1]
				text = apartTicket(text[len(ticketMark):14], id[len(id)-1:], above) + text[14:]
			}
			all[i].elements[j] = apart(text, above)
		}
	}
	return all
}
