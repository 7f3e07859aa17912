package accounts

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"unicode/utf8"

	"github.com/rounds-dev/rounds/accounts/strict"
)

// object takes apart a JSON object that somebody sent: its fields as they stand in
// the text, which they are parts of. What would mean another thing to another
// decoder is refused, see package strict; the fields are given even then.
//
// It does what decoding into a map does, in a third of the time: records come by
// the million.
func object(text []byte) (map[string]json.RawMessage, error) {
	fields, twice, err := membersOfText(text)
	if err != nil {
		return nil, err
	}
	var faults Faults
	for _, name := range twice {
		faults = append(faults, Fault{strict.Printable(name), strict.Twice})
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		for _, f := range strict.Check(strict.Printable(name), fields[name]) {
			faults = append(faults, Fault{f.Path, f.Reason})
		}
	}
	if len(faults) > 0 {
		return fields, faults
	}
	return fields, nil
}

// stored takes apart an object that is there already: what it was let in with
// counts. Of fields of one name the last does.
func stored(text []byte) (map[string]json.RawMessage, error) {
	fields, _, err := membersOfText(text)
	return fields, err
}

func membersOfText(text []byte) (fields map[string]json.RawMessage, twice []string, err error) {
	// The decoder would put a replacement character for what is no UTF-8, and
	// so make one id of several.
	if !utf8.Valid(text) {
		return nil, nil, Faults{{RecordField, "must be UTF-8"}}
	}
	if !json.Valid(text) {
		return nil, nil, Faults{{RecordField, "is not JSON: " + notJSON(text)}}
	}
	fields, twice, ok := members(text)
	if !ok {
		return nil, nil, Faults{{RecordField, "must be a JSON object"}}
	}
	return fields, twice, nil
}

// notJSON says what is wrong with a text that is no JSON.
func notJSON(text []byte) string {
	var value json.RawMessage
	err := json.Unmarshal(text, &value)
	if err == nil {
		err = errors.New("unreadable")
	}
	return err.Error()
}

// membersOf takes apart what is valid JSON, or nothing, if it is an object.
func membersOf(text []byte) (map[string]json.RawMessage, bool) {
	found, _, ok := members(text)
	return found, ok
}

// members is membersOf that tells which names come more than once. A name that is
// half of a surrogate pair is no name of a field, and is refused as that.
func members(text []byte) (found map[string]json.RawMessage, twice []string, ok bool) {
	text = bytes.Trim(text, jsonSpace)
	if len(text) == 0 || text[0] != '{' {
		return nil, nil, false
	}
	found = make(map[string]json.RawMessage, 8)
	for rest := skip(text[1:], ','); rest[0] != '}'; rest = skip(rest, ',') {
		end := stringEnd(rest)
		name, _ := textOf(rest[:end]) // valid JSON has a string here
		rest = skip(rest[end:], ':')
		end = valueEnd(rest)
		if _, known := found[name]; known {
			twice = append(twice, name)
		}
		found[name] = json.RawMessage(rest[:end:end])
		rest = rest[end:]
	}
	return found, twice, true
}

const jsonSpace = " \t\r\n"

// skip gives what stands behind white space and the mark.
func skip(text []byte, mark byte) []byte {
	for i, c := range text {
		if c != mark && c != ' ' && c != '\t' && c != '\r' && c != '\n' {
			return text[i:]
		}
	}
	return nil
}

// valueEnd is where the value ends that a valid text begins with.
func valueEnd(text []byte) int {
	switch text[0] {
	case '"':
		return stringEnd(text)
	case '{', '[':
		depth := 0
		for i := 0; ; i++ {
			switch text[i] {
			case '"':
				i += stringEnd(text[i:]) - 1
			case '{', '[':
				depth++
			case '}', ']':
				if depth--; depth == 0 {
					return i + 1
				}
			}
		}
	}
	return bytes.IndexAny(text, ",]}"+jsonSpace) // there is one: the value is in an object
}

// stringEnd is where the string ends that a valid text begins with.
func stringEnd(text []byte) int {
	for i := 1; ; i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
}

// textOf reads a JSON string, if the value is one.
func textOf(value []byte) (string, bool) {
	if value[0] != '"' {
		return "", false
	}
	if bytes.IndexByte(value, '\\') < 0 {
		return string(value[1 : len(value)-1]), true
	}
	var text string
	err := json.Unmarshal(value, &text)
	return text, err == nil
}

// textIn reads the string that one of the members is, if it is there and is one.
func textIn(members map[string]json.RawMessage, name string) (string, bool) {
	value, ok := members[name]
	if !ok {
		return "", false
	}
	return textOf(value)
}
