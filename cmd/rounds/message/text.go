package message

import (
	"bytes"
	"encoding/json"
	"strings"
)

// senderKeys are the keys of a message's data under which kinds name the sender.
var senderKeys = []string{"from", "author", "sender"}

// HasText reports whether a string in a message's data has a part, at any depth, but not as a key.
// The part must be in the form of Folded.
func HasText(data []byte, part string) bool { return has(data, part, false) }

// NamesSender reports whether a string in a message's data under a key that kinds use for the
// sender has a part: from, author or sender. The part must be in the form of Folded.
func NamesSender(data []byte, part string) bool { return has(data, part, true) }

// Folded returns a text in the form in which texts are compared: capitals and small letters are the
// same.
func Folded(text string) string { return strings.ToLower(text) }

// has walks through the strings of JSON. Of bytes that are not JSON it finds what looks like strings.
func has(data []byte, part string, ofSender bool) bool {
	depth, sender := 0, 0 // sender: the depth of the key that names the sender; 0: not within
	for i := 0; i < len(data); i++ {
		switch data[i] {
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth < sender {
				sender = 0
			}
		case ',':
			if depth == sender {
				sender = 0
			}
		case '"':
			end := stringEnd(data, i)
			text := data[i:end]
			i = end - 1
			if isKey(data[end:]) {
				if sender == 0 && isSenderKey(text) {
					sender = depth
				}
				continue
			}
			if (!ofSender || sender > 0) && strings.Contains(Folded(decoded(text)), part) {
				return true
			}
		}
	}
	return false
}

// stringEnd returns the place behind the string that begins at i.
func stringEnd(data []byte, i int) int {
	for i++; i < len(data); i++ {
		switch data[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(data)
}

// isKey reports whether a string before these bytes is a key.
func isKey(rest []byte) bool {
	rest = bytes.TrimLeft(rest, " \t\r\n")
	return len(rest) > 0 && rest[0] == ':'
}

func isSenderKey(text []byte) bool {
	name := decoded(text)
	for _, key := range senderKeys {
		if name == key {
			return true
		}
	}
	return false
}

// decoded returns what a string of JSON says.
func decoded(text []byte) string {
	if bytes.IndexByte(text, '\\') < 0 {
		return strings.Trim(string(text), `"`)
	}
	var said string
	if json.Unmarshal(text, &said) != nil {
		return string(text)
	}
	return said
}
