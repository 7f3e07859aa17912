package api

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"time"

	"github.com/rounds-dev/rounds/accounts/access"
)

// askAgain is how often a long request checks that its caller is still allowed.
const askAgain = 5 * time.Second

// errRevoked reports that the credential with which a request began is no longer valid.
var errRevoked = errors.New("api: the caller may no longer do this")

// againKey is the context key of a function that authenticates the request again.
type againKey struct{}

func withAgain(ctx context.Context, again func() (access.Principal, error)) context.Context {
	return context.WithValue(ctx, againKey{}, again)
}

// stream returns the context of a long request. It also ends when the server closes, and when the
// caller's key is revoked. The caller of stream must call the function at the end.
func (s *Server) stream(r *http.Request) (context.Context, context.CancelFunc) {
	return s.lasting(r.Context())
}

func (s *Server) lasting(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	s.mu.Lock()
	closing := s.closing
	s.mu.Unlock()
	stop := context.AfterFunc(closing, func() { cancel(context.Cause(closing)) })
	go stillAllowed(ctx, cancel)
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// stillAllowed ends a request when its caller is no longer admitted, or when the caller's role or
// labels have changed. If that cannot be found out, the request goes on.
func stillAllowed(ctx context.Context, cancel context.CancelCauseFunc) {
	again, ok := ctx.Value(againKey{}).(func() (access.Principal, error))
	principal, _ := access.From(ctx)
	if !ok || principal.Via == access.ViaLocal || principal.Via == access.ViaToken {
		return // Update ends these requests itself when the token changes
	}
	tick := time.NewTicker(askAgain)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now, err := again()
		var why refusal
		switch {
		case errors.Is(err, errNobody), errors.As(err, &why):
			cancel(errRevoked)
		case err == nil && (now.Role != principal.Role || !maps.Equal(now.Labels, principal.Labels)):
			cancel(errRevoked)
		}
	}
}
