package poller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rounds-dev/rounds/circulate"
)

// A Sender is a Checker whose accounts can also answer. The outbox (see *Sends* in package
// circulate) decides when a send is attempted; a Sender makes the call. It must be safe for
// concurrent use.
type Sender interface {
	Checker

	// Sending returns what accounts with this config can send, and what is known about an
	// attempt whose end is not. Its Types are empty if this account cannot send.
	Sending(config json.RawMessage) Sending

	// PrepareSend judges a send of one of Sending's types when it is queued, and completes it. If
	// the send answers a found message, it fills in what the kind takes from that message, such
	// as the peer. Its error names the field and the cure, and never quotes a secret.
	PrepareSend(config json.RawMessage, s *Outgoing, answers *Message) error

	// Send makes one call to the third party. An error without a *SendError is an unknown end:
	// nobody knows whether the third party has the send. So are a panic, the end of the goroutine
	// by runtime.Goexit, and a call that does not return soon after ctx is done. Of such an error
	// only what a *CheckError says is shown. Send must never repeat a call that may have
	// reached the third party.
	Send(ctx context.Context, r SendRequest) (Sent, error)
}

// Sending is what an account can send.
type Sending struct {
	Types    []string // the types of sends, such as "text"; empty: none
	Windowed bool     // peers may be answered only within windows: see Message.Answerable
	Most     int      // how many answers a window allows; 0: any number
	Doubt    Doubt    // what can be done about an attempt whose end is unknown

	// Fleeting are those of Types whose effect passes by itself, such as a typing notice. They take
	// nothing from a window's count. Such a send is attempted once, within seconds, and an attempt
	// that is not accepted is rejected, even if its end is unknown: it never waits or is in doubt.
	Fleeting []string

	// Files are those of Types that are a file. Their data is {"file": "ID"}, perhaps with what the
	// kind takes besides, such as a caption.
	Files []string
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
	// DoubtTraces says that the sender is a Tracer, which may find a send at the third party. One that it
	// does not find stays unknown.
	DoubtTraces Doubt = "traces"
)

// A Tracer is a Sender that can look for a send whose end is unknown.
type Tracer interface {
	Sender

	// Trace looks for a send at the third party, and changes nothing there. If found, the third party
	// has it for certain. That it was not found proves nothing. The request has no file and no token.
	Trace(ctx context.Context, r SendRequest) (sent Sent, found bool, err error)
}

// Answerable is what a found message says about answers to its peer; see Message.Answerable.
type Answerable = circulate.Answerable

// MaxPeer is how many bytes a peer may have.
const MaxPeer = circulate.MaxPeer

// Outgoing is a send before it is queued.
type Outgoing struct {
	Peer string
	Type string
	Data json.RawMessage // valid JSON, or empty
	File *File           // that the data names; nil: none, or the caller does not know it
}

// SendRequest is what a Sender gets for one attempt.
type SendRequest struct {
	Account string
	Config  json.RawMessage // as registered; it may have changed since the send was queued
	ID      string          // the send's: the same for each attempt, and for no other send
	Attempt int             // 1 at first
	Peer    string
	Type    string
	Data    json.RawMessage
	File    *SendFile // if Type is one of Sending.Files; otherwise nil
	Token   string    // Answerable.Token of the newest message of the peer, as Check gave it; empty: there is none
}

// Sent is what the third party said of a send that it accepted.
type Sent struct {
	VendorID string // the third party's id; empty: it gave none
	// Warning says what was wrong although the third party accepted the send. It shows where a failure
	// would. Zero: nothing.
	Warning Warning
}

// FailedSend is a send that the third party had accepted and could not deliver.
type FailedSend struct {
	ID   string // the third party's, or ours
	Code string
	Text string // for people; never a secret
}

// SendError says that a send was not accepted, for certain.
type SendError struct {
	// Final says that the third party refuses the send for good. Otherwise it is tried again, at
	// the earliest after After, until it expires or has waited for a day.
	Final bool
	// Unsent says that no byte of the call left, as when the third party could not be reached. Such
	// an attempt takes nothing from the window's count.
	Unsent  bool
	After   time.Duration
	Code    string // the third party's, or a short one of the kind's
	Message string // for people; never a secret
	// Account says that the account itself may be at fault, as when its credential is void. The
	// account is then checked at once, and its check decides whether to park it.
	Account bool
	Err     error // the cause, for errors.Is; its text is never shown
}

// Error returns the code and the message. It leaves out the cause's text, which may contain a
// secret.
func (e *SendError) Error() string { return fmt.Sprintf("%s: %s", e.Code, e.Message) }

// Unwrap returns the cause.
func (e *SendError) Unwrap() error { return e.Err }

// ErrCannotSend reports that accounts of a kind, or with a config, cannot send.
var ErrCannotSend = errors.New("accounts of this kind cannot send")

// Unsent returns the error of a send of which no byte left because of err, as when the account's
// config or a secret cannot be used. It is tried again.
func Unsent(err error) *SendError {
	failed := Classify(err)
	return &SendError{Unsent: true, After: failed.RetryAfter, Code: failed.Code, Message: failed.Message, Account: failed.Kind == AuthFailed, Err: err}
}

// Refused returns the error of a send that the third party, or the kind itself, refuses for good.
func Refused(code, message string) *SendError {
	return &SendError{Final: true, Code: code, Message: message}
}

// TokenSealer protects the tokens of windows, which are stored in Redis. Open returns what
// Seal was given for the same account.
type TokenSealer interface {
	SealToken(account, token string) (string, error)
	OpenToken(account, sealed string) (string, error)
}

// Sender returns the sender of a kind, or nil if its accounts cannot send.
func (c Checkers) Sender(kind string) Sender {
	s, _ := c[kind].(Sender)
	return s
}

// senders returns the kinds that can send, in alphabetical order.
func (c Checkers) senders() []string {
	return slices.DeleteFunc(c.Kinds(), func(kind string) bool { return c.Sender(kind) == nil })
}

// fail writes that sends have failed, before the page that says so: if the page is lost, the next one
// says so again. Sends that are not in the outbox do not matter.
func (s *sends) fail(ctx context.Context, account string, failed []FailedSend) error {
	for _, f := range failed {
		if _, err := s.outbox.Fail(ctx, account, f.ID, f.Code, f.Text); err != nil && !errors.Is(err, circulate.ErrNoSend) {
			return err
		}
	}
	return nil
}

// sealTokens seals the tokens of the windows that a page opens. A token that cannot be sealed is
// not kept.
func (fs *flights) sealTokens(account string, page *Result) {
	if fs.tokens == nil || !slices.ContainsFunc(page.Messages, func(m Message) bool { return m.Answerable != nil && m.Answerable.Token != "" }) {
		return
	}
	page.Messages = slices.Clone(page.Messages)
	for i := range page.Messages {
		if page.Messages[i].Answerable == nil || page.Messages[i].Answerable.Token == "" {
			continue
		}
		window := *page.Messages[i].Answerable
		sealed, err := fs.tokens.SealToken(account, window.Token)
		if err != nil {
			sealed = ""
			fs.log.Error("a token was not sealed, and is not kept", "account", account, "error", err)
		}
		window.Token = sealed
		page.Messages[i].Answerable = &window
	}
}
