package poller

import (
	"errors"
	"fmt"
	"time"
)

// ErrorKind says what the pool does about a failed check. Nothing is ever
// guessed from an error's text.
type ErrorKind string

// The kinds of failure.
const (
	Transient     ErrorKind = "transient"      // try again with backoff; counts to the retry budget
	RateLimited   ErrorKind = "rate_limited"   // try again after RetryAfter; counts to nothing
	AuthFailed    ErrorKind = "auth"           // the account's credential is refused; parked after a few, or at once where it is Final
	Gone          ErrorKind = "gone"           // the account no longer exists upstream; parked at once
	ConfigInvalid ErrorKind = "config"         // the record cannot be used; parked at once
	CursorInvalid ErrorKind = "cursor_invalid" // the upstream refuses the cursor; it is dropped
	Protocol      ErrorKind = "protocol"       // the answer breaks its own rules; as transient
)

// ErrorScope says whom a failure is blamed on.
type ErrorScope string

// The scopes of failure. Only a failure of scope account counts against it.
const (
	ScopeAccount ErrorScope = "account"  // this account alone
	ScopeRateKey ErrorScope = "rate_key" // all that share its Checker.RateKey
	ScopeEgress  ErrorScope = "egress"   // our own network or address
	ScopeChecker ErrorScope = "checker"  // the checker or connector itself: a bad deploy, a wrong signature
)

// CheckError is a failed check, told apart by the checker, which alone knows.
type CheckError struct {
	Kind       ErrorKind     // empty: transient
	Scope      ErrorScope    // empty: account
	RetryAfter time.Duration // the upstream's wish; honoured in full
	Code       string        // short and stable, for people and metrics: "http_503", "timeout"
	Message    string        // for people; never a secret, never a query string
	Final      bool          // of AuthFailed: only somebody's doing can change it, and trying again may do harm
	Network    bool          // the third party was not reached, or the connection broke: it may be our own network
	Err        error         // the cause, for errors.Is; its text is never shown
}

// Error returns the kind, the code and the message, never the cause's text, which
// may hold what Message must not.
func (e *CheckError) Error() string {
	return fmt.Sprintf("%s: %s: %s", e.Kind, e.Code, e.Message)
}

// Unwrap returns the cause.
func (e *CheckError) Unwrap() error { return e.Err }

// classify finds the kind and scope of any error. What no checker has named is
// transient and the account's own, and its text is kept out: it may hold a
// query string.
func classify(err error) *CheckError {
	var known *CheckError
	if !errors.As(err, &known) {
		return &CheckError{Kind: Transient, Scope: ScopeAccount, Code: "unknown", Message: "the check failed", Err: err}
	}
	named := *known
	if named.Kind == "" {
		named.Kind = Transient
	}
	if named.Scope == "" {
		named.Scope = ScopeAccount
	}
	return &named
}
