package api

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"runtime/debug"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/accounts/access"
	"github.com/rounds-dev/rounds/cmd/rounds/key"
	"github.com/rounds-dev/rounds/cmd/rounds/signin"
)

// errNobody reports a request without a known credential.
var errNobody = errors.New("api: the request shows nothing that lets it in")

// refusal says, in words for the caller, why a credential is refused.
type refusal string

func (r refusal) Error() string { return "api: " + string(r) }

// way is one way to authenticate a request. It returns errNobody if the request has no credential
// of its sort; the next way is then tried. Any other error is final. It is a refusal, or says that
// the credential could not be checked, for example because Redis is unreachable.
type way func(*http.Request) (access.Principal, error)

// authenticator returns a way that tries all ways in order.
func (s *Server) authenticator(t terms) way {
	var ways []way
	if t.token != "" {
		ways = append(ways, byToken(t.token))
	}
	ways = append(ways, byKey(s.options.Keys), s.bySession(t))
	if !s.closedTo(t) {
		ways = append(ways, func(*http.Request) (access.Principal, error) { return access.Local(), nil })
	}
	return func(r *http.Request) (access.Principal, error) {
		for _, try := range ways {
			if principal, err := try(r); !errors.Is(err, errNobody) {
				return principal, err
			}
		}
		return access.Principal{}, errNobody
	}
}

// closedTo reports whether requests without a credential are refused, because a token is
// set or keys are required.
func (s *Server) closedTo(t terms) bool { return t.token != "" || s.options.RequireKey }

// unauthenticated returns the reply for a request that could not be authenticated.
func (s *Server) unauthenticated(r *http.Request, err error) *errorReply {
	var why refusal
	if errors.Is(err, signin.ErrForeign) {
		return foreign()
	}
	if !errors.Is(err, errNobody) && !errors.As(err, &why) {
		return s.errorReply(r.Context(), "authenticate", err)
	}
	detail := "a bearer token is needed: Authorization: Bearer TOKEN, with the token of ROUNDS_API_TOKEN or a key"
	if _, given := bearer(r); given {
		detail = "the token is wrong: it is neither the service's ROUNDS_API_TOKEN nor a key"
	}
	if why != "" {
		detail = string(why)
	}
	return unauthorized(detail)
}

// byKey returns the way that authenticates requests with a key. It leaves a bearer token
// that does not look like a key to the next way.
func byKey(keys *key.Keyring) way {
	return func(r *http.Request) (access.Principal, error) {
		given, ok := bearer(r)
		if !ok || !key.Looks(given) {
			return access.Principal{}, errNobody
		}
		k, err := keys.Authenticate(r.Context(), given)
		switch {
		case errors.Is(err, key.ErrMistyped):
			return access.Principal{}, refusal("this is not a key: it was mistyped or cut off")
		case errors.Is(err, key.ErrUnknown):
			return access.Principal{}, refusal("there is no such key: it was revoked, or belongs to another service")
		case errors.Is(err, key.ErrExpired):
			return access.Principal{}, refusal("the key has expired")
		case err != nil:
			return access.Principal{}, err
		}
		return k.Principal(), nil
	}
}

// byToken returns the way that authenticates requests with the configured token.
func byToken(token string) way {
	return func(r *http.Request) (access.Principal, error) {
		given, ok := bearer(r)
		if !ok || !sameSecret(given, token) {
			return access.Principal{}, errNobody
		}
		return access.Token(), nil
	}
}

// sameSecret reports whether a request's secret is the token. It is false if no token is set. It
// compares hashes, so that the time it takes does not reveal even the token's length.
func sameSecret(given, token string) bool {
	got, want := sha256.Sum256([]byte(given)), sha256.Sum256([]byte(token))
	return token != "" && subtle.ConstantTimeCompare(got[:], want[:]) == 1
}

// bearer returns a request's bearer token, or false if it has none.
func bearer(r *http.Request) (string, bool) {
	scheme, given, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	return strings.TrimSpace(given), strings.EqualFold(scheme, "Bearer")
}

