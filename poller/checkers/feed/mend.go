package feed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/rounds-dev/rounds/poller"
)

const (
	maxMends = 16        // places that are left out; after the last one, all the rest is left out
	mendFree = 256 << 10 // bytes that may be read again, besides about the length of the text
)

// brokenXML is the error for a place where a document is not XML.
type brokenXML struct {
	at   int // where the unreadable token begins
	line int
}

// Error names the line and quotes nothing of the text.
func (e *brokenXML) Error() string { return fmt.Sprintf("feed: broken XML at line %d", e.line) }

// Is makes it an errXML.
func (e *brokenXML) Is(target error) bool { return target == errXML }

// flaw says what is wrong with the XML of a feed that is still read. The zero flaw
// means that nothing is.
type flaw struct {
	line  int  // of the first error; 0: nothing is wrong
	lossy bool // something was left out
}

// warnings returns the flaw as a check's warnings.
func (f flaw) warnings() []poller.Warning {
	switch {
	case f.line == 0:
		return nil
	case f.lossy:
		return []poller.Warning{{Code: "malformed", Message: fmt.Sprintf("broken XML at line %d; read without what is broken", f.line)}}
	}
	return []poller.Warning{{Code: "malformed", Message: fmt.Sprintf("not well-formed XML at line %d; read all the same", f.line)}}
}

// kept returns the line that the cursor stores; 0 means none. A lossy feed has no
// validators, so each check reads it and warns again.
func (f flaw) kept() int {
	if f.lossy {
		return 0
	}
	return f.line
}

// guardOrMend is guard for a document that may be broken. For a broken one it returns a
// version without the broken parts, which guard has judged from beginning to end like
// any other. A document that guard refuses for other reasons stays refused.
func guardOrMend(ctx context.Context, text []byte) ([]byte, *ledger, flaw, error) {
	passed, counted, err := guard(ctx, text, true)
	var broken *brokenXML
	if err == nil || !errors.As(err, &broken) {
		return passed, counted, flaw{}, err
	}
	found := flaw{line: broken.line}
	room := len(text) + mendFree
	for mends, last := 0, false; ; mends++ {
		passed, counted, err = guard(ctx, text, false)
		if err == nil || !errors.As(err, &broken) {
			return passed, counted, found, err
		}
		if counted.elements == 0 || last {
			return nil, nil, flaw{}, errXML
		}
		room -= broken.at
		last = room < 0 || mends == maxMends
		text = mend(text, counted, broken.at, last)
		found.lossy = true
	}
}

// mend leaves out the item, or anything else, that is broken at the offset at, up to the next item.
// If there is no next item, or rest is true, it closes the open elements there.
func mend(text []byte, l *ledger, at int, rest bool) []byte {
	open, from := l.open, at
	for i, e := range l.open {
		if e.item {
			open, from = l.open[:i], e.tag
			break
		}
	}
	next := -1
	if !rest {
		next = nextItem(text, max(at, from+1))
	}
	if next < 0 {
		return append(text[:from:from], closing(text, open)...)
	}
	// The next item is in the same elements as earlier items, or else in the root and its channel.
	around := l.list
	if around == 0 {
		around = 1
		if name := nameAt(text, l.open[0].tag); strings.EqualFold(name, "rss") {
			around = 2
		}
	}
	if len(open) <= around {
		return append(text[:from], text[next:]...)
	}
	return append(append(text[:from:from], closing(text, open[around:])...), text[next:]...)
}

// closing returns the end tags of elements, innermost first.
func closing(text []byte, open []element) []byte {
	var tags []byte
	for i := len(open) - 1; i >= 0; i-- {
		tags = append(append(append(tags, "</"...), nameAt(text, open[i].tag)...), '>')
	}
	return tags
}

// nameAt returns the name in the start tag at an offset, as it is written.
func nameAt(text []byte, tag int) string {
	rest := text[tag+1:]
	end := bytes.IndexAny(rest, " \t\r\n/>")
	if end < 0 {
		end = len(rest)
	}
	return string(rest[:end])
}

// nextItem returns the offset of the first start tag of an item at from or after it, or
// -1 if there is none.
func nextItem(text []byte, from int) int {
	for at := from; at < len(text); at++ {
		tag := bytes.IndexByte(text[at:], '<')
		if tag < 0 {
			return -1
		}
		at += tag
		name := text[at+1 : min(len(text), at+66)]
		end := bytes.IndexAny(name, " \t\r\n/>")
		if end < 0 {
			continue
		}
		name = name[:end]
		name = name[bytes.LastIndexByte(name, ':')+1:]
		if bytes.EqualFold(name, []byte("item")) || bytes.EqualFold(name, []byte("entry")) {
			return at
		}
	}
	return -1
}
