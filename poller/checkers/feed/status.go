package feed

import (
	"fmt"
	"net/http"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/fetch"
)

// statusError says what a status other than a success means for a feed. What
// tells of the host, and not of one feed on it, has the scope of the rate key.
// Whether the request had a login or headers of the config decides what to advise.
func statusError(answer *fetch.Response, credentials bool) *poller.CheckError {
	e := &poller.CheckError{
		Kind:    poller.Transient,
		Scope:   poller.ScopeAccount,
		Code:    fmt.Sprintf("http_%d", answer.Status),
		Message: "the host answered " + statusText(answer.Status),
	}
	switch answer.Status {
	case http.StatusUnauthorized:
		// A credential will not turn up by waiting, and a refused one will not fit.
		e.Kind = poller.AuthFailed
		if credentials {
			e.Message += ": the login or the headers of the config are refused"
		} else {
			e.Message += ": the feed wants a login: give the config a login, or headers"
		}
	case http.StatusGone:
		e.Kind = poller.Gone
	case http.StatusTooManyRequests:
		e.Kind, e.Scope = poller.RateLimited, poller.ScopeRateKey
		e.RetryAfter = answer.RetryAfter()
	case http.StatusServiceUnavailable:
		e.Scope = poller.ScopeRateKey
		e.RetryAfter = answer.RetryAfter()
	case http.StatusBadGateway, http.StatusGatewayTimeout:
		e.Scope = poller.ScopeRateKey
	case http.StatusNotModified:
		e.Kind = poller.Protocol
		e.Message += " though it was not asked whether the feed is modified"
	}
	if answer.Status >= 300 && answer.Status < 400 && answer.Status != http.StatusNotModified {
		e.Message += fmt.Sprintf(" after at most %d redirects", maxRedirects)
	}
	return e
}

func statusText(status int) string {
	if text := http.StatusText(status); text != "" {
		return fmt.Sprintf("%d %s", status, text)
	}
	return fmt.Sprint(status)
}
