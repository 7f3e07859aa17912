package poller

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/poller/span"
)

// trace is what is recorded of a check: see package span. A nil trace is not recorded.
type trace struct {
	check  span.Span
	handed bool // the writer ends it; only the party that settles the check uses it
}

// The outcomes of recorded checks, besides those of the metric checks_total.
const (
	outcomeUnchecked = "unchecked" // it went back without a result
	outcomeReleased  = "released"  // the replica stops
)

// traceOf begins to record the check of an account that was claimed between two times, if it is
// recorded. What goes back before its check begins is never ended, and leaves nothing.
func (c *claimer) traceOf(f *flight, asked, received time.Time) *trace {
	if c.spans == nil {
		return nil
	}
	kind := f.record.account.Kind
	name, ok := c.spanNames[kind]
	if !ok {
		name = "check" // it is put off: nobody here checks that kind
	}
	check := c.spans.Begin(span.Internal, name, asked, "")
	if check == nil {
		return nil
	}
	check.Set(span.AccountID, f.claim.ID)
	check.Set(span.AccountKind, kind)
	check.Set(span.Shard, f.claim.Shard)
	check.Set(span.Replica, c.config.Replica)
	check.Set(span.CheckID, f.checkID)
	check.Begin(span.Client, "claim", asked).End(received)
	return &trace{check: check}
}

// spanNamesOf returns what the spans of checks are called, by kind.
func spanNamesOf(kinds []string) map[string]string {
	names := make(map[string]string, len(kinds))
	for _, kind := range kinds {
		names[kind] = "check " + kind
	}
	return names
}

// call begins the span of a call, or returns nil.
func (t *trace) call() span.Span {
	if t == nil {
		return nil
	}
	return t.check.Begin(span.Internal, "call", time.Now())
}

// endCall ends the span of a call, which may be nil.
func endCall(s span.Span, result *Result, err error, ended *CheckError) {
	if s == nil {
		return
	}
	if ended != nil {
		err = ended
	}
	if err != nil {
		s.Fail(classOf(Classify(err)))
	} else {
		s.Set(span.Found, len(result.Messages))
	}
	s.End(time.Now())
}

// write begins the span of a write to Redis of what a call has found, or returns nil.
func (t *trace) write(account string, messages int) span.Span {
	if t == nil {
		return nil
	}
	if messages == 0 {
		return t.check.Begin(span.Client, "commit", time.Now())
	}
	s := t.check.Begin(span.Producer, "commit "+span.Stream, time.Now())
	s.Set(span.MessagingSystem, span.System)
	s.Set(span.MessagingOperation, "commit")
	s.Set(span.MessagingType, span.Send)
	s.Set(span.MessagingDestination, span.Stream)
	s.Set(span.MessagingCount, messages)
	s.Set(span.AccountID, account)
	return s
}

// traceparent names a span to the messages that it writes. It is empty for nil.
func traceparent(s span.Span) string {
	if s == nil {
		return ""
	}
	return s.Traceparent()
}

// endWrite ends the span of a write, which may be nil. The outcome is one of the metric returns_total.
func endWrite(s span.Span, outcome string) {
	if s == nil {
		return
	}
	s.Set(span.Outcome, outcome)
	if outcome != outcomeWritten {
		s.Fail(outcome)
	}
	s.End(time.Now())
}

// settled says how the check went. class is empty if it succeeded.
func (t *trace) settled(f *flight, outcome, class string, messages int) {
	if t == nil {
		return
	}
	t.check.Set(span.Outcome, outcome)
	t.check.Set(span.Found, messages)
	if f.hold != nil {
		t.check.Set(span.Held, true)
	} else {
		t.check.Set(span.Late, int(f.late.Milliseconds()))
	}
	if class != "" {
		t.check.Fail(class)
	}
}

// end ends the record of a check that the writer does not end.
func (t *trace) end(outcome string) {
	if t == nil || t.handed {
		return
	}
	t.handed = true
	t.check.Set(span.Outcome, outcome)
	t.check.End(time.Now())
}

// recorded are the checks whose returns the writer writes, and that are recorded.
type recorded struct {
	count atomic.Int64 // so that the writer need not look for every return
	mu    sync.Mutex
	of    map[*circulate.Claim]recordedReturn
}

type recordedReturn struct{ check, write span.Span }

// take takes over the record of a check, until its return is written or dropped.
func (r *recorded) take(claim *circulate.Claim, t *trace, write span.Span) {
	t.handed = true
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.of == nil {
		r.of = make(map[*circulate.Claim]recordedReturn)
	}
	r.of[claim] = recordedReturn{t.check, write}
	r.count.Store(int64(len(r.of)))
}

// end ends the record of a check whose return was written or dropped.
func (r *recorded) end(claim *circulate.Claim, outcome string) {
	if r.count.Load() == 0 {
		return
	}
	r.mu.Lock()
	one, ok := r.of[claim]
	delete(r.of, claim)
	r.count.Store(int64(len(r.of)))
	r.mu.Unlock()
	if ok {
		endWrite(one.write, outcome)
		one.check.End(time.Now())
	}
}

// record begins the span of an attempt, if its send's trace is recorded. Otherwise it returns nil.
func (a *sending) record() span.Span {
	if a.sends.spans == nil || !span.Valid(a.attempt.Trace) {
		return nil
	}
	s := a.sends.spans.Begin(span.Consumer, "attempt "+span.Outbox, a.received, a.attempt.Trace)
	if s == nil {
		return nil
	}
	s.Set(span.MessagingSystem, span.System)
	s.Set(span.MessagingOperation, "attempt")
	s.Set(span.MessagingType, span.Process)
	s.Set(span.MessagingDestination, span.Outbox)
	s.Set(span.MessagingMessage, a.attempt.ID)
	s.Set(span.AccountID, a.attempt.Account)
	s.Set(span.AccountKind, a.attempt.Kind)
	s.Set(span.Shard, a.attempt.Shard)
	s.Set(span.Replica, a.sends.config.Replica)
	s.Set(span.Attempt, a.attempt.Attempts)
	return s
}

// endAttempt ends the span of an attempt, which may be nil.
func endAttempt(s span.Span, outcome circulate.SendOutcome) {
	if s == nil {
		return
	}
	s.Set(span.Outcome, outcomeWords[outcome])
	if outcome != circulate.AttemptAccepted {
		s.Fail(outcomeWords[outcome])
	}
	s.End(time.Now())
}
