package accounts

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
)

// repeatsKnown is the number of ids that an import remembers in order to report repeated
// ones. They take about thirty megabytes, however long the import is.
const repeatsKnown = 1_000_000

// repeats remembers ids by a hash of 64 bits. A collision is very unlikely, and would only
// cause a wrong report.
type repeats struct {
	seed  maphash.Seed
	lines map[uint64]uint32
}

// add remembers an id, and returns the earlier line that has it, or 0.
func (r *repeats) add(id string, line int) (before int) {
	if r.lines == nil {
		r.seed, r.lines = maphash.MakeSeed(), make(map[uint64]uint32)
	}
	sum := maphash.String(r.seed, id)
	known, again := r.lines[sum]
	if again || len(r.lines) < repeatsKnown {
		r.lines[sum] = uint32(line)
	}
	return int(known)
}

// ErrNotLines reports input that has no lines of JSON. Nothing of it was taken.
var ErrNotLines = errors.New("accounts: not a record a line")

const oneALine = `An import has one JSON record a line, such as {"id":"news","kind":"feed","config":{"url":"https://example.com/feed.xml"}}`

// notLines returns ErrNotLines, with advice, if the first line shows that all others would
// be bad lines too.
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
		return fmt.Errorf("%w: this looks like CSV. %s. A table needs a first line that names its columns, such as id,kind,url", ErrNotLines, oneALine)
	}
	return nil
}

// looksLikeCSV reports whether a line has two or more cells without brackets, like the head
// of a table.
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
