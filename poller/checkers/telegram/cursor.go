package telegram

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
)

// maxRecent is the most updates that a cursor remembers: as many as a page has, so that a repeated
// page is recognised as a whole.
const maxRecent = maxLimit

// cursor is where a bot's next call goes on. Its text is JSON. Earlier versions wrote only the
// offset.
type cursor struct {
	Offset int64 `json:"offset"` // behind the last update; 0: whatever the queue has
	// Queue names the queue to which the offset belongs; empty: an earlier version did not say.
	Queue string `json:"queue,omitempty"`
	// Recent are the marks of the latest updates, the newest at the end. They tell a repeated update
	// from another one with a lower id.
	Recent marks `json:"recent,omitempty"`
}

// queueOf names a bot's queue at a server. A new token of the same bot does not change it.
func queueOf(base, token string) string {
	bot, _, _ := strings.Cut(token, ":")
	sum := sha256.Sum256([]byte(base + "/bot" + bot))
	return hex.EncodeToString(sum[:8])
}

// decodeCursor reads a cursor; it is zero at first.
func decodeCursor(raw []byte) (c cursor, err error) {
	switch {
	case len(raw) == 0:
		return c, nil
	case raw[0] == '{':
		err = json.Unmarshal(raw, &c)
	default:
		c.Offset, err = strconv.ParseInt(string(raw), 10, 64)
	}
	if err == nil && (c.Offset <= 0 || len(c.Recent) > maxRecent) {
		err = errors.New("not an offset")
	}
	if err != nil {
		return cursor{}, err
	}
	return c, nil
}

// encode returns the cursor's text.
func (c cursor) encode() []byte {
	text, _ := json.Marshal(c) // it cannot fail
	return text
}

// of returns the cursor for a queue. In another queue an offset means nothing, and could confirm
// updates that nobody has seen.
func (c cursor) of(queue string) cursor {
	if c.Queue != "" && c.Queue != queue {
		return cursor{Queue: queue}
	}
	c.Queue = queue
	return c
}

// mark tells an update from others, even from one with the same id.
type mark [4]byte

func markOf(update []byte) mark {
	sum := sha256.Sum256(update)
	return mark(sum[:])
}

// marks are the marks of several updates, written as one text in base64.
type marks []mark

// MarshalText implements encoding.TextMarshaler.
func (m marks) MarshalText() ([]byte, error) {
	joined := make([]byte, 0, len(m)*len(mark{}))
	for _, one := range m {
		joined = append(joined, one[:]...)
	}
	return base64.RawStdEncoding.AppendEncode(nil, joined), nil
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (m *marks) UnmarshalText(text []byte) error {
	joined, err := base64.RawStdEncoding.AppendDecode(nil, text)
	if err != nil || len(joined)%len(mark{}) != 0 {
		return errors.New("not marks")
	}
	for one := range slices.Chunk(joined, len(mark{})) {
		*m = append(*m, mark(one))
	}
	return nil
}
