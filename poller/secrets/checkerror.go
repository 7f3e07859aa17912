package secrets

import (
	"errors"

	"github.com/rounds-dev/rounds/poller"
)

// CheckError turns an error of Source.Get, or of what was to be made of a secret, into a
// check's error. All are transient: a secret and its binding may be mended at any time. A
// use that is refused counts against the account. Otherwise the pollers were deployed
// without the secret, or cannot ask for it, and no account is to blame.
func CheckError(err error) *poller.CheckError {
	e := &poller.CheckError{Kind: poller.Transient, Scope: poller.ScopeChecker, Code: "secret", Message: err.Error(), Err: err}
	switch {
	case errors.Is(err, ErrRefused):
		e.Scope, e.Code = poller.ScopeAccount, "secret_refused"
	case errors.Is(err, ErrUnavailable):
		e.Scope, e.Code = poller.ScopeEgress, "secret_store"
	}
	return e
}
