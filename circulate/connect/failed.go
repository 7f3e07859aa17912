package connect

import (
	"context"
	"time"
)

// failed is a connection that could not be opened: every call on it fails.
type failed struct{ err error }

func (f failed) Do(string, ...any) (any, error)                           { return nil, f.err }
func (f failed) DoWithTimeout(time.Duration, string, ...any) (any, error) { return nil, f.err }
func (f failed) DoContext(context.Context, string, ...any) (any, error)   { return nil, f.err }
func (f failed) Send(string, ...any) error                                { return f.err }
func (f failed) Flush() error                                             { return f.err }
func (f failed) Receive() (any, error)                                    { return nil, f.err }
func (f failed) ReceiveWithTimeout(time.Duration) (any, error)            { return nil, f.err }
func (f failed) ReceiveContext(context.Context) (any, error)              { return nil, f.err }
func (f failed) Err() error                                               { return f.err }
func (f failed) Close() error                                             { return nil }
