package oauth

import (
	"errors"
	"net/http"
	"time"

	"golang.org/x/oauth2"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/fetch"
)

// The reasons why a provider issues no token (RFC 6749, section 5.2; RFC 8628, section 3.5).
const (
	reasonGrant   = "invalid_grant"
	reasonPending = "authorization_pending"
	reasonSlow    = "slow_down"
	reasonExpired = "expired_token"
	reasonDenied  = "access_denied"

	// These are ours: this process asks for too many tokens, and the account was signed in for
	// another client.
	reasonCrowd  = "crowd"
	reasonClient = "other_client"

	reasonPause = "http_429" // of a pause

	again = "sign in again, by `rounds mail login` or on the account's page"
)

// failure returns the error for a request to a provider. what is the fault of an answer that cannot
// be used. The provider's own words are not shown, because they may repeat what was sent.
func failure(err error, what string) *poller.CheckError {
	refused, ok := errors.AsType[*oauth2.RetrieveError](err)
	if !ok {
		if _, ours := errors.AsType[*fetch.Error](err); ours {
			e := fetch.SharedCheckError(err)
			e.Message = "the provider of the sign-in: " + e.Message
			return e
		}
		return fetch.ProtocolError("the provider's", what)
	}
	if refused.Response != nil {
		if status := refused.Response.StatusCode; status == http.StatusTooManyRequests || status >= 500 {
			answer := fetch.Response{Status: status, Header: refused.Response.Header}
			return fetch.StatusError("the provider of the sign-in", &answer)
		}
	}
	return reasonError(refused.ErrorCode, 0)
}

// reasonError returns the error for a reason.
func reasonError(reason string, wait time.Duration) *poller.CheckError {
	e := &poller.CheckError{Kind: poller.Transient, Scope: poller.ScopeRateKey, Code: "oauth_" + reason, RetryAfter: wait}
	switch reason {
	case reasonGrant, "interaction_required", "consent_required", "login_required":
		e.Kind, e.Scope, e.Final = poller.AuthFailed, poller.ScopeAccount, true
		e.Message = "the provider no longer accepts the sign-in: " + again
	case "invalid_client", "unauthorized_client", "invalid_scope", "unsupported_grant_type", "invalid_request":
		e.Scope = poller.ScopeChecker
		e.Message = "the provider refuses this service as a client: compare the service's own secret with its registration there"
	case reasonClient:
		e.Kind, e.Scope, e.Final = poller.AuthFailed, poller.ScopeAccount, true
		e.Message = "the account was signed in for another client than the service's own secret has now: " + again
	case reasonCrowd:
		e.Kind, e.Message = poller.RateLimited, "many accounts need a new access token at once"
	case reasonSlow, reasonPause:
		e.Kind, e.Message = poller.RateLimited, "the provider of the sign-in asks for a pause"
	case reasonPending, reasonExpired, reasonDenied, "temporarily_unavailable", "server_error":
		e.Message = "the provider of the sign-in issued no access token"
	default:
		e.Code, e.Message = "oauth_error", "the provider of the sign-in issued no access token"
	}
	return e
}

// isReason reports whether an error is a provider's answer with a reason.
func isReason(err error, reason string) bool {
	refused, ok := errors.AsType[*oauth2.RetrieveError](err)
	return ok && refused.ErrorCode == reason
}
