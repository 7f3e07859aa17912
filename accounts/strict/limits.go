package strict

import "fmt"

// Limits are how much a text may have that somebody else sent, told before anybody decodes
// it: a decoder makes a value of 300 bytes out of two, and a text that is nested deeply
// passes through to readers that break on it.
type Limits struct {
	Depth  int // of arrays and objects in each other
	Values int // down to Within: elements of arrays, and members of objects
	Within int // values deeper than this are not counted: they are kept as text
}

// LimitError says which limit a text is over.
type LimitError struct {
	What string // "nested" or "values"
	Most int
}

// Error returns the limit, and nothing of the text.
func (e *LimitError) Error() string {
	if e.What == "nested" {
		return fmt.Sprintf("nested more than %d deep", e.Most)
	}
	return fmt.Sprintf("more than %d values", e.Most)
}

// Check returns how many values were counted. It reports a text that is over a limit with a
// *LimitError. It takes one pass and no memory. Of a text that is not JSON it says nothing,
// for no decoder makes anything of one.
func (l Limits) Check(text []byte) (int, error) {
	depth, values := 0, 1
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			i = stringEnd(text, i) - 1
		case '{', '[':
			if depth++; depth > l.Depth {
				return 0, &LimitError{"nested", l.Depth}
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
			return 0, &LimitError{"values", l.Values}
		}
	}
	return values, nil
}
