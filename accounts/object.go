package accounts

import (
	"bytes"
	"encoding/json"
	"errors"
	"unicode/utf8"
)

// object takes a JSON object apart: its fields as they stand in the text, which
// they are parts of. Of fields of one name the last counts.
//
// It does what decoding into a map does, in a third of the time: records come by
// the million.
func object(text []byte) (map[string]json.RawMessage, error) {
	// The decoder would put a replacement character for what is no UTF-8, and
	// so make one id of several.
	if !utf8.Valid(text) {
		return nil, Faults{{RecordField, "must be UTF-8"}}
	}
	if !json.Valid(text) {
		return nil, Faults{{RecordField, "is not JSON: " + notJSON(text)}}
	}
	fields, ok := membersOf(text)
	if !ok {
		return nil, Faults{{RecordField, "must be a JSON object"}}
	}
	return fields, nil
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
	text = bytes.Trim(text, jsonSpace)
	if len(text) == 0 || text[0] != '{' {
		return nil, false
	}
	members := make(map[string]json.RawMessage, 8)
	for rest := skip(text[1:], ','); rest[0] != '}'; rest = skip(rest, ',') {
		end := stringEnd(rest)
		name, _ := textOf(rest[:end]) // valid JSON has a string here
		rest = skip(rest[end:], ':')
		end = valueEnd(rest)
		members[name] = json.RawMessage(rest[:end:end])
		rest = rest[end:]
	}
	return members, true
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
