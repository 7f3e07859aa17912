package webhook

import (
	"errors"
	"fmt"
	"time"

	"github.com/rounds-dev/rounds/poller/delivery"
)

// Outcome is how the delivery of a message ended. It is a label of metrics.
type Outcome string

// The outcomes. Only failed, rejected and unusable count toward the dead letter.
const (
	Delivered   Outcome = "delivered"   // answered 2xx
	Filtered    Outcome = "filtered"    // the endpoint does not get this kind
	Held        Outcome = "held"        // an earlier message of the account failed
	Failed      Outcome = "failed"      // answered 408, 425 or 5xx, or reached without an answer
	Rejected    Outcome = "rejected"    // answered another 3xx or 4xx
	Unusable    Outcome = "unusable"    // the message cannot be encoded
	Unreachable Outcome = "unreachable" // no connection
	Throttled   Outcome = "throttled"   // answered 429, or 503 with Retry-After
	Deferred    Outcome = "deferred"    // not tried: the breaker is open, there is a pause, or no time is left
	Disabled    Outcome = "disabled"    // answered 410, now or before
	Unready     Outcome = "unready"     // a secret is missing, or it is unknown whether the endpoint is disabled
	Canceled    Outcome = "canceled"    // cut off at shutdown; nobody knows whether the message arrived
)

// ErrDisabled is wrapped by the error of a Disabled delivery.
var ErrDisabled = errors.New("the endpoint is disabled")

// Error says why the endpoint did not take a message. Neither it nor its cause has a URL, a secret,
// or anything that the endpoint sent.
type Error struct {
	Endpoint string
	Outcome  Outcome
	Status   int // of the answer; 0: none

	after time.Duration // the least wait before the next delivery
	cause error         // harmless; nil if the status says everything
}

// Error returns what happened, and at which endpoint.
func (e *Error) Error() string { return fmt.Sprintf("webhook %s: %s", e.Endpoint, e.why()) }

// why returns what happened, without the endpoint.
func (e *Error) why() string {
	switch {
	case e.Status != 0 && e.cause != nil:
		return fmt.Sprintf("answered %d: %v", e.Status, e.cause)
	case e.Status != 0:
		return fmt.Sprintf("answered %d", e.Status)
	}
	return fmt.Sprint(e.cause)
}

// Unwrap returns the cause: ErrDisabled, a *fetch.Error, a context's error, or one that names a
// secret. It is nil if the status says everything.
func (e *Error) Unwrap() error { return e.cause }

// counts reports whether the failure may be the message's fault.
func (e *Error) counts() bool {
	return e.Outcome == Failed || e.Outcome == Rejected || e.Outcome == Unusable
}

// answer returns the error for the consumer.
func (e *Error) answer() error {
	if e.counts() {
		return e
	}
	later := &delivery.Later{After: e.after, Err: e}
	if e.after > 0 { // the endpoint takes nothing
		later.Target = e.Endpoint
	}
	return later
}

// outcomeOf returns the outcome of an error of Handle.
func outcomeOf(err error) Outcome {
	switch e, ok := errors.AsType[*Error](err); {
	case err == nil:
		return Delivered
	case errors.Is(err, delivery.ErrHeld):
		return Held
	case ok:
		return e.Outcome
	}
	return Failed
}
