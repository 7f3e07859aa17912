package api

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/accounts/endpoint"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/cmd/rounds/locale"
	"github.com/rounds-dev/rounds/cmd/rounds/message"
	"github.com/rounds-dev/rounds/cmd/rounds/trail"
)

// retryAfter is the wait for a server whose Redis is away.
const retryAfter = 5 * time.Second

// errClosing reports that the server is shutting down.
var errClosing = errors.New("api: shutting down")

// cutOff reports whether a long request ended because the server did, and not by itself.
func cutOff(ctx context.Context) bool {
	cause := context.Cause(ctx)
	return errors.Is(cause, errClosing) || errors.Is(cause, circulate.ErrResharding)
}

// errorReply is the reply to a failed request: huma's error, and headers.
type errorReply struct {
	*huma.ErrorModel
	headers http.Header
}

// GetHeaders returns the headers of the reply.
func (p *errorReply) GetHeaders() http.Header { return p.headers }

func newErrorReply(status int, detail string, details ...*huma.ErrorDetail) *errorReply {
	return &errorReply{ErrorModel: &huma.ErrorModel{
		Status: status, Title: http.StatusText(status), Detail: detail, Errors: details,
	}}
}

// unavailable returns the reply of a server that cannot work now.
func unavailable(reason string) *errorReply {
	p := newErrorReply(http.StatusServiceUnavailable, reason)
	p.headers = http.Header{"Retry-After": {strconv.Itoa(int(retryAfter.Seconds()))}}
	return p
}

// resharding returns the reply of a process that does not know the new shards yet, and will a
// moment later. A long request that began before that gets it too.
func resharding() *errorReply {
	p := unavailable("the number of shards is changing: try again")
	p.headers.Set("Retry-After", "1")
	return p
}

// write writes the reply in the language that the request asks for.
func (p *errorReply) write(w http.ResponseWriter, r *http.Request) {
	for name, values := range p.headers {
		w.Header()[name] = values
	}
	asked := locale.Asked(r.Header)
	w.Header().Set("Content-Type", "application/problem+json")
	w.Header().Set("Content-Language", string(asked))
	w.Header().Add("Vary", "Accept-Language")
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(translated(p.ErrorModel, asked)) // a caller that has gone needs no answer
}

// translated returns a problem in a language. Its codes, locations and values stay as they are.
func translated(m *huma.ErrorModel, to locale.Language) *huma.ErrorModel {
	said := *m
	said.Title, said.Detail = to.Translate(m.Title), to.Translate(m.Detail)
	said.Errors = make([]*huma.ErrorDetail, len(m.Errors))
	for i, detail := range m.Errors {
		if detail != nil {
			one := *detail
			one.Message = to.Translate(one.Message)
			said.Errors[i] = &one
		}
	}
	return &said
}

