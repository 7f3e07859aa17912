package api

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rounds-dev/rounds/accounts/access"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/cmd/rounds/key"
	"github.com/rounds-dev/rounds/cmd/rounds/signin"
)

// readyTimeout is how long a ring may take to answer: less than a probe waits.
const readyTimeout = 3 * time.Second

// Ops serves only /healthz, /readyz and /metrics: for a process without the API, or besides it.
// metrics may be nil. All other paths demand the bearer token that the function returns, unless it
// is empty, or a key that is not bound to labels. With a nil function they demand nothing, but
// answer only requests that name this machine and that no page of another site has made. unsaved is
// Options.Unsaved.
func Ops(ring *circulate.Ring, unsaved func() error, metrics http.Handler, token func() string) http.Handler {
	closed := http.NewServeMux()
	if metrics != nil {
		closed.Handle("GET /metrics", metrics)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", healthy)
	mux.Handle("GET /readyz", newReadiness(ring, unsaved, slog.New(slog.DiscardHandler)))
	mux.Handle("/", withToken(token, key.NewKeyring(ring, nil), found(closed,
		"this is the address for operators of a process (ROUNDS_OPS_ADDR), which has /metrics, /healthz and /readyz alone; the API is at the address of ROUNDS_API_ADDR, which commands find by ROUNDS_API_URL")))
	return mux
}

// withToken admits callers with the token, or with a key that may read metrics.
func withToken(token func() string, keys *key.Keyring, next http.Handler) http.Handler {
	if token == nil {
		return ownOnly(next, "listen off loopback, where the token is needed, to use another name")
	}
	known := byKey(keys)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		want := token()
		if want != "" {
			if _, err := byToken(want)(r); err == nil {
				next.ServeHTTP(w, r)
				return
			}
		}
		principal, err := known(r)
		var why refusal
		switch {
		case errors.Is(err, errNobody) && want == "":
			newErrorReply(http.StatusForbidden, "other machines can reach this address, so it wants the token or a key, and there is no token: set ROUNDS_API_TOKEN").write(w, r)
		case errors.Is(err, errNobody):
			unauthorized("the token of ROUNDS_API_TOKEN or a key is needed: Authorization: Bearer TOKEN").write(w, r)
		case errors.As(err, &why):
			unauthorized(string(why)).write(w, r)
		case err != nil:
			unavailable(reasonOf(err)).write(w, r)
		default:
			if p := forbidden(principal, Right{"GET /metrics", access.Viewer, scopeService}); p != nil {
				p.write(w, r)
				return
			}
			next.ServeHTTP(w, r)
		}
	})
}

// Starting serves in place of the API, or of Ops, until Redis can be reached. The process is
// healthy but not ready, for the reason that reason returns. Every other route answers 503, and a
// browser gets a page. reason may be called at any time.
func Starting(reason func() error) http.Handler {
	why := func() string {
		if err := reason(); err != nil {
			return "starting: " + reasonOf(err)
		}
		return "starting"
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", healthy)
	mux.HandleFunc("GET "+signin.Path+"/signin.css", signin.Style)
	began := time.Now()
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.URL.Path, "/v1/") && wantsPage(r) {
			signin.Away(w, r, why(), began)
			return
		}
		unavailable(why()).write(w, r)
	})
	return mux
}

// Health is the reply of /healthz and /readyz if all is well.
type Health struct {
	Status string `json:"status" enum:"ok,ready"`
}

// healthy answers that the process serves, whatever Redis does: a restart would not help.
func healthy(w http.ResponseWriter, _ *http.Request) { writeJSON(w, Health{"ok"}) }

// readyChecks is how many probes a second ask Redis. Further probes get the last answer.
const readyChecks = 5

// readiness answers whether Redis can be used: whether it answers and takes writes, and whether a
// process with a Redis of its own can save it. It logs changes, and not every probe.
type readiness struct {
	check  func(context.Context) error
	log    *slog.Logger
	failed atomic.Bool

	mu     sync.Mutex // held while asking
	began  time.Time  // the last check …
	last   error      // … and its outcome
	second time.Time  // since when checks are counted
	checks int
}

// unsavedError reports that a process that stores everything itself cannot save it. Everybody may
// read its text.
type unsavedError struct{ why error }

// Error says why.
func (e *unsavedError) Error() string { return e.why.Error() }

func newReadiness(ring *circulate.Ring, unsaved func() error, log *slog.Logger) *readiness {
	return &readiness{log: log, check: func(ctx context.Context) error {
		if unsaved != nil {
			if err := unsaved(); err != nil {
				return &unsavedError{err}
			}
		}
		if err := ring.Check(ctx); err != nil {
			return err
		}
		return ring.TryWrite(ctx)
	}}
}

// ask checks Redis, unless another probe has done so since the caller came, or there were many
// checks just now. However many probes there are, Redis is thus asked a few times a second, and no
// probe waits for more than two checks.
func (h *readiness) ask(ctx context.Context) error {
	came := time.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	if now.Sub(h.second) >= time.Second {
		h.second, h.checks = now, 0
	}
	if h.began.After(came) || h.checks >= readyChecks {
		return h.last
	}
	h.checks++
	h.began = now
	// The caller's context is not used, because other callers get this answer too.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readyTimeout)
	defer cancel()
	h.last = h.check(ctx)
	return h.last
}

// ServeHTTP answers a probe.
func (h *readiness) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx := r.Context()
	err := h.ask(ctx)
	if r.Context().Err() != nil {
		return // the caller has gone, which says nothing about Redis
	}
	if failed := err != nil; h.failed.Swap(failed) != failed {
		if failed {
			h.log.WarnContext(ctx, "not ready", "error", err)
		} else {
			h.log.InfoContext(ctx, "ready again")
		}
	}
	if err != nil {
		unavailable(reasonOf(err)).write(w, r)
		return
	}
	writeJSON(w, Health{"ready"})
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	_ = e.Encode(v) // a caller that has gone needs no answer
}
