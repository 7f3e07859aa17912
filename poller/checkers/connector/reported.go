package connector

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/fetch"
)

// reportedError is an error object in an answer.
type reportedError struct {
	kind       poller.ErrorKind
	code       string
	message    string
	retryAfter time.Duration // 0: not set
}

// Error returns only the kind. The rest is the connector's own text, which checkError
// has to scrub first.
func (e *reportedError) Error() string { return "connector: " + string(e.kind) }

// decodeError reads an error object and the answer's retry_after. It returns a
// *reportedError if both are well-formed.
func decodeError(raw json.RawMessage, answer object) error {
	var o object
	if json.Unmarshal(raw, &o) != nil || o == nil {
		return errors.New("error: must be an object")
	}
	kind, err := o.text("kind")
	if err != nil {
		return fmt.Errorf("error.%w", err)
	}
	e := &reportedError{}
	switch kind {
	case "":
		return errors.New("error.kind: missing")
	case "auth":
		e.kind = poller.AuthFailed
	case "gone":
		e.kind = poller.Gone
	case "config":
		e.kind = poller.ConfigInvalid
	case "rate_limited":
		e.kind = poller.RateLimited
	case "cursor_invalid":
		e.kind = poller.CursorInvalid
	case "transient":
		e.kind = poller.Transient
	default:
		return errors.New("error.kind: must be auth, gone, config, rate_limited, cursor_invalid or transient")
	}
	if e.code, err = o.text("code"); err != nil {
		return fmt.Errorf("error.%w", err)
	}
	if e.message, err = o.text("message"); err != nil {
		return fmt.Errorf("error.%w", err)
	}
	wait, said, err := answer.seconds("retry_after")
	if err != nil {
		return err
	}
	if said {
		e.retryAfter = fetch.ClampRetryAfter(wait)
	}
	return e
}

// checkError returns the error that the connector reported about the account, with as
// much of its text as may be shown. The Retry-After header counts if the body has no
// retry_after.
func (e *reportedError) checkError(answer *fetch.Response, hidden []string) *poller.CheckError {
	result := &poller.CheckError{
		Kind: e.kind, Scope: poller.ScopeAccount, RetryAfter: e.retryAfter,
		Code: string(e.kind), Message: "the connector reports an error",
	}
	if result.RetryAfter == 0 {
		result.RetryAfter = answer.RetryAfter()
	}
	if code := cleanCode(scrub(e.code, hidden)); code != "" {
		result.Code = code
	}
	if message := scrub(e.message, hidden); message != "" {
		result.Message = message
	}
	return result
}

// statusError returns the error for an unsuccessful answer. An error object counts with
// any status. Without one, the connector or its host is at fault.
func statusError(answer *fetch.Response, sent resolved) *poller.CheckError {
	hidden := sent.values
	if answer.Status >= 400 {
		_, err := decode(answer.Body, 0)
		var reported *reportedError
		if errors.As(err, &reported) {
			return reported.checkError(answer, hidden)
		}
		if err != nil && hasKind(answer.Body) {
			return protocolError(err)
		}
	}
	e := &poller.CheckError{
		Kind: poller.Transient, Scope: poller.ScopeChecker,
		Code:    fmt.Sprintf("http_%d", answer.Status),
		Message: fmt.Sprintf("the connector answered %d %s", answer.Status, http.StatusText(answer.Status)),
	}
	switch {
	case answer.Status >= 300 && answer.Status < 400:
		if to := redirect(answer, hidden); to != "" {
			e.Message += ", to " + to
		}
		e.Message += "; redirects are not followed, so the account's url must be the address that answers"
	case answer.Status == http.StatusUnauthorized && len(sent.keys) == 0:
		e.Message += "; the account has no signing_secret, so the request was not signed"
	}
	switch answer.Status {
	case http.StatusGone:
		e.Kind, e.Scope = poller.Gone, poller.ScopeAccount
	case http.StatusTooManyRequests:
		e.Kind, e.Scope, e.RetryAfter = poller.RateLimited, poller.ScopeRateKey, answer.RetryAfter()
	case http.StatusServiceUnavailable:
		e.Scope, e.RetryAfter = poller.ScopeRateKey, answer.RetryAfter()
	case http.StatusBadGateway, http.StatusGatewayTimeout:
		e.Scope = poller.ScopeRateKey
	}
	return e
}

// hasKind distinguishes an attempt at an error object from an answer that a framework
// makes by itself, such as {"error": "not found"}.
func hasKind(body []byte) bool {
	if _, err := limits.Check(body); err != nil {
		return false
	}
	var answer struct {
		Error struct {
			Kind string `json:"kind"`
		} `json:"error"`
	}
	return json.Unmarshal(body, &answer) == nil && answer.Error.Kind != ""
}
