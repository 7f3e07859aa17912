package message

import "github.com/rounds-dev/rounds/circulate"

const (
	// Limit is how many messages or dead letters a page has unless asked otherwise.
	Limit = 100
	// MaxLimit is the most that a page may be asked for.
	MaxLimit = 1000

	// pageBytes is after how much data a page of messages ends early.
	pageBytes = 8 << 20
	// lookBudget is how many dead letters a call looks at before it lets the caller go on.
	lookBudget = 5000
)

// Reader reads the messages of a ring, its consumer groups and its dead letters. It is safe
// for concurrent use. Keep one for a process: its tails share what they read.
//
// Errors that are none of this package's, and no cursor.ErrInvalid or strict.Faults, are the
// ring's: Redis is away, or refused.
type Reader struct {
	ring  *circulate.Ring
	tails tailReads
}

// New makes the reader of a ring.
func New(ring *circulate.Ring) *Reader { return &Reader{ring: ring} }
