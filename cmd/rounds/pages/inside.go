package pages

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/rounds-dev/rounds/cmd/rounds/api"
	"github.com/rounds-dev/rounds/cmd/rounds/locale"
)

// maxReply is the most bytes of a reply of the API that a page reads.
const maxReply = 16 << 20

// problem is a refusal of the API (RFC 9457), or one of a page in the same form.
type problem struct{ api.Refusal }

// refusal returns a page's own refusal.
func refusal(status int, detail string, faults ...*api.Fault) *problem {
	return &problem{api.Refusal{Status: status, Detail: detail, Errors: faults}}
}

// Error returns the detail, with the faults of fields.
func (p *problem) Error() string {
	text := p.Detail
	for _, f := range p.Errors {
		text += "; " + f.Location + ": " + f.Message
	}
	return text
}

// refusedFor returns the refusal of the API in an error, if it has one of some statuses; without
// any: whatever its status. Otherwise it returns nil.
func refusedFor(err error, statuses ...int) *problem {
	refused, ok := errors.AsType[*problem](err)
	if !ok || len(statuses) > 0 && !slices.Contains(statuses, refused.Status) {
		return nil
	}
	return refused
}

// Of returns what is wrong with a field of the body, or an empty text.
func (p *problem) Of(field string) string {
	if p == nil {
		return ""
	}
	for _, f := range p.Errors {
		if f.Location == "body."+field || strings.HasPrefix(f.Location, "body."+field+".") {
			return f.Message
		}
	}
	return ""
}

// said returns an error in the visitor's language, if it is a refusal of the API. Other visitors
// may have the same one.
func (v *visit) said(err error) error {
	refused := refusedFor(err)
	if refused == nil || v.lang.spoken() == locale.English {
		return err
	}
	p := *refused
	p.Detail, p.Errors = v.lang.spoken().Translate(p.Detail), slices.Clone(p.Errors)
	for i, f := range p.Errors {
		one := *f
		one.Message = v.lang.spoken().Translate(f.Message)
		p.Errors[i] = &one
	}
	return &p
}

// get asks the API for a path with its query, on behalf of the visitor, and decodes the reply.
// A refusal is a *problem.
func (v *visit) get(path string, into any) error {
	return v.do(http.MethodGet, path, nil, into)
}

// do calls the API on behalf of the visitor. A body that is not nil is sent as JSON, a
// json.RawMessage as it is. The reply is decoded into into, unless into is nil. A refusal is a
// *problem.
func (v *visit) do(method, path string, body, into any) error {
	reply, err := v.site.call(v.r.Context(), v.r.RemoteAddr, method, path, body)
	if err != nil {
		return v.said(err)
	}
	return decode(path, reply, into)
}

func decode(path string, reply []byte, into any) error {
	if into == nil {
		return nil
	}
	if err := json.Unmarshal(reply, into); err != nil {
		return fmt.Errorf("the API's reply to %s: %w", path, err)
	}
	return nil
}

// accountPath returns the API's path of an account.
func accountPath(id string) string {
	return "/v1/accounts/" + segment(id)
}

// exchange is do with headers for the request. It returns the headers of the reply.
func (v *visit) exchange(method, path string, header http.Header, body, into any) (http.Header, error) {
	w := &replyWriter{header: make(http.Header), status: http.StatusOK}
	if err := v.site.ask(v.r.Context(), w, v.r.RemoteAddr, method, path, header, body); err != nil {
		return nil, err
	}
	reply, err := w.reply(path)
	if err != nil {
		return w.header, v.said(err)
	}
	return w.header, decode(path, reply, into)
}

// call calls the API inside the process. The context carries the visitor.
func (s *site) call(ctx context.Context, from, method, path string, body any) ([]byte, error) {
	w := &replyWriter{header: make(http.Header), status: http.StatusOK}
	if err := s.ask(ctx, w, from, method, path, nil, body); err != nil {
		return nil, err
	}
	return w.reply(path)
}

// ask makes the API answer a request. A body that is not nil is sent as JSON.
func (s *site) ask(ctx context.Context, w http.ResponseWriter, from, method, path string, header http.Header, body any) error {
	var sent []byte
	if body != nil {
		var err error
		if sent, err = json.Marshal(body); err != nil {
			return fmt.Errorf("call %s: %w", path, err)
		}
	}
	with := http.Header{}
	if body != nil {
		with.Set("Content-Type", "application/json")
	}
	maps.Copy(with, header)
	return s.serve(ctx, w, from, method, path, with, bytes.NewReader(sent))
}

// serve makes the API answer a request with these headers and this body.
func (s *site) serve(ctx context.Context, w http.ResponseWriter, from, method, path string, header http.Header, body io.Reader) error {
	r, err := http.NewRequestWithContext(ctx, method, "http://inside"+path, body)
	if err != nil {
		return fmt.Errorf("call %s: %w", path, err)
	}
	r.RemoteAddr, r.RequestURI = from, path
	r.Header.Set("Accept", "application/json")
	maps.Copy(r.Header, header)
	s.inside.ServeHTTP(w, r)
	if method != http.MethodGet {
		s.shared.forget()
	}
	return nil
}

// reply returns the reply, or the refusal.
func (w *replyWriter) reply(path string) ([]byte, error) {
	switch {
	case w.over:
		return nil, fmt.Errorf("call %s: the reply is larger than %d bytes", path, maxReply)
	case w.status >= 300:
		p := refusal(w.status, http.StatusText(w.status))
		if strings.HasPrefix(w.header.Get("Content-Type"), "application/problem+json") {
			_ = json.Unmarshal(w.body.Bytes(), p) // the status says enough
			p.Status = w.status
		}
		return nil, p
	}
	return w.body.Bytes(), nil
}

// replyWriter stores a reply. It accepts deadlines and flushes as a connection does.
type replyWriter struct {
	header http.Header
	body   bytes.Buffer
	status int
	begun  bool
	over   bool
}

func (w *replyWriter) Header() http.Header { return w.header }

func (w *replyWriter) WriteHeader(status int) {
	if !w.begun {
		w.status, w.begun = status, true
	}
}

func (w *replyWriter) Write(p []byte) (int, error) {
	w.begun = true
	if w.body.Len()+len(p) > maxReply {
		w.over = true
		return 0, http.ErrContentLength
	}
	return w.body.Write(p)
}

// Flush does nothing: the reply is read at its end.
func (w *replyWriter) Flush() {}
