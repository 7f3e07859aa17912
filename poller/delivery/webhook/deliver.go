package webhook

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/rounds-dev/rounds/circulate/document"
	"github.com/rounds-dev/rounds/poller/delivery"
	"github.com/rounds-dev/rounds/poller/delivery/sink"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/poller/span"
)

const (
	attempts     = 3                      // in one delivery
	backoffFirst = 250 * time.Millisecond // after the first attempt; four times as long after the next

	unreachableWait = 5 * time.Second // before a message is delivered again to an endpoint that is away
)

// backoff returns the wait before an attempt: U(½,1) of a time that grows fourfold.
func backoff(attempt int) time.Duration {
	most := backoffFirst << (2 * (attempt - 1))
	return most/2 + rand.N(most/2)
}

// deliver delivers one message with a few attempts. It returns nil once the message is delivered.
func (s *Sink) deliver(ctx context.Context, t batchCall, d delivery.Delivery) (failed *Error) {
	ctx = d.Traced(ctx)
	defer func() { s.record.ended(failed) }()
	defer func() {
		if value := recover(); value != nil {
			// The panic's text may contain anything, so show only its type.
			failed = s.failure(Failed, 0, fmt.Errorf("panic: %T", value))
		}
	}()
	var files []sink.File
	if s.options.Files != nil && !d.Event {
		var err error
		if files, err = s.options.Files(ctx, &d); err != nil {
			return s.failure(Unready, recheck, errors.New("the links to its files cannot be made: Redis is away"))
		}
	}
	encoding := sink.Encoding{Namespace: s.options.Namespace, Format: s.endpoint.Format, Keyless: true}
	body, err := encoding.Encode(d, files)
	if err != nil {
		return s.failure(Unusable, 0, errors.New("the message is not JSON"))
	}
	id, about := sink.Key(s.options.Namespace, d), encoding.Header(d)
	var counted *Error
	for n := range attempts {
		if n > 0 && !sleep(t.ctx, backoff(n)) {
			break
		}
		failed = s.attempt(ctx, t, d, id, body, about)
		if failed == nil {
			return nil
		}
		if failed.counts() {
			counted = failed
		}
		if failed.Outcome != Failed && failed.Outcome != Unreachable {
			break
		}
	}
	// A failure that may be the message's fault counts, whatever came after it.
	if counted != nil && failed.Outcome != Disabled {
		return counted
	}
	return failed
}

// sleep waits. It reports false if the context ended first.
func sleep(ctx context.Context, wait time.Duration) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// attempt sends a message if the gate admits it.
func (s *Sink) attempt(ctx context.Context, t batchCall, d delivery.Delivery, id string, body []byte, about map[string]string) *Error {
	if err := s.gate.enter(t.ctx); err != nil {
		if ctx.Err() != nil {
			return s.failure(Canceled, 0, ctx.Err())
		}
		return s.failure(Deferred, 0, s.record.trouble("too many deliveries already wait"))
	}
	defer s.gate.leave()
	if s.standing.disabled.Load() {
		return s.failure(Disabled, recheck, ErrDisabled)
	}
	if wait := s.gate.wait(); wait > 0 {
		return s.failure(Deferred, wait, s.record.trouble("the endpoint fails, or asked for a pause"))
	}
	header, err := t.signer.sign(id, time.Now(), body, about)
	if err != nil {
		return s.failure(Unready, recheck, err)
	}
	if trace := sink.Traceparent(d); trace != "" {
		header.Set(span.Header, trace) // the call's own span replaces it, if the call is recorded
	}
	var failed *Error
	_, err = s.gate.breaker.Load().Execute(func() (struct{}, error) {
		made := document.Attempt{Account: d.Account}
		failed = s.call(ctx, fetch.Call{
			Method: http.MethodPost, URL: s.endpoint.URL, Header: header, Body: body, NoBody: true, Head: answerRead, Confined: t.signer.open, Traced: true,
		}, &made)
		made.Answer = shownAnswer(made.Answer, t.signer.hidden, header)
		if failed == nil {
			made.Outcome = string(Delivered)
			s.record.tried(made)
			return struct{}{}, nil
		}
		if failed.Outcome != Canceled {
			s.record.attempted(failed.Status, failed.Outcome, failed.why())
			made.Outcome, made.Why = string(failed.Outcome), shorten(failed.why())
			s.record.tried(made)
		}
		return struct{}{}, failed
	})
	if errors.Is(err, gobreaker.ErrOpenState) || errors.Is(err, gobreaker.ErrTooManyRequests) {
		return s.failure(Deferred, max(probeWait, s.gate.wait()), s.record.trouble("the endpoint fails"))
	}
	return failed
}

