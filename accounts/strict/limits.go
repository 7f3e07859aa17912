package strict

import "fmt"

// Limits bound a text that a stranger sent, and are checked before the text is decoded. A
// decoder makes a value of 300 bytes out of two bytes of text, and a deeply nested text may
// break a later reader.
type Limits struct {
	Depth  int // the deepest nesting of arrays and objects
	Values int // the most elements of arrays and members of objects, down to the depth Within
	Within int // deeper values are not counted: they stay text
}

// LimitError says which limit a text exceeds.
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

// Check returns the number of values that it counted, or a *LimitError if the text exceeds a
// limit. It takes one pass and no memory. Its result means nothing for a text that is not
// JSON, which no decoder accepts.
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
