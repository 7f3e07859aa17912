package telegram

import (
	"encoding/json"
	"io"
	"mime"
	"net/http"
	"strconv"
)

const maxRequest = 1 << 20 // bytes

// request is the parameters of a call.
type request struct {
	Offset  int64    `json:"offset"`
	Limit   int      `json:"limit"`
	Timeout int      `json:"timeout"` // seconds
	Allowed []string `json:"allowed_updates"`
	Drop    bool     `json:"drop_pending_updates"`
}

// readRequest reads the parameters from a JSON body, or else from a form and the query. It
// answers 400 if it cannot.
func readRequest(rw http.ResponseWriter, r *http.Request) (q request, ok bool) {
	q.Limit = 100
	r.Body = http.MaxBytesReader(rw, r.Body, maxRequest)
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if kind == "application/json" {
		body, err := io.ReadAll(r.Body)
		ok = err == nil && (len(body) == 0 || json.Unmarshal(body, &q) == nil)
	} else {
		ok = q.readForm(r)
	}
	if !ok {
		refuse(rw, 400, "Bad Request: can't parse", nil)
	}
	return q, ok
}

// readForm reads the parameters from a form and the query. As the real server does, it takes a
// text that is no number for 0.
func (q *request) readForm(r *http.Request) (ok bool) {
	_ = r.ParseMultipartForm(maxRequest) // a body that is no form has no parameters
	number := func(name string, before int64) int64 {
		if text := r.Form.Get(name); text != "" {
			before, _ = strconv.ParseInt(text, 10, 64)
		}
		return before
	}
	q.Offset = number("offset", 0)
	q.Limit = int(number("limit", int64(q.Limit)))
	q.Timeout = int(number("timeout", 0))
	q.Drop = r.Form.Get("drop_pending_updates") == "true"
	allowed := r.Form.Get("allowed_updates")
	return allowed == "" || json.Unmarshal([]byte(allowed), &q.Allowed) == nil
}
