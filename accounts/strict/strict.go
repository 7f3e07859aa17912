// Package strict reads the JSON that people and programs send us. It returns every fault of a
// text at once, each with its field.
//
// Object reads a request or a record. It refuses texts that decoders silently accept, each in
// its own way: two members with one name, half of a surrogate pair, and nesting that another
// decoder refuses. Two decoders read such a text differently, and two ids may become one.
// Decoder reads such an object into a struct, and Stored reads objects that were accepted
// before. Form reads the configs of a kind, Reader reads other configurations field by field,
// and Limits bounds the answers of an upstream.
//
// The package knows no field names: its callers do.
package strict

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
)

// MaxDepth is the deepest nesting of arrays and objects: far deeper than anybody writes, and
// fine for every decoder.
const MaxDepth = 64

// maxFaults is the most faults of one value.
const maxFaults = 16

// check returns the faults of a value, which must be valid JSON. Their fields begin with
// name. It is fast for a value without faults.
func check(name string, value []byte) Faults {
	if !bytes.ContainsAny(value, `{[\`) {
		return nil // a plain text or a number, as most are
	}
	if Depth(value) > MaxDepth {
		return Faults{{Field: name, Reason: Deep}}
	}
	c := checker{text: value}
	c.value(name)
	return c.faults
}

// Depth returns how deep the arrays and objects of valid JSON are nested.
func Depth(text []byte) int {
	depth, most := 0, 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			i = stringEnd(text, i) - 1
		case '{', '[':
			depth++
			most = max(most, depth)
		case '}', ']':
			depth--
		}
	}
	return most
}

// nameOf returns a member's name from its text, quotes included, and whether it is whole:
// without half of a surrogate pair.
func nameOf(quoted []byte) (name string, whole bool) {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return string(quoted[1 : len(quoted)-1]), true
	}
	_ = json.Unmarshal(quoted, &name) // valid JSON has a string here
	return name, !halved(quoted)
}

// checker walks through one value.
type checker struct {
	text   []byte
	at     int
	faults Faults
}

func (c *checker) fault(path, reason string) {
	if len(c.faults) < maxFaults {
		c.faults = append(c.faults, Fault{Field: path, Reason: reason})
	}
}

func (c *checker) space() byte {
	for strings.IndexByte(space, c.text[c.at]) >= 0 {
		c.at++
	}
	return c.text[c.at]
}

func (c *checker) value(path string) {
	switch c.space() {
	case '{':
		c.object(path)
	case '[':
		c.array(path)
	case '"':
		end := stringEnd(c.text, c.at)
		if halved(c.text[c.at:end]) {
			c.fault(path, Surrogate)
		}
		c.at = end
	default:
		for c.at < len(c.text) && strings.IndexByte(",]}"+space, c.text[c.at]) < 0 {
			c.at++
		}
	}
}

func (c *checker) array(path string) {
	c.at++
	for n := 0; c.space() != ']'; n++ {
		if c.text[c.at] == ',' {
			c.at++
		}
		c.value(path + "[" + strconv.Itoa(n) + "]")
	}
	c.at++
}

func (c *checker) object(path string) {
	c.at++
	known := make(map[string]bool)
	for c.space() != '}' {
		if c.text[c.at] == ',' {
			c.at++
			c.space()
		}
		end := stringEnd(c.text, c.at)
		name, whole := nameOf(c.text[c.at:end])
		c.at = end
		below := path + "." + Printable(name)
		if !whole {
			c.fault(below, Surrogate)
		}
		if known[name] {
			c.fault(below, Twice)
		}
		known[name] = true
		c.space() // the colon
		c.at++
		c.value(below)
	}
	c.at++
}

// stringEnd returns the end of the string that begins at i. For a string without an end
// it returns a place after the text.
func stringEnd(text []byte, i int) int {
	for i++; i < len(text) && text[i] != '"'; i++ {
		if text[i] == '\\' {
			i++
		}
	}
	return i + 1
}

// halved reports whether a string, quotes included, has half of a surrogate pair.
func halved(quoted []byte) bool {
	for i := 0; i < len(quoted); i++ {
		if quoted[i] != '\\' {
			continue
		}
		i++
		if quoted[i] != 'u' {
			continue
		}
		unit := unitAt(quoted, i+1)
		i += 4
		switch {
		case unit < 0xd800 || unit > 0xdfff:
		case unit >= 0xdc00: // a second half first
			return true
		case i+6 >= len(quoted) || quoted[i+1] != '\\' || quoted[i+2] != 'u':
			return true
		default:
			if second := unitAt(quoted, i+3); second < 0xdc00 || second > 0xdfff {
				return true
			}
			i += 6
		}
	}
	return false
}

func unitAt(text []byte, i int) uint64 {
	if i+4 > len(text) {
		return 0
	}
	unit, _ := strconv.ParseUint(string(text[i:i+4]), 16, 32) // valid JSON has four digits
	return unit
}

// Printable returns a name in a form that fits into a line of text, cut after 64 bytes.
func Printable(name string) string {
	const most = 64
	clean := strings.Map(func(char rune) rune {
		if char < ' ' || char == 0x7f {
			return '?'
		}
		return char
	}, name)
	if len(clean) > most {
		clean = strings.ToValidUTF8(clean[:most], "") + "…"
	}
	return clean
}
