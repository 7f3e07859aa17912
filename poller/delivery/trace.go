package delivery

import (
	"context"
	"time"

	"github.com/rounds-dev/rounds/poller/span"
)

// Traced returns a context whose calls are recorded within the span of the delivery, or ctx itself if the
// delivery is not recorded.
func (d *Delivery) Traced(ctx context.Context) context.Context { return span.With(ctx, d.span) }

// record begins a span for each message of a batch whose trace is recorded. What handlers call belongs to
// that span: Traced has it, and Trace names it.
func (s *session) record(batch []Delivery) {
	if s.Spans == nil {
		return
	}
	for i := range batch {
		d := &batch[i]
		if !span.Valid(d.Trace) {
			continue
		}
		if d.span = s.Spans.Begin(span.Consumer, "process "+span.Stream, time.Now(), d.Trace); d.span == nil {
			continue
		}
		d.Trace = d.span.Traceparent()
		d.span.Set(span.MessagingSystem, span.System)
		d.span.Set(span.MessagingOperation, span.Process)
		d.span.Set(span.MessagingType, span.Process)
		d.span.Set(span.MessagingDestination, span.Stream)
		d.span.Set(span.MessagingGroup, d.Group)
		d.span.Set(span.MessagingMessage, d.Position)
		d.span.Set(span.AccountID, d.Account)
		d.span.Set(span.AccountKind, d.Kind)
		d.span.Set(span.Shard, d.Shard)
		d.span.Set(span.Attempt, d.Attempt)
	}
}

// recorded ends the spans of a batch. errs is nil if the handler did not return. A message that the
// handler did not get to has no span: its next delivery has one.
func (s *session) recorded(batch []Delivery, errs []error) {
	if s.Spans == nil {
		return
	}
	for i := range batch {
		d := &batch[i]
		if d.span == nil {
			continue
		}
		outcome := "stuck"
		if errs != nil {
			outcome = outcomeOf(s.work, errs[i])
		}
		switch outcome {
		case outcomeHeld:
			continue
		case outcomeOK, outcomeDone, outcomeLater:
		default:
			d.span.Fail(outcome)
		}
		d.span.Set(span.Outcome, outcome)
		d.span.End(time.Now())
	}
}
