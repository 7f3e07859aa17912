package secrets

import (
	"errors"
	"strings"

	"github.com/rounds-dev/rounds/poller"
)

// CheckError turns an error of Source.Get, or of the use of a secret's value, into a check's error.
// All are transient, because a secret and its binding may be mended at any time. A refused use
// counts against the account. Any other error means that the pollers were deployed without the
// secret or cannot reach the store, and no account is to blame.
func CheckError(err error) *poller.CheckError {
	e := &poller.CheckError{Kind: poller.Transient, Scope: poller.ScopeChecker, Code: "secret", Message: err.Error(), Err: err}
	switch {
	case errors.Is(err, ErrRefused):
		e.Scope, e.Code = poller.ScopeAccount, "secret_refused"
	case errors.Is(err, ErrUnavailable):
		e.Scope, e.Code = poller.ScopeEgress, "secret_store"
	default:
		e.Message = strings.TrimPrefix(e.Message, "secret ") // the code stands before it and says that
	}
	return e
}
