package connector

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"
	"unicode/utf8"

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
	if o.take("retry_after") != nil {
		e.message = misplacedWait + ": " + cmp.Or(e.message, "the connector reports an error")
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

// misplacedWait says that a wait is not obeyed, before the connector's own text, which may be cut.
const misplacedWait = "error.retry_after is ignored: it belongs beside error"

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
		// The cure comes first: what is stored of a long text is its beginning.
		e.Message = fmt.Sprintf("redirects are not followed: set the account's url to %s (the connector answered %d %s)",
			cmp.Or(redirect(answer, hidden), "the address that answers"), answer.Status, http.StatusText(answer.Status))
	case answer.Status == http.StatusUnauthorized && len(sent.keys) == 0:
		e.Message += "; the account has no signing_secret, so the request was not signed"
	}
	if said, message := saysOfItself(answer.Body); said {
		e.Message += "; its error has no kind, which would say whose fault it is"
		if message = scrub(message, hidden); message != "" {
			e.Message = fmt.Sprintf("%d without an error.kind: %s", answer.Status, message)
		}
	}
	switch answer.Status {
	case http.StatusGone:
		e.Kind, e.Scope = poller.Gone, poller.ScopeAccount
	case http.StatusTooManyRequests:
		e.Kind, e.Scope, e.RetryAfter = poller.RateLimited, poller.ScopeRateKey, answer.RetryAfter()
	case http.StatusServiceUnavailable:
		e.Scope, e.RetryAfter = poller.ScopeRateKey, answer.RetryAfter()
	default:
		if answer.Status >= 500 {
			e.Scope = poller.ScopeRateKey
		}
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

// saysOfItself returns the message of an error object without a kind. Such an object may be a
// framework's, so its status counts as one without an error object does.
func saysOfItself(body []byte) (said bool, message string) {
	if _, err := limits.Check(body); err != nil || !utf8.Valid(body) {
		return false, ""
	}
	var answer, failure object
	if json.Unmarshal(body, &answer) != nil || json.Unmarshal(answer["error"], &failure) != nil {
		return false, ""
	}
	_, coded := failure["code"]
	if message, err := failure.text("message"); err == nil && message != "" {
		return true, message
	}
	return coded, ""
}
