package api

import (
	"errors"
	"io"
	"net"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// A caller's body may break off before its end: the caller has gone, or has announced more than
// it sent. huma treats that as an error of the server and answers 500.

// brokenBody is a body that knows whether it broke off.
type brokenBody struct {
	io.ReadCloser
	broke bool
}

// Read reads from the body.
func (b *brokenBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	var network net.Error
	if err != nil && !errors.Is(err, io.EOF) && !(errors.As(err, &network) && network.Timeout()) { // that is 408
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

// fitModel replaces huma's problem of such a body by one that fits the status, and has no
// problem quote a body: a secret may stand there under a misspelt name.
func fitModel(_ huma.Context, _ string, v any) (any, error) {
	m, ok := v.(*huma.ErrorModel)
	if !ok {
		return v, nil
	}
	if m.Status == http.StatusInternalServerError && m.Detail == unreadBody {
		return newErrorReply(http.StatusBadRequest, "the body broke off before its end").ErrorModel, nil
	}
	for _, detail := range m.Errors {
		if detail != nil && (detail.Location == "" || strings.HasPrefix(detail.Location, "body")) {
			detail.Value = nil
		}
	}
	return m, nil
}
