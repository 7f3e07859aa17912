package webhook

import (
	"errors"
	"fmt"
	"time"

	"github.com/rounds-dev/rounds/poller/delivery"
)

// Outcome is how the delivery of a message ended. Metrics are labelled by it.
type Outcome string

// The outcomes. Only failed, rejected and unusable count toward the dead letter.
const (
	Delivered   Outcome = "delivered"   // answered 2xx
	Filtered    Outcome = "filtered"    // not of a kind that the endpoint gets
	Held        Outcome = "held"        // an earlier message of the account failed
	Failed      Outcome = "failed"      // answered 408, 425 or 5xx, or reached and not answered
	Rejected    Outcome = "rejected"    // answered another 3xx or 4xx
	Unusable    Outcome = "unusable"    // cannot be put into the form that is sent
	Unreachable Outcome = "unreachable" // no connection
	Throttled   Outcome = "throttled"   // answered 429, or 503 with Retry-After
	Deferred    Outcome = "deferred"    // not tried: the breaker is open, a pause asked for, or no time left
	Disabled    Outcome = "disabled"    // answered 410, now or before
	Unready     Outcome = "unready"     // a secret is missing, or whether the endpoint is disabled is unknown
	Canceled    Outcome = "canceled"    // given up at shutdown; whether it arrived is unknown
)

// ErrDisabled is what the error of a Disabled delivery wraps.
var ErrDisabled = errors.New("the endpoint is disabled")

// Error is a message that the endpoint did not take. Neither it nor what it wraps
// has a URL, a secret, or anything that the endpoint wrote.
type Error struct {
	Endpoint string
	Outcome  Outcome
	Status   int // of the answer; 0: none

	after time.Duration // not before
	cause error         // harmless; nil where the status says all
}

// Error says what happened.
func (e *Error) Error() string {
	switch {
	case e.Status != 0 && e.cause != nil:
		return fmt.Sprintf("webhook %s: answered %d: %v", e.Endpoint, e.Status, e.cause)
	case e.Status != 0:
		return fmt.Sprintf("webhook %s: answered %d", e.Endpoint, e.Status)
	}
	return fmt.Sprintf("webhook %s: %v", e.Endpoint, e.cause)
}

// Unwrap returns the cause: ErrDisabled, a *fetch.Error, a context's error or one
// that names a secret; nil where the status says all.
func (e *Error) Unwrap() error { return e.cause }

// counts reports whether the failure says anything of the message.
func (e *Error) counts() bool {
	return e.Outcome == Failed || e.Outcome == Rejected || e.Outcome == Unusable
}

// answer is the error as the consumer is to see it.
func (e *Error) answer() error {
	if e.counts() {
		return e
	}
	return &delivery.Later{After: e.after, Err: e}
}

// outcomeOf is the outcome that an answer of Handle stands for.
func outcomeOf(err error) Outcome {
	var e *Error
	switch {
	case err == nil:
		return Delivered
	case errors.Is(err, delivery.ErrHeld):
		return Held
	case errors.As(err, &e):
		return e.Outcome
	}
	return Failed
}
