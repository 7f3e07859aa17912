package poller

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/rounds-dev/rounds/accounts/cadence"
)

// ErrorKind says what the pool does about a failed check. The pool never guesses it from an error's
// text.
type ErrorKind string

// The kinds of failure.
const (
	Transient     ErrorKind = "transient"      // try again with backoff; counts toward the retry budget
	RateLimited   ErrorKind = "rate_limited"   // try again after RetryAfter; counts toward nothing
	AuthFailed    ErrorKind = "auth"           // the account's credential is refused; parked after a few, or at once if Final
	Gone          ErrorKind = "gone"           // the account no longer exists upstream; parked at once
	ConfigInvalid ErrorKind = "config"         // the record cannot be used; parked at once
	CursorInvalid ErrorKind = "cursor_invalid" // the upstream refuses the cursor; it is dropped
	Protocol      ErrorKind = "protocol"       // the answer breaks its own rules; treated as transient
	Unsupported   ErrorKind = "unsupported"    // this version does not know part of the config; the account is left to other replicas
)

// ErrorScope says what a failure is blamed on.
type ErrorScope string

// The scopes of failure. Only a failure of scope account counts against the account.
const (
	ScopeAccount ErrorScope = "account"  // this account alone
	ScopeRateKey ErrorScope = "rate_key" // all accounts with its Checker.RateKey
	ScopeEgress  ErrorScope = "egress"   // our own network or address
	ScopeWay     ErrorScope = "way"      // the way out that the account's calls go by, see package egress
	ScopeChecker ErrorScope = "checker"  // the checker or connector itself: a bad deploy, a wrong signature
)

// CheckError is a failed check, classified by the checker.
type CheckError struct {
	Kind       ErrorKind     // empty: transient
	Scope      ErrorScope    // empty: account
	RetryAfter time.Duration // the wait that the upstream asked for; never shortened
	Code       string        // short and stable, for people and metrics: "http_503", "timeout"
	Message    string        // for people; never a secret, never a query string
	Final      bool          // with AuthFailed: only a person can change it, and trying again may do harm
	Network    bool          // the third party was not reached, or the connection broke: our own network may be the cause
	Err        error         // the cause, for errors.Is; its text is never shown
}

// Error returns the kind, the code unless it is the same word, and the message. It leaves out the
// cause's text, which may contain a secret.
func (e *CheckError) Error() string { return e.text(string(e.Kind)) }

// text is Error with another word for the kind.
func (e *CheckError) text(word string) string {
	if e.Code == word || e.Code == string(e.Kind) {
		return word + ": " + e.Message
	}
	return fmt.Sprintf("%s: %s: %s", word, e.Code, e.Message)
}

// Unwrap returns the cause.
func (e *CheckError) Unwrap() error { return e.Err }

// Class returns what the failure means for the account's next check, and whether it counts against
// the account.
func (e *CheckError) Class() cadence.Class {
	switch {
	case e.Kind == RateLimited:
		return cadence.Throttled
	case e.Scope != "" && e.Scope != ScopeAccount:
		return cadence.Blameless
	case e.Kind == AuthFailed:
		return cadence.AuthFailed
	case e.Kind == Gone:
		return cadence.Gone
	case e.Kind == ConfigInvalid:
		return cadence.ConfigInvalid
	}
	return cadence.Transient
}

// ErrHere reports that only the settings of this process forbid something. No account is to blame
// for it.
var ErrHere = errors.New("is forbidden here")

// ConfigError returns the failure of a check whose config its checker refuses with err, as Validate
// would. The account is parked, with two exceptions. If err, or an error that it wraps, has a
// method Unsupported that returns true, as strict.Faults has for an unknown field, a later version
// may have written the config, and the account is left to other replicas. If err is an ErrHere,
// nothing counts against the account, which is tried again until the settings allow it.
func ConfigError(err error) *CheckError {
	failed := &CheckError{Kind: ConfigInvalid, Code: "config", Message: err.Error(), Err: err}
	var later interface{ Unsupported() bool }
	if errors.As(err, &later) && later.Unsupported() {
		failed.Kind, failed.Code = Unsupported, reasonField
	} else if errors.Is(err, ErrHere) {
		failed.Kind, failed.Scope, failed.Code = Transient, ScopeEgress, "refused_address"
	}
	return failed
}

// CursorError returns the failure of a check whose checker cannot read the cursor, because of err.
// The cursor is dropped.
func CursorError(err error) *CheckError {
	return &CheckError{Kind: CursorInvalid, Code: "cursor", Message: "the cursor is not one of this kind", Err: err}
}

// Classify returns any error of a checker as the pool sees it. An error that is not a *CheckError
// is transient, with the scope account. Its text is left out, because it may contain a query
// string. A nil *CheckError in a non-nil error is transient, with the code "nil_error". An error
// with a kind or a scope that does not exist, or without a code, has the code "bad_result". The result
// is a copy.
func Classify(err error) *CheckError {
	var known *CheckError
	switch {
	case !errors.As(err, &known):
		return &CheckError{Kind: Transient, Scope: ScopeAccount, Code: "unknown", Message: "the check failed", Err: err}
	case known == nil:
		return &CheckError{
			Kind: Transient, Scope: ScopeAccount, Code: "nil_error",
			Message: "the checker returned a nil *CheckError, which is not a nil error; it must return nil itself",
		}
	}
	named := *known
	named.Kind, named.Scope = cmp.Or(named.Kind, Transient), cmp.Or(named.Scope, ScopeAccount)
	named.fill()
	if what, value := named.unknown(); what != "" {
		named.Message = fmt.Sprintf("the checker's error has the %s %.40q, which does not exist: %s: %s", what, value, named.Code, named.Message)
		named.Kind, named.Scope, named.Code = Protocol, ScopeAccount, codeBadResult
	}
	return &named
}

// fill names what the texts lack that every failure has.
func (e *CheckError) fill() {
	switch {
	case e.Code == "" && e.Message == "":
		e.Message = "the checker's error has neither a code nor a message"
	case e.Code == "":
		e.Message = "the checker's error has no code: " + e.Message
	case e.Message == "":
		e.Message = "the checker's error has no message"
	}
	e.Code = cmp.Or(e.Code, codeBadResult)
}

// timedOut returns the failure of a call that took too long.
func timedOut(err error, after time.Duration) error {
	var known *CheckError
	if errors.As(err, &known) {
		return err // the checker knows the cause better
	}
	return &CheckError{Kind: Transient, Scope: ScopeAccount, Code: codeTimeout, Message: fmt.Sprintf("no answer within %v", after), Err: err}
}

// unknown names the config's field whose value this version does not know, if there is one.
func (e *CheckError) unknown() (what, value string) {
	switch e.Kind {
	case Transient, RateLimited, AuthFailed, Gone, ConfigInvalid, CursorInvalid, Protocol, Unsupported:
	default:
		return "kind", string(e.Kind)
	}
	switch e.Scope {
	case ScopeAccount, ScopeRateKey, ScopeEgress, ScopeWay, ScopeChecker:
	default:
		return "scope", string(e.Scope)
	}
	return "", ""
}
