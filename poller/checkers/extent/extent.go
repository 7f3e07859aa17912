// Package extent tells how much there is in a JSON text before anybody decodes
// it: a decoder makes a value of 300 bytes out of two, and a text that is nested
// deeply passes through here to readers that break on it.
package extent

import "fmt"

// Limits are what a text may have.
type Limits struct {
	Depth  int // of arrays and objects in each other
	Values int // down to Within: elements of arrays, and members of objects
	Within int // values deeper than this are not counted: they are kept as text
}

// Error says which limit a text is over.
type Error struct {
	What string // "nested" or "values"
	Most int
}

// Error gives the limit, and nothing of the text.
func (e *Error) Error() string {
	if e.What == "nested" {
		return fmt.Sprintf("nested more than %d deep", e.Most)
	}
	return fmt.Sprintf("more than %d values", e.Most)
}

// Check gives how many values were counted, and reports with an *Error that a text
// is over a limit. It takes one pass and no memory. Of a text that is not JSON it
// says nothing, for no decoder makes anything of one.
func (l Limits) Check(text []byte) (int, error) {
	depth, values := 0, 1
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			i = end(text, i)
		case '{', '[':
			if depth++; depth > l.Depth {
				return 0, &Error{"nested", l.Depth}
			}
			if depth <= l.Within {
				values++
			}
		case '}', ']':
			depth--
		case ',':
			if depth <= l.Within {
				values++
			}
		}
		if values > l.Values {
			return 0, &Error{"values", l.Values}
		}
	}
	return values, nil
}

// end is where the string ends that begins at i.
func end(text []byte, i int) int {
	for i++; i < len(text) && text[i] != '"'; i++ {
		if text[i] == '\\' {
			i++
		}
	}
	return i
}
