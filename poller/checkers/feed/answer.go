package feed

import (
	"fmt"
	"net/http"
	"net/url"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/checkers/message"
	"github.com/rounds-dev/rounds/poller/fetch"
)

// statusError returns the error for an unsuccessful status. An error of the host, and
// not of one feed on it, has the scope of the rate key. The advice depends on whether
// the config's login or headers were sent.
func statusError(answer *fetch.Response, credentials bool) *poller.CheckError {
	e := &poller.CheckError{
		Kind:    poller.Transient,
		Scope:   poller.ScopeAccount,
		Code:    fmt.Sprintf("http_%d", answer.Status),
		Message: "the host answered " + statusText(answer.Status),
	}
	switch answer.Status {
	case http.StatusUnauthorized:
		// Waiting helps neither a missing credential nor a refused one.
		e.Kind = poller.AuthFailed
		if credentials {
			e.Message += ": it refused the login or the headers of the config"
		} else {
			e.Message += ": the feed needs a login: add a login or headers to the config"
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

const maxShown = 120 // bytes of an address in a warning

// moves adds a warning about a feed that has moved permanently, once its new address has answered
// with a feed. The config's login and headers are for the old address alone. If there are any, a
// person must decide whether the new address may get them.
func (c config) moves(to string, result *poller.Result) {
	if to == "" || to == c.url {
		return
	}
	text := "for good, to " + shown(to)
	if c.headers.Any() && !fetch.SameOrigin(c.url, to) {
		text += "; its login or headers are not sent there"
	} else {
		result.MovedTo = to
	}
	result.Warnings = append(result.Warnings, poller.Warning{Code: "moved", Message: text})
}

// shown returns an address without the parts that may be secret.
func shown(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "an address that cannot be read"
	}
	text := u.Scheme + "://" + u.Host + u.EscapedPath()
	if u.RawQuery != "" {
		text += "?…"
	}
	if len(text) > maxShown {
		text = message.Cut(text, maxShown) + "…"
	}
	return text
}
