package weixin

import (
	"context"
	"net/http/httptrace"
)

// firstByte tells a context that the first byte of an answer has come.
func firstByte(ctx context.Context) { httptrace.ContextClientTrace(ctx).GotFirstResponseByte() }
