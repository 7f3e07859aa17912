package api

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rounds-dev/rounds/cmd/rounds/callback"
)

// hubTime is how long a hub's call may take, a push of several MiB among them.
const hubTime = 10 * time.Second

// hubHandler answers WebSub hubs. Everybody can reach it: a token in the path and a signature take the
// place of the bearer token.
type hubHandler struct {
	hubs    *callback.Hubs
	metrics *CallbackMetrics
	log     *slog.Logger
}

// addHubs adds the routes if hubs can reach the API.
func (s *Server) addHubs(open *routeMux) {
	if s.options.Hubs == nil {
		return
	}
	h := &hubHandler{s.options.Hubs, s.options.CallbackMetrics, s.options.Log}
	if h.metrics == nil {
		h.metrics = NewCallbackMetrics(nil)
	}
	for _, result := range []callback.Result{callback.Verified, callback.Nudged, callback.Refused, callback.NoSuch, callback.Parked, callback.Unavailable} {
		h.metrics.results.WithLabelValues(callback.WebSubName, string(result))
	}
	open.HandleFunc("GET /v1/callbacks/websub/{account}/{token}", h.verify)
	open.HandleFunc("POST /v1/callbacks/websub/{account}/{token}", h.receive)
}

// verify answers what a hub asks about a subscription.
func (h *hubHandler) verify(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), callbackTime)
	defer cancel()
	challenge, result, err := h.hubs.Verify(ctx, r.PathValue("account"), r.PathValue("token"), r.URL.Query())
	h.metrics.results.WithLabelValues(callback.WebSubName, string(result)).Inc()
	switch {
	case errors.Is(err, callback.ErrRefused):
		newErrorReply(http.StatusNotFound, "nobody subscribes here to that").write(w, r)
	case err != nil:
		h.fail(w, r, err)
	default:
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("X-Content-Type-Options", "nosniff") // it is what the caller said
		_, _ = w.Write(challenge)                           // a caller that has gone needs no answer
	}
}

// receive asks for a check of the feed of which a hub pushes something.
func (h *hubHandler) receive(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), hubTime)
	defer cancel()
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(hubTime)) // a connection has one
	result, err := h.hubs.Push(ctx, r.PathValue("account"), r.PathValue("token"), r.Header.Get("X-Hub-Signature"), r.Body)
	h.metrics.results.WithLabelValues(callback.WebSubName, string(result)).Inc()
	switch {
	case errors.Is(err, callback.ErrGone):
		newErrorReply(http.StatusGone, "nobody subscribes here").write(w, r)
	case err != nil:
		h.fail(w, r, err)
	default:
		w.WriteHeader(http.StatusNoContent)
	}
}

func (h *hubHandler) fail(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() == nil {
		h.log.WarnContext(r.Context(), "could not carry out a hub's call; the hub should try again", "error", err)
	}
	unavailable(reasonOf(err)).write(w, r)
}

// hubOperations describe the routes.
func (d describer) hubOperations() []*huma.Operation {
	text := func(name, in, about string, required bool) *huma.Param {
		return &huma.Param{Name: name, In: in, Required: required, Schema: &huma.Schema{Type: huma.TypeString}, Description: about}
	}
	describe := func(method, id, summary, about string, more ...*huma.Param) *huma.Operation {
		o := d.plain("/v1/callbacks/websub/{account}/{token}", id, summary, "text/plain")
		delete(o.Responses, "401")
		o.Method, o.Tags, o.Description = method, []string{"circulation"}, about
		o.Security = []map[string][]string{{}} // open to all: the path is the hub's secret
		o.Parameters = append([]*huma.Param{
			text("account", "path", "The account's id in base64url.", true),
			text("token", "path", "The subscription's token, which only the hub knows.", true),
		}, more...)
		o.Responses["503"] = &huma.Response{Description: "Redis is away: call again."}
		return o
	}
	verify := describe(http.MethodGet, "verify-websub-subscription", "Whether an account subscribes",
		"A WebSub hub asks this before it subscribes an account to a feed or ends that, or says that it denies it.",
		text("hub.mode", "query", "subscribe, unsubscribe or denied.", false), text("hub.topic", "query", "The feed.", false),
		text("hub.challenge", "query", "The text to return.", false), text("hub.lease_seconds", "query", "How long the subscription lasts.", false))
	verify.Responses["404"] = &huma.Response{Description: "The account does not subscribe to that."}
	receive := describe(http.MethodPost, "receive-websub-push", "A push of a WebSub hub",
		"The feed is checked at once, or ten seconds after the last check that a push asked for. The content is compared with its signature, and is not read.",
		text("X-Hub-Signature", "header", "HMAC of the body: sha1, sha256, sha384 or sha512, = and hexadecimal digits.", false))
	receive.Responses["204"] = &huma.Response{Description: "Received. A wrong signature gets the same answer."}
	delete(receive.Responses, "200")
	receive.Responses["410"] = &huma.Response{Description: "Nobody subscribes here: the hub should end the subscription."}
	receive.RequestBody = &huma.RequestBody{Content: map[string]*huma.MediaType{"*/*": {Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}}}}
	return []*huma.Operation{receive, verify}
}
