package census

import (
	"strconv"
	"strings"
	"time"
)

// Entry is an account in a list of Redis: `ticket|stamp|replica|id`.
type Entry struct {
	Ticket  int64
	Stamp   time.Time // since when it waits or is claimed, by Redis' clock
	Replica string    // who holds it; empty while it waits
	ID      string
}

// The widths of an entry's parts except the last.
const (
	ticketWidth  = 14
	stampWidth   = 13
	replicaWidth = 10
)

// parse reads an entry. It returns false if the text is none.
func parse(text string) (Entry, bool) {
	parts := strings.SplitN(text, "|", 4)
	if len(parts) != 4 || len(parts[0]) != ticketWidth || len(parts[1]) != stampWidth || len(parts[2]) != replicaWidth {
		return Entry{}, false
	}
	ticket, ok := number(parts[0])
	stamp, alsoOK := number(parts[1])
	if !ok || !alsoOK || parts[3] == "" || len(parts[3]) > 256 {
		return Entry{}, false
	}
	e := Entry{Ticket: ticket, Stamp: time.UnixMilli(stamp), Replica: parts[2], ID: parts[3]}
	if e.Replica == strings.Repeat("-", replicaWidth) {
		e.Replica = ""
	}
	return e, true
}

// number reads digits and nothing else.
func number(text string) (int64, bool) {
	if strings.Trim(text, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil
}
