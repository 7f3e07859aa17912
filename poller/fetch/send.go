package fetch

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/rounds-dev/rounds/poller"
)

// SendError turns an error of Client.Do into the error of a send. It is a *poller.SendError if
// no byte of the call left. Otherwise nobody knows whether the third party has the send, and it
// is a *poller.CheckError.
func SendError(err error) error {
	failed := SharedCheckError(err)
	if cause, ok := errors.AsType[*Error](err); ok && !cause.sent {
		return poller.Unsent(failed)
	}
	return failed
}

// StreamError is SendError for a call with a Stream. If that could not be read to its end, the third
// party did not get the whole call, and does not have the send.
func StreamError(s *Stream, err error) error {
	if failed := s.Err(); failed != nil {
		return poller.Unsent(failed)
	}
	return SendError(err)
}

// SendStatusError returns the error of a send for a status that came from something in front of a
// third party which reports its own errors in bodies. who names the server for error messages. An
// answer 429 was a refusal for now, and other answers of 300 to 499 were refusals for good. For all
// others nobody knows whether the third party has the send, because what is in front of it may
// have given up on it.
func SendStatusError(who string, response *Response) error {
	status := response.Status
	said := fmt.Sprintf("%s answered %d %s", who, status, http.StatusText(status))
	code := fmt.Sprintf("http_%d", status)
	switch {
	case status == http.StatusTooManyRequests:
		return &poller.SendError{After: response.RetryAfter(), Code: code, Message: said}
	case status >= 300 && status <= 499 && status != http.StatusRequestTimeout:
		return &poller.SendError{Final: true, Code: code, Message: said}
	}
	return &poller.CheckError{Code: code, Message: said}
}
