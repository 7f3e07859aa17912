package message

import "github.com/rounds-dev/rounds/circulate"

const (
	// Limit is the number of messages or dead letters on a page unless the caller asks
	// otherwise.
	Limit = 100
	// MaxLimit is the largest limit that a caller may ask for.
	MaxLimit = 1000

	// pageBytes is the amount of data after which a page of messages ends early.
	pageBytes = 8 << 20
	// lookBudget is the number of dead letters that a call looks at before it returns.
	lookBudget = 5000
)

// Reader reads the messages of a ring, its consumer groups and its dead letters. It is safe
// for concurrent use. A process should have one Reader: its tails share what they read.
//
// An error that is not this package's, accounts.ErrCursor or strict.Faults is the
// ring's: Redis is away, or refused a command.
type Reader struct {
	ring  *circulate.Ring
	tails tailReads
}

// New returns the reader of a ring.
func New(ring *circulate.Ring) *Reader { return &Reader{ring: ring} }