// call makes one attempt, and notes what it was.
func (s *Sink) call(ctx context.Context, call fetch.Call, made *document.Attempt) *Error {
	answer, failed := s.ask(ctx, call, made)
	if failed != nil {
		return failed
	}
	made.Status, made.Answer = answer.Status, string(answer.Body)
	return s.judge(ctx, answer)
}

// ask makes a call, and returns the answer or why there is none. It notes when, and at which address.
func (s *Sink) ask(ctx context.Context, call fetch.Call, made *document.Attempt) (*fetch.Response, *Error) {
	limited, cancel := context.WithTimeout(ctx, s.endpoint.Timeout)
	defer cancel()
	var reached atomic.Pointer[string]
	limited = httptrace.WithClientTrace(limited, &httptrace.ClientTrace{
		GotConn: func(got httptrace.GotConnInfo) {
			address := ""
			if got.Conn != nil {
				address = got.Conn.RemoteAddr().String()
			}
			reached.Store(&address)
		},
	})
	start := time.Now()
	answer, err := s.options.Client.Do(limited, call)
	made.At, made.Took = time.Now(), time.Since(start)
	s.options.Metrics.seconds.WithLabelValues(s.endpoint.Name).Observe(made.Took.Seconds())
	if at := reached.Load(); at != nil {
		made.Address = *at
	}
	switch {
	case err != nil && errors.Is(ctx.Err(), context.Canceled):
		return nil, s.failure(Canceled, 0, context.Canceled)
	case err != nil && reached.Load() != nil:
		return nil, s.failure(Failed, 0, harmless(err))
	case err != nil:
		return nil, s.failure(Unreachable, unreachableWait, harmless(err))
	}
	return answer, nil
}

// harmless returns an error that reveals nothing, and replaces any other.
func harmless(err error) error {
	if known, ok := errors.AsType[*fetch.Error](err); ok {
		return known
	}
	return errors.New("the call failed")
}

// judge returns what an answer means, and has the sink remember it; see the package's doc.
func (s *Sink) judge(ctx context.Context, answer *fetch.Response) *Error {
	failed := s.meaning(answer)
	switch {
	case failed == nil:
		s.gate.calm()
		s.record.attempted(answer.Status, Delivered, "")
		return nil
	case failed.Outcome == Throttled:
		failed.after = s.gate.throttle(answer.RetryAfter())
		return failed
	case failed.Outcome == Disabled:
		s.standing.disable(ctx, "answered 410 Gone")
		failed.after = recheck
	}
	s.gate.calm()
	return failed
}

// meaning returns what an answer means, or nil if the endpoint has taken what was sent.
func (s *Sink) meaning(answer *fetch.Response) *Error {
	failed := s.failure(Rejected, 0, nil)
	failed.Status = answer.Status
	switch status := answer.Status; {
	case status == http.StatusTooManyRequests, status == http.StatusServiceUnavailable && answer.RetryAfter() > 0:
		failed.Outcome = Throttled
	case status >= 200 && status <= 299:
		return nil
	case status == http.StatusGone:
		failed.Outcome, failed.cause = Disabled, ErrDisabled
	case status == http.StatusRequestTimeout, status == http.StatusTooEarly, status >= 500:
		failed.Outcome = Failed
	case status >= 300 && status <= 399:
		failed.cause = errors.New("redirects are not followed")
	}
	return failed
}
