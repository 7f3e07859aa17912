package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"

	"github.com/rounds-dev/rounds/cmd/rounds/api"
)

// errUnreachable reports that nothing listens where the API should be.
var errUnreachable = errors.New("cannot reach the API")

// Error is an answer of the API that is not a success: a problem document as in RFC 9457.
type Error struct {
	api.Refusal

	sent    bool   // the request had a token
	at      string // where the API should be
	foreign bool   // something else answered there
}

// Error returns what went wrong, and each fault on a line of its own.
func (e *Error) Error() string {
	var b strings.Builder
	switch about, service := strings.CutPrefix(e.Detail, "the service "); {
	case e.foreign:
		return fmt.Sprintf("what answers at %s is not rounds (%d %s): set ROUNDS_API_URL", e.at, e.Status, http.StatusText(e.Status))
	case service && e.at != "":
		b.WriteString("the service at " + e.at + " " + about) // not the command, nor another service
	case e.Detail != "":
		b.WriteString(e.Detail)
	case e.Title != "":
		b.WriteString(e.Title)
	default:
		b.WriteString("the API refused")
	}
	fmt.Fprintf(&b, " (%d %s)", e.Status, http.StatusText(e.Status))
	switch {
	case e.Status == http.StatusUnauthorized && e.sent:
		b.WriteString(": ROUNDS_API_TOKEN here is not that of the service at " + e.at)
	case e.Status == http.StatusUnauthorized:
		b.WriteString(": set ROUNDS_API_TOKEN to that of the service at " + e.at + ", or to a key")
	}
	for _, f := range e.Errors {
		b.WriteString("\n  ")
		if f.Location != "" {
			b.WriteString(strings.TrimPrefix(f.Location, "body.") + ": ")
		}
		b.WriteString(f.Message)
	}
	return b.String()
}

// Status returns the HTTP status of an error of this package, or 0.
func Status(err error) int {
	var e *Error
	if errors.As(err, &e) {
		return e.Status
	}
	return 0
}

// readError reads a problem document. If the answer is not one, such as a proxy's page, the error
// has only the status. A server that knows no such route and answers without JSON is not the API.
func readError(at string, answer *http.Response) error {
	e := &Error{at: at, sent: answer.Request != nil && answer.Request.Header.Get("Authorization") != ""}
	kind, _, _ := mime.ParseMediaType(answer.Header.Get("Content-Type"))
	if strings.HasSuffix(kind, "json") {
		text, _ := io.ReadAll(io.LimitReader(answer.Body, 1<<20))
		_ = json.Unmarshal(text, e)
	} else {
		switch answer.StatusCode {
		case http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotImplemented:
			e.foreign = true
		}
	}
	e.Status = answer.StatusCode
	return e
}
