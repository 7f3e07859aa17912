package webhook

import (
	"errors"
	"fmt"
)

// faults collects what is wrong, each with its field, instead of stopping at the
// first. Of one field only the first fault is kept: others follow from it.
type faults struct {
	within string // put before each field
	list   *[]error
	seen   map[string]bool
}

func newFaults() *faults { return &faults{list: new([]error), seen: make(map[string]bool)} }

// in gives a view for which all fields are within another.
func (f *faults) in(field string) *faults {
	return &faults{within: f.within + field + ".", list: f.list, seen: f.seen}
}

func (f *faults) add(field, text string) {
	name := f.within + field
	if !f.seen[name] {
		f.seen[name] = true
		*f.list = append(*f.list, fmt.Errorf("%s: %s", name, text))
	}
}

func (f *faults) err() error { return errors.Join(*f.list...) }

// printable gives a field's name in a form that is safe in one line of text, cut
// after 64 bytes.
func printable(name string) string {
	const most = 64
	clean := make([]rune, 0, len(name))
	for i, char := range name {
		if i >= most {
			return string(clean) + "…"
		}
		if char < ' ' || char == 0x7f {
			char = '?'
		}
		clean = append(clean, char)
	}
	return string(clean)
}
