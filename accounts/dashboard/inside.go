package dashboard

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// maxReply is the most bytes of a reply of the API that a page reads.
const maxReply = 16 << 20

// problem is a refusal of the API (RFC 9457).
type problem struct {
	Status int     `json:"status"`
	Title  string  `json:"title"`
	Detail string  `json:"detail"`
	Errors []fault `json:"errors"`
}

// fault is what is wrong with one field.
type fault struct {
	Location string `json:"location"`
	Message  string `json:"message"`
}

// Error returns the detail, with the faults of fields.
func (p *problem) Error() string {
	text := p.Detail
	for _, f := range p.Errors {
		text += "; " + f.Location + ": " + f.Message
	}
	return text
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

// get asks the API for a path with its query, on behalf of the visitor, and decodes the reply.
// A refusal is a *problem.
func (v *visit) get(path string, into any) error {
	return v.do(http.MethodGet, path, nil, into)
}

// do calls the API on behalf of the visitor. The body is sent as JSON, or as it is if it is
// a json.RawMessage; nil: none. The reply is decoded into into, unless that is nil. A refusal
// is a *problem.
func (v *visit) do(method, path string, body, into any) error {
	reply, err := v.site.call(v.r.Context(), v.r.RemoteAddr, method, path, body)
	if err != nil {
		return err
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

// accountPath returns the API's path of an account. An id that is only dots is escaped, since
// it would mean another folder.
func accountPath(id string) string {
	escaped := url.PathEscape(id)
	if id == "." || id == ".." {
		escaped = strings.ReplaceAll(id, ".", "%2E")
	}
	return "/v1/accounts/" + escaped
}

// call calls the API inside the process. The context carries the visitor.
func (s *site) call(ctx context.Context, from, method, path string, body any) ([]byte, error) {
	var sent []byte
	if body != nil {
		var err error
		if sent, err = json.Marshal(body); err != nil {
			return nil, fmt.Errorf("call %s: %w", path, err)
		}
	}
	r, err := http.NewRequestWithContext(ctx, method, "http://inside"+path, bytes.NewReader(sent))
	if err != nil {
		return nil, fmt.Errorf("call %s: %w", path, err)
	}
	r.RemoteAddr, r.RequestURI = from, path
	r.Header.Set("Accept", "application/json")
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	w := &replyWriter{header: make(http.Header), status: http.StatusOK}
	s.inside.ServeHTTP(w, r)
	switch {
	case w.over:
		return nil, fmt.Errorf("call %s: the reply is larger than %d bytes", path, maxReply)
	case w.status >= 300:
		p := &problem{Status: w.status, Detail: http.StatusText(w.status)}
		if strings.HasPrefix(w.header.Get("Content-Type"), "application/problem+json") {
			_ = json.Unmarshal(w.body.Bytes(), p) // the status says enough
			p.Status = w.status
		}
		return nil, p
	}
	return w.body.Bytes(), nil
}

// replyWriter keeps a reply. It takes deadlines and flushes as a connection does.
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
