package fetch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"sync"
	"time"

	"github.com/rounds-dev/rounds/poller"
)

// bodyIdle is how long the next bytes of an answer that is read while it comes may take.
const bodyIdle = 30 * time.Second

// errIdle ends a call whose host has said nothing for too long.
var errIdle = errors.New("the host said nothing for too long")

// Body is a successful answer that is read while it comes. Its errors are *Error. The host may take
// half a minute for each read.
type Body struct {
	// Size is how many bytes the answer says that it has; 0: it does not say.
	Size int64

	ctx    context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer
	answer io.Closer
	from   io.Reader
	most   int64 // the most bytes; 0: any number
	read   int64
	closed sync.Once
}

// Open makes a call like Do, but returns when the header of the answer has come. If the status is
// 2xx, the answer is read from the Body, which the caller closes, and Response.Body is empty.
// Otherwise the Body is nil. ctx must not end before the Body is closed. A MaxBody of 0 means any
// number of bytes. Held and NoBody have no meaning here.
func (c *Client) Open(ctx context.Context, call Call) (*Response, *Body, error) {
	within, cancel := context.WithCancelCause(ctx)
	b := &Body{ctx: within, cancel: cancel, most: call.MaxBody}
	b.timer = time.AfterFunc(c.options.Timeout, func() { cancel(errIdle) })
	e := newExchange(within)
	response, err := c.open(e, call, b)
	if err != nil || b.from == nil {
		b.timer.Stop()
	}
	if err != nil {
		failed := *b.failure(err, e.connected.Load())
		failed.sent = e.used.Load() || c.options.Transport != nil
		cancel(nil)
		return nil, nil, &failed
	}
	if b.from == nil {
		cancel(nil)
		return response, nil, nil
	}
	return response, b, nil
}

func (c *Client) open(e *exchange, call Call, b *Body) (*Response, error) {
	request, err := c.request(e, call)
	if err != nil {
		return nil, err
	}
	// Files rarely become smaller, and their length is worth more.
	request.Header["Accept-Encoding"] = []string{"identity"}
	w, err := c.wayOf(e)
	if err != nil {
		return nil, err
	}
	e.redirects = call.MaxRedirects
	e.client = http.Client{Transport: w.of(call, request.URL), CheckRedirect: e.checkRedirect}
	answer, err := e.client.Do(request)
	if err != nil {
		return nil, err
	}
	response := &Response{Status: answer.StatusCode, Header: answer.Header, URL: addressOf(answer), Moved: e.moved.to}
	if answer.StatusCode < 200 || answer.StatusCode > 299 {
		defer answer.Body.Close()
		response.Body, err = c.readBody(e.Context, answer, errorBody)
		return response, err
	}
	b.timer.Stop()
	b.answer, b.from, b.Size = answer.Body, answer.Body, max(0, answer.ContentLength)
	switch codingOf(answer) {
	case "gzip":
		b.from, b.Size = &unzipped{from: answer.Body}, 0
	case "":
		if coding := answer.Header.Get("Content-Encoding"); coding == "" || coding == "identity" {
			break
		}
		fallthrough
	default:
		_ = answer.Body.Close()
		b.from = nil
		return nil, errCoding
	}
	return response, nil
}

// failure returns the Error for an error.
func (b *Body) failure(err error, connected bool) *Error {
	if errors.Is(context.Cause(b.ctx), errIdle) {
		return timeout(connected)
	}
	return newError(b.ctx, err, connected)
}

// Read implements io.Reader.
func (b *Body) Read(p []byte) (int, error) {
	if b.most > 0 && b.Size > b.most {
		return 0, known(ErrTooLarge)
	}
	b.timer.Reset(bodyIdle)
	n, err := b.from.Read(p)
	b.timer.Stop()
	b.read += int64(n)
	switch {
	case b.most > 0 && b.read > b.most:
		return 0, known(ErrTooLarge)
	case err == nil || err == io.EOF: //nolint:errorlint // as io.Reader has it
		return n, err
	}
	return n, b.failure(err, true)
}

// Close ends the call.
func (b *Body) Close() error {
	b.closed.Do(func() {
		b.timer.Stop()
		_ = b.answer.Close()
		b.cancel(nil)
	})
	return nil
}

// File makes a call for a file. who names the server for error messages. The errors, and those of
// the body, are *poller.CheckError.
func (c *Client) File(ctx context.Context, who string, call Call) (*poller.FileBody, error) {
	response, body, err := c.Open(ctx, call)
	switch {
	case err != nil:
		return nil, CheckError(err)
	case body == nil:
		return nil, FileStatusError(who, response)
	case response.Status != http.StatusOK: // a part of it, or nothing
		_ = body.Close()
		return nil, ProtocolError(who+"'s", fmt.Sprintf("its status is %d, and a whole file has 200", response.Status))
	}
	return FileOf(response, body), nil
}

// FileOf returns the file in a successful answer of Open. The errors of its body are *poller.CheckError.
func FileOf(response *Response, body *Body) *poller.FileBody {
	told := poller.CleanFile(poller.File{Name: nameOf(response.Header), Type: response.Header.Get("Content-Type"), Size: body.Size})
	return &poller.FileBody{ReadCloser: fileBody{body}, Name: told.Name, Type: told.Type, Size: told.Size}
}

// FileStatusError returns the error for an unsuccessful status of a server that has files. 404 and
// 410 say that it has the file no more. Anything else may pass.
func FileStatusError(who string, response *Response) *poller.CheckError {
	e := StatusError(who, response)
	switch status := response.Status; {
	case status == http.StatusNotFound || status == http.StatusGone:
		return poller.NoFile("file_gone", fmt.Sprintf("%s has the file no more: it answered %d %s", who, status, http.StatusText(status)))
	case status < 500 && status != http.StatusTooManyRequests:
		e.Scope = poller.ScopeAccount
	}
	return e
}

// nameOf returns the file name in an answer's Content-Disposition.
func nameOf(header http.Header) string {
	disposition := header.Get("Content-Disposition")
	if len(disposition) > 4<<10 {
		return ""
	}
	_, parameters, _ := mime.ParseMediaType(disposition) // without parameters if it cannot be read
	return parameters["filename"]
}

// fileBody is a Body with the errors of a file.
type fileBody struct{ *Body }

// Read implements io.Reader.
func (b fileBody) Read(p []byte) (int, error) {
	n, err := b.Body.Read(p)
	if failed, ok := errors.AsType[*Error](err); ok {
		err = CheckError(failed)
	}
	return n, err
}
