package accounts

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
)

// RepeatsKnown is how many ids an import knows again. The memory that it takes for them, about
// thirty megabytes, does not depend on its length.
const RepeatsKnown = 1_000_000

// repeats knows which ids have come, by a hash of 64 bits: that two ids of an import have
// the same one is as good as impossible, and would only be a wrong hint.
type repeats struct {
	seed  maphash.Seed
	lines map[uint64]uint32
}

// add notes an id and returns the line that had it before, or 0.
func (r *repeats) add(id string, line int) (before int) {
	if r.lines == nil {
		r.seed, r.lines = maphash.MakeSeed(), make(map[uint64]uint32)
	}
	sum := maphash.String(r.seed, id)
	known, again := r.lines[sum]
	if again || len(r.lines) < RepeatsKnown {
		r.lines[sum] = uint32(line)
	}
	return int(known)
}

// ErrNotLines reports an import that is no lines of JSON: nothing of it was taken.
var ErrNotLines = errors.New("accounts: not a record a line")

const oneALine = `An import has one JSON record a line, such as {"id":"news","kind":"feed","config":{"url":"https://example.com/feed.xml"}}`

// notLines looks at the first line and returns ErrNotLines with what to do, where it shows that
// the rest would be bad lines alone.
func notLines(first []byte) error {
	first = bytes.TrimSpace(bytes.TrimPrefix(first, []byte("\ufeff")))
	switch {
	case len(first) == 0 || json.Valid(first) && first[0] != '[':
		return nil
	case first[0] == '[':
		return fmt.Errorf("%w: this looks like a JSON array. %s. To convert it: jq -c '.[]' FILE", ErrNotLines, oneALine)
	case string(first) == "{":
		return fmt.Errorf("%w: this looks like JSON spread over several lines. %s. To convert it: jq -c . FILE", ErrNotLines, oneALine)
	case looksLikeCSV(first):
		return fmt.Errorf("%w: this looks like CSV. %s. A table with the columns id and url becomes feeds by: "+
			`jq -Rc 'split(",") | {id: .[0], kind: "feed", config: {url: .[1]}}' FILE`, ErrNotLines, oneALine)
	}
	return nil
}

// looksLikeCSV reports whether a line is two or more short names, as the head of a table is.
func looksLikeCSV(line []byte) bool {
	for _, separator := range []string{",", ";", "\t"} {
		cells := bytes.Split(line, []byte(separator))
		if len(cells) < 2 {
			continue
		}
		for _, cell := range cells {
			if bytes.ContainsAny(cell, "{}[]") {
				return false
			}
		}
		return true
	}
	return false
}