// guarded admits callers that may use the API, and puts the principal of a request into its
// context.
func (s *Server) guarded(t terms, next http.Handler) http.Handler {
	authenticate := s.authenticator(t)
	identified := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		principal, err := authenticate(r)
		if err != nil {
			p := s.unauthenticated(r, err)
			if (p.Status == http.StatusUnauthorized || errors.Is(err, signin.ErrForeign)) && s.linked(r) {
				signin.Onward(w, r, true)
				return
			}
			if p.Status == http.StatusUnauthorized && s.isPage(r) && wantsPage(r) {
				http.Redirect(w, r, signin.Path+"?"+url.Values{"next": {r.URL.RequestURI()}}.Encode(), http.StatusSeeOther)
				return
			}
			if p.Status == http.StatusServiceUnavailable && s.isPage(r) && wantsPage(r) {
				signin.Away(w, r, p.Detail, s.options.Ring.AwaySince())
				return
			}
			p.write(w, r)
			return
		}
		ctx := access.With(r.Context(), principal)
		again := func() (access.Principal, error) { return authenticate(r) }
		next.ServeHTTP(w, r.WithContext(withAgain(ctx, again)))
	})
	if s.closedTo(t) {
		return identified
	}
	own := ownOnly(identified, "set ROUNDS_API_TOKEN to use another name")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if signin.Loopback(r.Host) && s.linked(r) {
			signin.Onward(w, r, false)
			return
		}
		own.ServeHTTP(w, r)
	})
}

// linked reports whether a browser follows a link from elsewhere to a page.
func (s *Server) linked(r *http.Request) bool {
	return s.isPage(r) && wantsPage(r) && signin.FromElsewhere(r)
}

// withPages returns the handler of all guarded requests. inside answers requests to the API, and
// the pages answer the others, if there are pages. The pages ask inside on behalf of the same
// caller.
func (s *Server) withPages(inside http.Handler) http.Handler {
	if s.options.Pages == nil {
		return inside
	}
	pages := s.options.Pages(inside)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.isPage(r) {
			pages.ServeHTTP(w, r)
			return
		}
		inside.ServeHTTP(w, r)
	})
}

// isPage reports whether a guarded request is to a page and not to the API.
func (s *Server) isPage(r *http.Request) bool {
	path := r.URL.Path
	return s.options.Pages != nil && !strings.HasPrefix(path, "/v1/") && path != "/metrics" && path != "/openapi.json"
}

// wantsPage reports whether a browser would show the reply as a page.
func wantsPage(r *http.Request) bool {
	return (r.Method == http.MethodGet || r.Method == http.MethodHead) && strings.Contains(r.Header.Get("Accept"), "text/html")
}

// ownOnly admits requests of people and programs on this machine, where no credential shows who
// asks. Only this machine can connect, but a browser on it runs pages of other sites. Their
// requests name another host, or say where they come from. cure is for callers that are refused
// because of the name.
func ownOnly(next http.Handler, cure string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case !signin.Loopback(r.Host):
			elsewhere(cure).write(w, r)
		case signin.CheckOrigin(r) != nil:
			foreign().write(w, r)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// unauthorized returns the reply to a request that is not admitted.
func unauthorized(detail string) *errorReply {
	p := newErrorReply(http.StatusUnauthorized, detail)
	p.headers = http.Header{"Www-Authenticate": {`Bearer realm="rounds"`}}
	return p
}

// recovered sets the headers of every reply, and hides a panic from the caller.
func (s *Server) recovered(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store")
		reply := NewStatusWriter(w)
		defer func() {
			switch v := recover(); v {
			case nil:
			case http.ErrAbortHandler: // cut the connection, on purpose
				panic(v)
			default:
				s.options.Log.ErrorContext(r.Context(), "panic in a request", "route", r.Pattern, "panic", v, "stack", string(debug.Stack()))
				if reply.begun {
					panic(http.ErrAbortHandler)
				}
				newErrorReply(http.StatusInternalServerError, "an error in the server; its log has more").write(w, r)
			}
		}()
		next.ServeHTTP(reply, r)
	})
}

// StatusWriter remembers the status of a reply, and whether the reply has begun.
type StatusWriter struct {
	http.ResponseWriter
	status int
	begun  bool
}

// NewStatusWriter returns a StatusWriter that writes to w.
func NewStatusWriter(w http.ResponseWriter) *StatusWriter {
	return &StatusWriter{ResponseWriter: w, status: http.StatusOK}
}

// Status returns the status of the reply. It is 200 until another one is sent.
func (w *StatusWriter) Status() int { return w.status }

// Unwrap is for http.ResponseController.
func (w *StatusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader remembers the status and sends it.
func (w *StatusWriter) WriteHeader(status int) {
	if !w.begun && status >= http.StatusOK {
		w.status, w.begun = status, true
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write writes a part of the reply's body. After that the status no longer changes.
func (w *StatusWriter) Write(p []byte) (int, error) {
	w.begun = true
	return w.ResponseWriter.Write(p)
}

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
