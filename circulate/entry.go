package circulate

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

// The first three parts of an entry have a fixed width, so that scripts can cut it
// without matching. Fourteen digits of ticket are the most that Redis stores in sixteen
// bytes.
const (
	ticketWidth  = 14
	stampWidth   = 13
	replicaWidth = 10
	idOffset     = ticketWidth + 1 + stampWidth + 1 + replicaWidth + 1

	// In the tickets HASH a lane, a rule, times and marks follow the ticket; see entry.lua.
	ruleOffset   = ticketWidth + 1
	cursorOffset = ruleOffset + 1 + 16

	// MaxIDLength is the most bytes that an account's id may have.
	MaxIDLength = 256

	nobody = "----------" // the replica of an entry that is not claimed
)

// Entry is a timestamped account id as it travels through message_queue and
// processing_list: `ticket|stamp|replica|id`.
type Entry struct {
	Ticket  int64     // void unless it is the account's current ticket
	Stamp   time.Time // since when it has waited or been claimed; Redis' clock, in ms
	Replica string    // the replica that claimed it; empty while it waits
	ID      string    // the account
}

// ErrMalformedEntry reports a text that is not an entry.
var ErrMalformedEntry = wire.Finding("circulate: malformed entry")

// ParseEntry reads an entry. For every text that it accepts, String returns the same
// text.
func ParseEntry(text string) (Entry, error) {
	if len(text) <= idOffset || len(text) > idOffset+MaxIDLength ||
		text[ticketWidth] != '|' || text[ticketWidth+1+stampWidth] != '|' || text[idOffset-1] != '|' {
		return Entry{}, ErrMalformedEntry
	}
	ticket, err := digits(text[:ticketWidth])
	if err != nil {
		return Entry{}, err
	}
	stamp, err := digits(text[ticketWidth+1 : ticketWidth+1+stampWidth])
	if err != nil {
		return Entry{}, err
	}
	replica := text[idOffset-1-replicaWidth : idOffset-1]
	if strings.ContainsRune(replica, '|') {
		return Entry{}, ErrMalformedEntry
	}
	if replica == nobody {
		replica = ""
	}
	return Entry{Ticket: ticket, Stamp: time.UnixMilli(stamp), Replica: replica, ID: text[idOffset:]}, nil
}

// String returns the entry's text.
func (e Entry) String() string {
	replica := e.Replica
	if replica == "" {
		replica = nobody
	}
	return fmt.Sprintf("%0*d|%0*d|%s|%s", ticketWidth, e.Ticket, stampWidth, e.Stamp.UnixMilli(), replica, e.ID)
}

// appendDigits appends a number of at least zero, padded to width digits.
func appendDigits(b []byte, n int64, width int) []byte {
	b = append(b, "00000000000000"[:width]...)
	for i := len(b) - 1; n > 0; i-- {
		b[i] = '0' + byte(n%10)
		n /= 10
	}
	return b
}

func digits(text string) (int64, error) {
	for i := range len(text) {
		if text[i] < '0' || text[i] > '9' {
			return 0, ErrMalformedEntry
		}
	}
	return strconv.ParseInt(text, 10, 64)
}

// ValidateID returns what is wrong with an account's id. It must be 1 to MaxIDLength
// bytes of UTF-8 without control characters.
func ValidateID(id string) error {
	switch {
	case id == "":
		return errors.New("must not be empty")
	case len(id) > MaxIDLength:
		return fmt.Errorf("must be at most %d bytes, has %d", MaxIDLength, len(id))
	case !utf8.ValidString(id):
		return errors.New("must be UTF-8")
	case strings.ContainsFunc(id, func(r rune) bool { return r < 0x20 || r >= 0x7f && r < 0xa0 }):
		return errors.New("must not contain control characters")
	}
	return nil
}

// ValidateReplica returns what is wrong with a replica's name. It must be exactly ten
// letters or digits, as NewReplica makes it.
func ValidateReplica(name string) error {
	if len(name) != replicaWidth || strings.ContainsFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9')
	}) {
		return fmt.Errorf("%w: replica %q: must be %d letters or digits", wire.ErrInput, name, replicaWidth)
	}
	return nil
}
