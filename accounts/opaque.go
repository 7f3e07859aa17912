package accounts

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// What callers carry about between calls is sealed: a letter that says what it
// is, the content, and a checksum, so that a cursor that was cut off, mistyped or
// taken for another is refused rather than misread.
const (
	sealPosition = 'm'
	sealList     = 'l'
	sealParked   = 'p'
	sealRevival  = 'r'
	sealAudit    = 'a'
	sealDead     = 'd'
)

func seal(kind byte, content []byte) string {
	text := append([]byte{kind}, content...)
	text = binary.BigEndian.AppendUint32(text, crc32.ChecksumIEEE(text))
	return base64.RawURLEncoding.EncodeToString(text)
}

func unseal(kind byte, sealed string) ([]byte, error) {
	text, err := base64.RawURLEncoding.Strict().DecodeString(sealed)
	if err != nil || len(text) < 5 || base64.RawURLEncoding.EncodeToString(text) != sealed {
		return nil, fmt.Errorf("%w: it is cut off or mistyped", ErrCursor)
	}
	body := text[:len(text)-4]
	if binary.BigEndian.Uint32(text[len(body):]) != crc32.ChecksumIEEE(body) {
		return nil, fmt.Errorf("%w: it is cut off or mistyped", ErrCursor)
	}
	if body[0] != kind {
		return nil, fmt.Errorf("%w: it is one of another route", ErrCursor)
	}
	return body[1:], nil
}
