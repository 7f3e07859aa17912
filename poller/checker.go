package poller

import (
	"context"
	"encoding/json"
	"time"

	"github.com/rounds-dev/rounds/circulate"
)

// A Checker checks the accounts of one kind. It must be safe for concurrent
// use: a pool calls it from as many goroutines as it has places.
type Checker interface {
	// Kind is the name that account records use, such as "feed" or "http".
	Kind() string

	// Validate judges a config when an account is registered. It reports every
	// fault at once, each naming its field, and never a secret.
	Validate(config json.RawMessage) error

	// RateKey names who shares an upstream's limit with this account: a host, a
	// corporation, a credential. Empty: nobody does.
	RateKey(config json.RawMessage) string

	// Check makes one call to the third party: one page. It must return soon
	// after ctx is done; one that does not is abandoned and its result dropped.
	// An error that is not a *CheckError counts as transient.
	Check(ctx context.Context, r Request) (Result, error)
}

// Request is what a checker gets for one page.
type Request struct {
	Account string          // the account's id
	CheckID string          // the same for every page and retry of one claim, and for no other
	Config  json.RawMessage // as registered
	Cursor  []byte          // as the last check left it; nil at first
	Hint    json.RawMessage // what a nudge brought along, once; never to be kept in the cursor
	Limit   int             // at most this many messages are wanted
	Attempt int             // 1, and one more for each failure in a row before this check
}

// Message is one thing that a check found.
type Message = circulate.Message

// Result is what one page brought.
type Result struct {
	// Messages are new since Request.Cursor, oldest first.
	Messages []Message
	// Cursor is where the next check goes on; nil leaves it as it is.
	Cursor []byte
	// HasMore asks for another page at once. It may come without messages.
	HasMore bool
	// NextPollAfter is the least time until the next check, or with HasMore until
	// the next page; zero leaves it to the account's cadence.
	NextPollAfter time.Duration
	// CursorReset says that the upstream no longer knew the cursor, so that
	// messages may be missing or come again.
	CursorReset bool
	// Warnings are what was wrong though the page could be read.
	Warnings []Warning
	// MovedTo is the address at which the third party says for good that the account is
	// to be asked from now on, in place of the config's url: tried by this very
	// check, allowed, and fit to be sent all that the config adds to requests. Empty:
	// where it was.
	MovedTo string
}
