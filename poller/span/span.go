// Package span is how checks, deliveries and sends tell what they did, as spans of traces. It knows no
// tracing system, and costs nothing without one: a Recorder that is nil records nothing, and a Span
// that is nil is not recorded. Package cmd/rounds/telemetry is the Recorder of OpenTelemetry.
//
// One trace has what followed from one check: the claim, the calls, the write of what they found, and
// each delivery of a message. It goes on across processes, because the stream has the traceparent of
// W3C Trace Context (https://www.w3.org/TR/trace-context/) beside each message, and a send's record
// has it beside the send.
//
// No attribute has a secret, a query, or a text that a person or a third party wrote: only names of the
// operator's own, hosts, numbers, and words that rounds has made.
package span

import (
	"context"
	"time"
)

// Kind is what a span is to the spans around it.
type Kind uint8

// The kinds, as OpenTelemetry has them.
const (
	Internal Kind = iota // is part of its parent
	Client               // calls another system
	Producer             // writes a message, or takes a send over
	Consumer             // handles a message or a send that was written before
)

// Recorder decides which traces are recorded, and records them. It is safe for concurrent use.
type Recorder interface {
	// Begin begins a span at a time. The parent is the traceparent of what it follows from. If that
	// is empty or malformed, it is the first span of a new trace. Begin returns nil if the trace is
	// not recorded.
	Begin(kind Kind, name string, at time.Time, parent string) Span
}

// Span is one piece of work. Its methods may be called by several goroutines. What they are given
// after End is ignored.
type Span interface {
	// Begin begins a span within this one, which may end later than this one.
	Begin(kind Kind, name string, at time.Time) Span
	// Set sets an attribute, one of this package's. The value is a string, an int, or a bool.
	Set(name string, value any)
	// Fail says that the work failed, with a class of which there are few.
	Fail(class string)
	// End ends the span.
	End(at time.Time)
	// Traceparent names the span to what follows from it, in the form of W3C Trace Context.
	Traceparent() string
}

// Key is the key under which a context has the span of a call.
type Key struct{}

// Of returns the span of a context, or nil if there is none.
func Of(ctx context.Context) Span {
	s, _ := ctx.Value(Key{}).(Span)
	return s
}

// With returns a context with a span, or ctx itself if the span is nil.
func With(ctx context.Context, s Span) context.Context {
	if s == nil {
		return ctx
	}
	return context.WithValue(ctx, Key{}, s)
}

// Header is the header of HTTP that has a traceparent.
const Header = "Traceparent"

// TraceparentLength is how many bytes a traceparent of version 00 has.
const TraceparentLength = 55

// Valid reports whether a text is a traceparent of version 00 whose trace is recorded. Only such a one
// is stored.
func Valid(traceparent string) bool {
	const form = "00-hhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhh-hhhhhhhhhhhhhhhh-hh"
	if len(traceparent) != TraceparentLength || traceparent[3:35] == zeros[:32] || traceparent[36:52] == zeros[:16] {
		return false
	}
	for i := range len(form) {
		c := traceparent[i]
		if form[i] != 'h' && form[i] != c || form[i] == 'h' && (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return (traceparent[TraceparentLength-1]-'0')&1 == 1 && traceparent[TraceparentLength-1] <= '9' ||
		traceparent[TraceparentLength-1] == 'b' || traceparent[TraceparentLength-1] == 'd' || traceparent[TraceparentLength-1] == 'f'
}

const zeros = "00000000000000000000000000000000"
