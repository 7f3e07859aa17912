package api

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/rounds-dev/rounds/cmd/rounds/callback"
)

const (
	// maxCallback is the most bytes that a callback's body may have.
	maxCallback = 64 << 10
	// callbackTime is how long a callback may take, its body and Redis together:
	// WeCom waits for 5 s.
	callbackTime = 4 * time.Second
)

// CallbackMetrics are the metrics of callbacks.
type CallbackMetrics struct {
	results *prometheus.CounterVec
}

// NewCallbackMetrics registers the metrics. With a nil registry they are not exported.
func NewCallbackMetrics(registry prometheus.Registerer) *CallbackMetrics {
	return &CallbackMetrics{promauto.With(registry).NewCounterVec(prometheus.CounterOpts{Namespace: "rounds", Name: "callbacks_total",
		Help: "Callbacks, by name (WebSub for all hubs) and result: verified, nudged, repeated, ignored, unknown_account, parked, refused, stale, no_such (of no name), unavailable."},
		[]string{"callback", "result"})}
}

// callbackHandler answers WeCom. Everybody can reach it: a signature takes the place of the bearer
// token. All refusals look the same, whatever is wrong.
type callbackHandler struct {
	callbacks *callback.Receiver
	metrics   *CallbackMetrics
	log       *slog.Logger
}

// addCallbacks adds the routes if there are callbacks.
func (s *Server) addCallbacks(open *routeMux, callbacks *callback.Receiver) {
	if callbacks == nil {
		return
	}
	h := &callbackHandler{callbacks, s.options.CallbackMetrics, s.options.Log}
	if h.metrics == nil {
		h.metrics = NewCallbackMetrics(nil)
	}
	for _, name := range callbacks.Names() {
		for _, result := range callback.Results() {
			h.metrics.results.WithLabelValues(name, string(result)) // at zero, for the alert about the first ones
		}
	}
	open.HandleFunc("GET /v1/callbacks/wecom/{name}", h.verify)
	open.HandleFunc("POST /v1/callbacks/wecom/{name}", h.receive)
}

// verify answers WeCom's question whether the address is ours.
func (h *callbackHandler) verify(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), callbackTime)
	defer cancel()
	echo, result, err := h.callbacks.Echo(ctx, r.PathValue("name"), r.URL.Query())
	h.answer(w, r, echo, result, err)
}

// receive asks for a check of a callback's account.
func (h *callbackHandler) receive(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), callbackTime)
	defer cancel()
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(callbackTime)) // a connection has one
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxCallback))
	if err != nil {
		body = nil // an unreadable body is refused, like a wrong signature
	}
	result, err := h.callbacks.Receive(ctx, r.PathValue("name"), r.URL.Query(), body)
	h.answer(w, r, []byte("success"), result, err)
}

func (h *callbackHandler) answer(w http.ResponseWriter, r *http.Request, text []byte, result callback.Result, err error) {
	name := r.PathValue("name")
	if result == callback.NoSuch {
		name = "" // anybody can make up names
	}
	h.metrics.results.WithLabelValues(name, string(result)).Inc()
	switch {
	case errors.Is(err, callback.ErrRefused):
		h.log.DebugContext(r.Context(), "a callback is refused", "callback", name, "result", string(result))
		newErrorReply(http.StatusForbidden, "the callback is refused").write(w, r)
	case err != nil:
		if r.Context().Err() == nil {
			h.log.WarnContext(r.Context(), "could not carry out a callback; the caller should try again", "callback", name, "error", err)
		}
		unavailable(reasonOf(err)).write(w, r)
	default:
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = w.Write(text) // a caller that has gone needs no answer
	}
}

// callbackOperations describe the routes.
func (d describer) callbackOperations() []*huma.Operation {
	text := func(name, in, about string) *huma.Param {
		return &huma.Param{Name: name, In: in, Required: true, Schema: &huma.Schema{Type: huma.TypeString}, Description: about}
	}
	describe := func(method, id, summary, about string, more ...*huma.Param) *huma.Operation {
		o := d.plain("/v1/callbacks/wecom/{name}", id, summary, "text/plain")
		delete(o.Responses, "401")
		o.Method, o.Tags, o.Description = method, []string{"circulation"}, about
		o.Security = []map[string][]string{{}} // open to all: they are signed
		o.Parameters = append([]*huma.Param{
			text("name", "path", "As the configuration of callbacks has it."),
			text("msg_signature", "query", "SHA-1 of token, timestamp, nonce and encrypted text."),
			text("timestamp", "query", "Unix seconds."), text("nonce", "query", "Anything."),
		}, more...)
		o.Responses["403"] = &huma.Response{Description: "Refused, for whatever reason."}
		o.Responses["503"] = &huma.Response{Description: "Redis is away: call again."}
		return o
	}
	receive := describe(http.MethodPost, "receive-wecom-callback", "An event of WeCom",
		"After an event kf_msg_or_event its account is checked at once, with the event's token as the hint. Other signed events, and events of accounts that are not registered, get the same answer.")
	receive.RequestBody = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{"text/xml": {Schema: &huma.Schema{Type: huma.TypeString}}}}
	return []*huma.Operation{receive, describe(http.MethodGet, "verify-wecom-callback", "Whether the address is ours",
		"WeCom asks this when the address is entered.", text("echostr", "query", "The encrypted text to return decrypted."))}
}
