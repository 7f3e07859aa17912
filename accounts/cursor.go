package accounts

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// Cursors are carried by callers from one call to the next. A cursor says how far a list,
// a walk or a reader of messages has come.
//
// A sealed cursor is opaque text: a letter for its kind, the content and a checksum. A cursor
// that is cut off, mistyped or of another kind is refused and never misread. The seal is not
// a signature: it detects mistakes, not forgery, and hides nothing.

// CursorKind says what a cursor belongs to. Callers store cursors across restarts, so the
// letter of a kind never changes.
type CursorKind byte

// The kinds.
const (
	CursorPosition CursorKind = 'm' // a reader of messages
	CursorList     CursorKind = 'l' // a list of accounts
	CursorParked   CursorKind = 'p' // a list of parked accounts
	CursorRevival  CursorKind = 'r' // a revival
	CursorAudit    CursorKind = 'a' // an audit
	CursorDead     CursorKind = 'd' // a walk through dead letters
	CursorTrail    CursorKind = 't' // a walk through the trail
	CursorTimeline CursorKind = 'e' // a walk through an account's timeline
	CursorSends    CursorKind = 's' // a list of sends
	CursorOrder    CursorKind = 'o' // a list of accounts in an order
)

// SealCursor returns the text of a cursor of a kind. Callers may put it into a URL as it is.
func SealCursor(kind CursorKind, content []byte) string {
	text := append([]byte{byte(kind)}, content...)
	text = binary.BigEndian.AppendUint32(text, crc32.ChecksumIEEE(text))
	return base64.RawURLEncoding.EncodeToString(text)
}

// UnsealCursor returns the content of a cursor of a kind. Its error is ErrCursor.
func UnsealCursor(kind CursorKind, sealed string) ([]byte, error) {
	text, err := base64.RawURLEncoding.Strict().DecodeString(sealed)
	if err != nil || len(text) < 5 || base64.RawURLEncoding.EncodeToString(text) != sealed {
		return nil, fmt.Errorf("%w: it is cut off or mistyped", ErrCursor)
	}
	body := text[:len(text)-4]
	if binary.BigEndian.Uint32(text[len(body):]) != crc32.ChecksumIEEE(body) {
		return nil, fmt.Errorf("%w: it is cut off or mistyped", ErrCursor)
	}
	if body[0] != byte(kind) {
		return nil, fmt.Errorf("%w: it belongs to another route", ErrCursor)
	}
	return body[1:], nil
}

// appendShard appends the number of a shard, after how many there are, to the content of a cursor.
func appendShard(content []byte, shards, shard int) []byte {
	return binary.AppendUvarint(binary.AppendUvarint(content, uint64(shards)), uint64(shard))
}

// cutShard returns the shard that a cursor's content begins with, and the rest. The ring must
// have as many shards as when the cursor was made.
func cutShard(content []byte, shards int) (shard int, rest []byte, err error) {
	of, n := binary.Uvarint(content)
	if n <= 0 || of != uint64(shards) {
		return 0, nil, fmt.Errorf("%w: it is of a ring with another number of shards", ErrCursor)
	}
	at, m := binary.Uvarint(content[n:])
	if m <= 0 || at >= of {
		return 0, nil, fmt.Errorf("%w: it names no shard", ErrCursor)
	}
	return int(at), content[n+m:], nil
}