// errorReply returns the part of an error that the caller may see. It logs errors that the caller
// did not cause. Nothing else logs them. An error that is a reply already stays as it is.
func (s *Server) errorReply(ctx context.Context, doing string, err error) *errorReply {
	if told, ok := errors.AsType[*errorReply](err); ok {
		return told
	}
	var faults accounts.Faults
	if errors.As(err, &faults) {
		return faulty(faults)
	}
	for _, known := range []struct {
		err   error
		reply *errorReply
	}{
		{accounts.ErrNotFound, newErrorReply(http.StatusNotFound, "no account has this id")},
		{accounts.ErrExists, newErrorReply(http.StatusConflict, "an account already has this id")},
		{accounts.ErrChanged, changedReply()},
		{accounts.ErrContended, unavailable("others keep changing the account: try again")},
		{accounts.ErrParked, newErrorReply(http.StatusConflict, "the account is parked and is not checked; resume it first")},
		{message.ErrNoGroup, newErrorReply(http.StatusNotFound, "there is no such consumer group")},
		{message.ErrGroupAlive, newErrorReply(http.StatusConflict, "consumers of the group are running, and would create it again: stop them first, and try again 15 s later")},
		{message.ErrNoMessage, newErrorReply(http.StatusNotFound, "there is no such message; it may have been trimmed")},
		{message.ErrNoDead, newErrorReply(http.StatusNotFound, "there is no such dead letter; it may have been replayed or dropped")},
		{message.ErrNoWebhook, newErrorReply(http.StatusNotFound, "there is no such webhook endpoint")},
		{message.ErrNoneWaits, newErrorReply(http.StatusNotFound, "no message of the account waits at the endpoint")},
		{message.ErrWebhookDisabled, newErrorReply(http.StatusConflict, "the endpoint is disabled and gets nothing; enable it first")},
		{message.ErrWebhookIdle, newErrorReply(http.StatusConflict, "no process delivers to the endpoint: start one with the role delivery")},
		{message.ErrWebhookDeclared, newErrorReply(http.StatusConflict, "the endpoint is declared in the file ROUNDS_WEBHOOKS_FILE of a process that delivers to it: change it there, or choose another name")},
		{message.ErrTestUnanswered, unavailable("no process has said how the test ended: nobody knows whether the endpoint got it")},
		{endpoint.ErrChanged, newErrorReply(http.StatusPreconditionFailed, "the endpoint is not as the request demands: somebody added, changed or removed it; get it again and repeat the change")},
		{endpoint.ErrFull, newErrorReply(http.StatusConflict, "there are as many endpoints as there may be; remove one first")},
		{message.ErrNotNamed, newErrorReply(http.StatusConflict, "messages of too many accounts wait to name them all, and this account is not named; retry or skip others first")},
		{message.ErrSeveralWait, newErrorReply(http.StatusConflict, "messages of several accounts wait: name the account, or say all")},
		{errCounting, unavailable("the accounts are still being counted: ask again")},
	} {
		if errors.Is(err, known.err) {
			return known.reply
		}
	}
	switch {
	case errors.Is(err, accounts.ErrCursor):
		return badCursor("query.cursor", err)
	case errors.Is(err, ErrNoPoller):
		return newErrorReply(http.StatusNotFound, err.Error())
	case errors.Is(context.Cause(ctx), circulate.ErrResharding):
		trail.Of(ctx).End(trail.Unknown)
		return resharding()
	case errors.Is(err, circulate.ErrResharding):
		return resharding()
	case errors.Is(err, errClosing) || errors.Is(context.Cause(ctx), errClosing):
		trail.Of(ctx).End(trail.Unknown)
		return unavailable("the server is shutting down")
	case errors.Is(context.Cause(ctx), errRevoked):
		return newErrorReply(http.StatusUnauthorized, "the key with which the request began is no longer valid")
	case ctx.Err() != nil: // the caller has gone
		trail.Of(ctx).End(trail.Unknown)
		return unavailable("the request was cancelled")
	}
	if circulate.Unknown(err) {
		trail.Of(ctx).End(trail.Unknown)
	}
	s.options.Log.ErrorContext(ctx, "request failed", "doing", doing, "error", err)
	return unavailable(s.reasonOf(err))
}

// reasonOf is reasonOf for a process that may keep everything itself. While it cannot save what
// changes, that is why its Redis refuses, or cuts connections whose commands may be lost.
func (s *Server) reasonOf(err error) string {
	if s.options.Unsaved != nil && (circulate.Unavailable(err) || circulate.Unknown(err)) {
		if why := s.options.Unsaved(); why != nil {
			return why.Error()
		}
	}
	return reasonOf(err)
}

func (s *Server) fail(w http.ResponseWriter, r *http.Request, doing string, err error) {
	s.errorReply(r.Context(), doing, err).write(w, r)
}

// faulty returns the reply for a body with faults: 400 if it is not a JSON object, and otherwise
// 422.
func faulty(faults accounts.Faults) *errorReply {
	if faults[0].Field == accounts.RecordField {
		return newErrorReply(http.StatusBadRequest, "the body cannot be read", detailsOf(faults[:1], "body.")...)
	}
	return newErrorReply(http.StatusUnprocessableEntity, "validation failed", detailsOf(faults, "body.")...)
}

// detailsOf returns faults as details of a problem. within is the prefix of each field, and stands
// alone for a fault of the whole text.
func detailsOf(faults accounts.Faults, within string) []*huma.ErrorDetail {
	details := make([]*huma.ErrorDetail, len(faults))
	for i, f := range faults {
		location := within + f.Field
		if f.Field == accounts.RecordField {
			location = strings.TrimSuffix(within, ".")
		}
		details[i] = &huma.ErrorDetail{Location: location, Message: f.Reason}
	}
	return details
}

