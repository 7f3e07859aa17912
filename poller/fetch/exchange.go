package fetch

import (
	"context"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"

	"github.com/rounds-dev/rounds/poller"
)

// exchange is one call with its redirects. It is also the context of its requests: the check's
// context, plus a trace that sees whether the host was reached. That decides who is to blame for a
// time-out.
type exchange struct {
	context.Context
	trace     httptrace.ClientTrace
	traced    context.Context // has the trace, where the transport looks for it
	connected atomic.Bool
	used      atomic.Bool // some connection was ready for a request

	client    http.Client
	redirects int // at most
	moved     move
}

func newExchange(ctx context.Context) *exchange {
	e := &exchange{Context: ctx}
	e.trace.GetConn, e.trace.GotConn = e.getConn, e.gotConn
	e.traced = httptrace.WithClientTrace(ctx, &e.trace) // beside the caller's own trace
	return e
}

func (e *exchange) getConn(string) { e.connected.Store(false) }

func (e *exchange) gotConn(httptrace.GotConnInfo) {
	e.connected.Store(true)
	e.used.Store(true)
	poller.Begun(e.Context)
}

// Value implements context.Context.
func (e *exchange) Value(key any) any { return e.traced.Value(key) }

// AfterFunc calls do when the context is done, unless stop was called before. Package context looks
// for this method, and without it starts a goroutine for each request, unless the check's context
// is one of its own.
func (e *exchange) AfterFunc(do func()) (stop func() bool) {
	if of, ok := e.Context.(interface{ AfterFunc(func()) func() bool }); ok {
		return of.AfterFunc(do)
	}
	return context.AfterFunc(e.Context, do)
}
