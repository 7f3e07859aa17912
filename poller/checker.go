package poller

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/poller/egress"
)

// A Checker checks the accounts of one kind. It must be safe for concurrent
// use: a pool calls it from as many goroutines as it has places.
type Checker interface {
	// Kind returns the name that account records use, such as "feed" or "http".
	Kind() string

	// Validate judges a config when an account is registered. Its error has every fault at
	// once, each with its field, and never quotes a secret.
	Validate(config json.RawMessage) error

	// RateKey names the host, corporation or credential whose upstream limit this account
	// shares with others. Empty: the account shares no limit.
	RateKey(config json.RawMessage) string

	// Check makes one call to the third party, for one page. It must return soon after
	// ctx is done. A check that does not is abandoned, and its result is dropped. An
	// error that is not a *CheckError counts as transient. So does a panic, and the end of
	// the goroutine by runtime.Goexit. The texts of such an error and of a panic may hold a
	// secret, so neither the service nor its log shows them.
	Check(ctx context.Context, r Request) (Result, error)
}

// Request is what a checker gets for one page.
type Request struct {
	Account string          // the account's id
	CheckID string          // the same for every page and retry of one claim, and for no other
	Config  json.RawMessage // as registered
	Cursor  []byte          // as the last check left it; nil at first
	Hint    json.RawMessage // the hint of a nudge, for one check; never put it into the cursor
	Limit   int             // the most messages that are wanted
	Attempt int             // 1, and one more for each failure in a row before this check

	// Hold is how long the third party may hold this call before it answers that there is nothing.
	// Zero: not at all, and a checker that can ask for an answer at once does so. See Holder.
	Hold time.Duration

	// MayHaveLost says that a page of an earlier call may be lost: the replica that made the call may
	// have died with the page in hand, or the answer was cut. A Rememberer whose third party can give
	// messages again may ask for them: what is known is not written again.
	MayHaveLost bool

	// Trial says that somebody tries the config by hand: the findings are shown and not stored. Such a
	// check must not take messages from the account that a later one would find.
	Trial bool
}

// Message is one thing that a check found.
type Message = circulate.Message

// Result is the result of one page.
type Result struct {
	// Messages are new since Request.Cursor, oldest first.
	Messages []Message
	// Cursor is where the next check goes on; nil leaves it as it is.
	Cursor []byte
	// HasMore asks for another page at once. It may come without messages.
	HasMore bool
	// NextPollAfter is the least time until the next check, or with HasMore until the
	// next page; zero leaves it to the account's cadence.
	NextPollAfter time.Duration
	// CursorReset says that the upstream no longer knew the cursor: messages may be
	// missing or be found again.
	CursorReset bool
	// Warnings say what was wrong although the page could be read.
	Warnings []Warning
	// MovedTo is the account's new address, in place of the config's url, if the third
	// party says that the account has moved for good. This check must have succeeded at
	// that address. The address must be allowed, and may get everything that the config
	// adds to requests. Empty: the account has not moved.
	MovedTo string
	// FailedSends are sends that the third party had accepted, and that it says now it could not
	// deliver.
	FailedSends []FailedSend
	// Hold is how long the third party says that it will hold the account's next call. It
	// overrules Holder.Hold. Zero: it did not say.
	Hold time.Duration
}

// Validate checks the bounds that the ring and its readers rely on. Its error is a
// *CheckError.
func (r *Result) Validate() error {
	unfit := func(format string, args ...any) error {
		return &CheckError{Kind: Protocol, Scope: ScopeAccount, Code: codeBadResult, Message: fmt.Sprintf(format, args...)}
	}
	if len(r.Cursor) > maxCursor {
		return unfit("cursor: has %d bytes, at most %d may be kept", len(r.Cursor), maxCursor)
	}
	for i := range r.Messages {
		switch m := &r.Messages[i]; {
		case m.ID == "" || len(m.ID) > circulate.MaxIDLength:
			return unfit("messages[%d].id: must have 1 to %d bytes, has %d", i, circulate.MaxIDLength, len(m.ID))
		case len(m.Data) > maxData:
			return unfit("messages[%d].data: has %d bytes, at most %d may be kept", i, len(m.Data), maxData)
		case len(m.Data) > 0 && !json.Valid(m.Data):
			return unfit("messages[%d].data: must be JSON", i)
		}
	}
	return nil
}

// Warning says what was wrong with a third party's answer whose messages could still be read.
// It does not count against the account. It shows in "rounds account why" and in a metric.
type Warning struct {
	Code    string // short, stable, and one of few: "malformed"
	Message string // for people; never a secret, never a query string
}

// String returns the code and the message, as they are stored.
func (w Warning) String() string { return w.Code + ": " + w.Message }

// Checkers are the checkers of a process, by kind.
type Checkers map[string]Checker

// NewCheckers returns checkers by their kind. Two checkers of one kind are an error, and so is a kind
// named egress, the word of ways out.
func NewCheckers(all ...Checker) (Checkers, error) {
	c := make(Checkers, len(all))
	for _, checker := range all {
		if checker.Kind() == egress.Target {
			return nil, fmt.Errorf("poller: the kind %q has the name of the ways out: give it another", checker.Kind())
		}
		if _, twice := c[checker.Kind()]; twice {
			return nil, fmt.Errorf("poller: two checkers of kind %q", checker.Kind())
		}
		c[checker.Kind()] = checker
	}
	return c, nil
}

// Validate judges a config with its kind's checker. Its error is the checker's, or says that the
// kind is unknown.
func (c Checkers) Validate(kind string, config json.RawMessage) error {
	checker, ok := c[kind]
	if !ok {
		return fmt.Errorf("kind: %q is not known; the kinds are %s", kind, strings.Join(c.Kinds(), ", "))
	}
	if len(config) == 0 {
		config = json.RawMessage("{}")
	}
	return checker.Validate(config)
}

// Hold returns how long the third party of a kind holds a call with that config until something
// comes. It is zero if it holds none, or if the kind is unknown. See Holder.
func (c Checkers) Hold(kind string, config json.RawMessage) time.Duration {
	return holdOf(c[kind], config, nil)
}

// HoldAt is Hold for an account with a cadence, as cadence.Cadence.String writes it. See Pollable.
func (c Checkers) HoldAt(kind string, config json.RawMessage, every string) time.Duration {
	if pollable(c[kind]) && !isTight(every) {
		return 0
	}
	return c.Hold(kind, config)
}

// Shared returns the name of what an account shares with others by its rate key, such as its host,
// in the form of limits: KIND/KEY. It is empty if that is nothing, or if the kind is unknown.
func (c Checkers) Shared(kind string, config json.RawMessage) string {
	checker, ok := c[kind]
	if !ok {
		return ""
	}
	return sharedName(kind, answer("RateKey", checker.RateKey, config, nil))
}

// Kinds returns the kinds in alphabetical order.
func (c Checkers) Kinds() []string {
	kinds := make([]string, 0, len(c))
	for kind := range c {
		kinds = append(kinds, kind)
	}
	slices.Sort(kinds)
	return kinds
}
