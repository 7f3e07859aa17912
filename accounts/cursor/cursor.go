// Package cursor seals the cursors that callers carry from one call to the next. A cursor
// says how far a list, a walk or a reader of messages came.
//
// A sealed cursor is opaque text: a letter for its kind, the content and a checksum. A cursor
// that is cut off, mistyped or of another kind is refused and never misread. The seal is not
// a signature: it detects mistakes, not forgery, and hides nothing.
package cursor

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// ErrInvalid reports a cursor or a position that this ring never returned.
var ErrInvalid = errors.New("cursor: not a cursor of this ring")

// Kind says what a cursor belongs to. Callers keep cursors over restarts, so the letter of a
// kind never changes.
type Kind byte

// The kinds.
const (
	Position Kind = 'm' // a reader of messages
	List     Kind = 'l' // a list of accounts
	Parked   Kind = 'p' // a list of parked accounts
	Revival  Kind = 'r' // a revival
	Audit    Kind = 'a' // an audit
	Dead     Kind = 'd' // a walk through dead letters
	Trail    Kind = 't' // a walk through the trail
	Timeline Kind = 'e' // a walk through an account's timeline
)

// Seal returns the text of a cursor of a kind. Callers may put it into a URL as it is.
func Seal(kind Kind, content []byte) string {
	text := append([]byte{byte(kind)}, content...)
	text = binary.BigEndian.AppendUint32(text, crc32.ChecksumIEEE(text))
	return base64.RawURLEncoding.EncodeToString(text)
}

// Unseal returns the content of a cursor of a kind. Its error is ErrInvalid.
func Unseal(kind Kind, sealed string) ([]byte, error) {
	text, err := base64.RawURLEncoding.Strict().DecodeString(sealed)
	if err != nil || len(text) < 5 || base64.RawURLEncoding.EncodeToString(text) != sealed {
		return nil, fmt.Errorf("%w: it is cut off or mistyped", ErrInvalid)
	}
	body := text[:len(text)-4]
	if binary.BigEndian.Uint32(text[len(body):]) != crc32.ChecksumIEEE(body) {
		return nil, fmt.Errorf("%w: it is cut off or mistyped", ErrInvalid)
	}
	if body[0] != byte(kind) {
		return nil, fmt.Errorf("%w: it belongs to another route", ErrInvalid)
	}
	return body[1:], nil
}