// invalid returns the reply for one wrong part of a request, such as query.cursor.
func invalid(location, reason string) *errorReply {
	return newErrorReply(http.StatusUnprocessableEntity, "validation failed", &huma.ErrorDetail{Location: location, Message: reason})
}

// badCursor returns the reply for a cursor that this ring never returned.
func badCursor(location string, err error) *errorReply {
	return invalid(location, strings.TrimPrefix(err.Error(), "cursor: "))
}

// inBody returns an error of a request whose body may have a cursor.
func inBody(err error) error {
	if errors.Is(err, accounts.ErrCursor) {
		return badCursor("body.cursor", err)
	}
	return err
}

// replyOf returns Redis' error reply, if the error is one.
func replyOf(err error) (reply redis.Error) {
	_ = errors.As(err, &reply)
	return reply
}

// reasonOf says why Redis could not be used, in words that are safe to show. The text of an error
// may have addresses, and the text of a reply even data.
func reasonOf(err error) string {
	var reply redis.Error
	var network net.Error
	var unsaved *unsavedError
	switch {
	case errors.As(err, &unsaved):
		return unsaved.Error()
	case errors.Is(err, circulate.ErrMismatch):
		return strings.TrimPrefix(err.Error(), "circulate: ")
	case circulate.Full(err):
		return "Redis is at its memory limit and takes no more writes; deleting and pausing accounts still works, and writes work again once messages are trimmed"
	case circulate.LockedOut(err) && strings.HasPrefix(string(replyOf(err)), "NOAUTH"):
		return "Redis was reached, but it needs a password and got none"
	case circulate.LockedOut(err):
		return "Redis was reached, but refused the password"
	case errors.As(err, &reply):
		code, _, _ := strings.Cut(string(reply), " ")
		return "Redis refuses: " + code
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &network) && network.Timeout():
		return silent
	}
	return "Redis cannot be reached"
}

// A caller's body may break off before its end: the caller has gone, or has announced more than it
// sent. huma treats that as an error of the server and answers 500.

// brokenBody is a body that knows whether it broke off.
type brokenBody struct {
	io.ReadCloser
	broke bool
}

// Read reads from the body.
func (b *brokenBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	var network net.Error
	if err != nil && !errors.Is(err, io.EOF) && !(errors.As(err, &network) && network.Timeout()) { // a time-out is 408
		b.broke = true
	}
	return n, err
}

// brokenWriter answers 400 in place of 500 if the body broke off.
type brokenWriter struct {
	http.ResponseWriter
	body *brokenBody
}

// Unwrap is for http.ResponseController.
func (w *brokenWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader begins the reply.
func (w *brokenWriter) WriteHeader(status int) {
	if status == http.StatusInternalServerError && w.body.broke {
		status = http.StatusBadRequest
	}
	w.ResponseWriter.WriteHeader(status)
}

// blamed answers 400 to a request whose body broke off.
func blamed(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Body == nil || r.Body == http.NoBody {
			next.ServeHTTP(w, r)
			return
		}
		body := &brokenBody{ReadCloser: r.Body}
		r.Body = body
		next.ServeHTTP(&brokenWriter{w, body}, r)
	})
}

// unreadBody is huma's text for a body that it could not read.
const unreadBody = "cannot read request body"

// fitModel replaces huma's problem for such a body by one that fits the status. It also keeps every
// problem from quoting a body, which may have a secret under a misspelt name. It writes problems in
// the language that the request asks for.
func fitModel(ctx huma.Context, _ string, v any) (any, error) {
	var m *huma.ErrorModel
	switch v := v.(type) {
	case *huma.ErrorModel:
		m = v
	case *errorReply:
		m = v.ErrorModel
	default:
		return v, nil
	}
	if m.Status == http.StatusInternalServerError && m.Detail == unreadBody {
		m = newErrorReply(http.StatusBadRequest, "the body broke off before its end").ErrorModel
	}
	for _, detail := range m.Errors {
		if detail != nil && (detail.Location == "" || strings.HasPrefix(detail.Location, "body")) {
			detail.Value = nil
		}
	}
	asked := locale.Asked(http.Header{"Accept-Language": {ctx.Header("Accept-Language")}})
	ctx.SetHeader("Content-Language", string(asked))
	ctx.AppendHeader("Vary", "Accept-Language")
	return translated(m, asked), nil
}
