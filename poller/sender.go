package poller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

)

// A Sender is a Checker whose accounts can also answer. The outbox (see *Sends* in package
// circulate) decides when a send is attempted; a Sender makes the call. It must be safe for
// concurrent use.
type Sender interface {
	Checker

	// Sending returns what accounts with this config can send, and what is known about an
	// attempt whose end is not. Its Types are empty if this account cannot send.
	Sending(config json.RawMessage) Sending

	// PrepareSend judges a send when it is queued, and completes it. If the send answers a
	// found message, it fills in what the kind takes from that message, such as the peer. Its
	// error names the field and the cure, and never quotes a secret.
	PrepareSend(config json.RawMessage, s *Outgoing, answers *Message) error

	// Send makes one call to the third party. An error without a *SendError is taken for an
	// unknown end: nobody knows whether the third party has the send. It must return soon after
	// ctx is done, as Check does.
	Send(ctx context.Context, r SendRequest) (Sent, error)
}

// Sending is what an account can send.
type Sending struct {
	Types    []string // the types of sends, such as "text"; empty: none
	Windowed bool     // peers may be answered only within windows: see Message.Answerable
	Doubt    Doubt    // what can be done about an attempt whose end is unknown
}

// Doubt is what a kind can do about an attempt whose end is unknown.
type Doubt string

// The doubts. The zero value is DoubtStays.
const (
	// DoubtStays says that nobody can tell: a person resolves it, or the account's on_unknown.
	DoubtStays Doubt = ""
	// DoubtRepeats says that the third party takes a send with the same id once, however often
	// it is repeated.
	DoubtRepeats Doubt = "deduplicates"
)

// Outgoing is a send before it is queued.
type Outgoing struct {
	Peer string
	Type string
	Data json.RawMessage
}

// SendRequest is what a Sender gets for one attempt.
type SendRequest struct {
	Account string
	Config  json.RawMessage // as registered, with its secrets resolved
	ID      string          // the send's: the same for each attempt, and for no other send
	Attempt int             // 1 at first
	Peer    string
	Type    string
	Data    json.RawMessage
	Token   string // Answerable.Token of the newest message of the peer; empty: there is none
}

// Sent is what the third party said of a send that it accepted.
type Sent struct {
	VendorID string // the third party's id; empty: it gave none
}

// SendError says that a send was not accepted, for certain.
type SendError struct {
	// Final says that the third party refuses the send for good. Otherwise it may be tried
	// again, at the earliest after After.
	Final bool
	// Unsent says that no byte of the call left, as when the third party could not be reached.
	Unsent  bool
	After   time.Duration
	Code    string // the third party's, or a short one of the kind's
	Message string // for people; never a secret
	// Check says what the failure means for the account itself, such as a credential that is
	// void; nil: nothing.
	Check *CheckError
}

// Error returns the code and the message.
func (e *SendError) Error() string { return fmt.Sprintf("%s: %s", e.Code, e.Message) }

// ErrCannotSend reports that accounts of a kind, or with a config, cannot send.
var ErrCannotSend = errors.New("accounts of this kind cannot send")

// Sender returns the sender of a kind, or nil if its accounts cannot send.
func (c Checkers) Sender(kind string) Sender {
	s, _ := c[kind].(Sender)
	return s
}

