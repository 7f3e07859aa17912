package imap

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

var errCursor = errors.New("imap: broken cursor")

// cursor is the position in a mailbox: at most 21 bytes, short enough to be kept
// with the account's ticket.
type cursor struct {
	validity uint32 // UIDVALIDITY; 0: never checked
	last     uint32 // the UID of the last message reported; 0: none yet
}

// parseCursor reads UIDVALIDITY:UID. An empty cursor is that of a mailbox never
// checked.
func parseCursor(raw []byte) (cursor, error) {
	if len(raw) == 0 {
		return cursor{}, nil
	}
	validity, last, ok := strings.Cut(string(raw), ":")
	v, err1 := strconv.ParseUint(validity, 10, 32)
	l, err2 := strconv.ParseUint(last, 10, 32)
	c := cursor{uint32(v), uint32(l)}
	if !ok || err1 != nil || err2 != nil || v == 0 || string(c.encode()) != string(raw) {
		return cursor{}, errCursor
	}
	return c, nil
}

func (c cursor) encode() []byte { return fmt.Appendf(nil, "%d:%d", c.validity, c.last) }
