package api

import (
	"errors"
	"io"
	"net"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rounds-dev/rounds/cmd/rounds/locale"
)

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
