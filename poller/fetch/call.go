package fetch

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/span"
)

const (
	defaultMaxBody = 8 << 20
	// errorBody is how many bytes of an unsuccessful answer are read: enough for an error
	// object.
	errorBody = 64 << 10
)

// Call is one request.
type Call struct {
	Method       string      // empty: GET
	URL          string      // see Client.Validate
	Header       http.Header // sent to the URL's own origin only, except harmless ones
	Body         []byte      // nil: none
	Stream       *Stream     // a body that is read while it is sent, in place of Body; nil: none
	MaxBody      int64       // the most bytes of a 2xx answer, after decompression; 0: 8 MiB
	MaxRedirects int         // 0: a redirect is the answer; see also Response.Moved
	// Confined restricts requests to the URL's own origin to private addresses, and sends
	// them through no proxy. It is for secrets that are sent without TLS. A redirect to
	// another origin does not get them.
	Confined bool
	// NoBody says that the caller wants only status and header. A little of the body is read, so that
	// the connection can be used again, and it does not matter how that ends.
	NoBody bool
	// Head is how many bytes of the body a call with NoBody returns all the same, or fewer if it breaks
	// off. Only bodies that are not compressed, or by gzip, are returned.
	Head int
	// Held says that the third party may hold the answer back until something comes. Such a call takes
	// little memory while it waits. It follows no redirect.
	Held bool
	// Traced tells the URL's own origin the call's span, in a header of W3C Trace Context, if the call
	// is recorded. It is for servers of the operator's own.
	Traced bool
}

// Response is an answer that was read to its end.
type Response struct {
	Status int
	Header http.Header
	// Body is whole if the status is 2xx, and is otherwise cut after 64 KiB, or after Call.Head.
	Body []byte
	// URL is the address that answered, after all redirects, without a fragment. It may hold secrets,
	// as the call's URL may.
	URL string
	// Moved is the address to which permanent redirects (301, 308) lead, up to the first
	// redirect of another kind, without a fragment. It never leads from https to http. It
	// is empty if the first redirect is not permanent, or if there is none.
	Moved string
}

// RetryAfter returns the wait of the answer's Retry-After header; see the function
// retryAfter.
func (r *Response) RetryAfter() time.Duration { return retryAfter(r.Header, time.Now()) }

// Do makes a call and reads the answer. An answer of any status is a success; the error
// is always an *Error. After Call.MaxRedirects redirects, the next one is the answer. The call is recorded
// within the context's span, if there is one, and the check learns of the answer: see poller.Answered.
func (c *Client) Do(ctx context.Context, call Call) (*Response, error) {
	var response *Response
	var err error
	if within := span.Of(ctx); within != nil {
		response, err = c.recorded(ctx, within, call)
	} else {
		response, err = c.make(ctx, call)
	}
	if err == nil {
		poller.Answered(ctx, response.Status, len(response.Body))
	}
	return response, err
}

// make makes a call and reads the answer.
func (c *Client) make(ctx context.Context, call Call) (*Response, error) {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.options.Timeout)
		defer cancel()
	}
	if err := ctx.Err(); err != nil {
		return nil, newError(ctx, err, false) // otherwise it may get a connection, and count as sent
	}
	began := time.Now()
	if call.Held {
		if ln, err := c.send(ctx, call); !errors.Is(err, errElsewhere) {
			response, err := c.await(ctx, ln, cmp.Or(call.MaxBody, defaultMaxBody), err) // without the call, which would stay in memory
			if failed, ok := errors.AsType[*Error](err); ok {
				held := *failed
				held.sent = true // as far as anybody knows
				return nil, &held
			}
			return response, err
		}
	}
	e := newExchange(ctx)
	response, err := c.do(e, call)
	if err != nil {
		failed := *newError(ctx, err, e.connected.Load()).limited(ctx, began, cmp.Or(call.MaxBody, defaultMaxBody))
		failed.sent = e.used.Load() || c.options.Transport != nil
		return nil, &failed
	}
	return response, nil
}

// await waits for the answer of a held call. err is what went wrong when its request was sent.
func (c *Client) await(ctx context.Context, ln *line, most int64, err error) (*Response, error) {
	if ln != nil {
		defer ln.end()
	}
	if err != nil {
		return nil, newError(ctx, err, ln != nil)
	}
	poller.Begun(ctx)
	answer, err := ln.answer(ctx)
	if err != nil {
		return nil, newError(ctx, err, true)
	}
	body, err := c.readBody(ctx, answer, most)
	if err != nil {
		return nil, newError(ctx, err, true).limited(ctx, time.Time{}, most)
	}
	return &Response{Status: answer.StatusCode, Header: answer.Header, Body: body}, nil
}

// send sends the request of a held call. Nothing of the call is needed after that. The error is
// errElsewhere if the call must go another way.
func (c *Client) send(ctx context.Context, call Call) (*line, error) {
	request, err := c.request(ctx, call)
	if err != nil {
		return nil, err
	}
	w, err := c.wayOf(ctx)
	if err != nil {
		return nil, err
	}
	l := w.linesOf(call, request.URL)
	if l == nil {
		return nil, errElsewhere
	}
	return l.send(ctx, request)
}

// request returns the request of a call.
func (c *Client) request(ctx context.Context, call Call) (*http.Request, error) {
	var body io.Reader
	if len(call.Body) > 0 {
		body = bytes.NewReader(call.Body)
	}
	request, err := http.NewRequestWithContext(ctx, cmp.Or(call.Method, http.MethodGet), call.URL, body)
	if err != nil {
		return nil, ErrURL
	}
	if err := checkURL(request.URL); err != nil {
		return nil, err
	}
	if s := call.Stream; s != nil {
		request.ContentLength, request.Body = s.Length, s.body(ctx)
		request.GetBody = func() (io.ReadCloser, error) { return s.body(ctx), nil }
	}
	request.Host = request.URL.Host
	for name, values := range call.Header {
		request.Header[http.CanonicalHeaderKey(name)] = values
	}
	request.Header["Accept-Encoding"], request.Header["User-Agent"] = c.codings, c.userAgent
	return request, nil
}

func (c *Client) do(e *exchange, call Call) (*Response, error) {
	request, err := c.request(e, call)
	if err != nil {
		return nil, err
	}
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
	defer answer.Body.Close()
	if call.NoBody {
		head := headOf(answer, call.Head)
		_, _ = io.CopyN(io.Discard, answer.Body, errorBody)
		return &Response{Status: answer.StatusCode, Header: answer.Header, Body: head, URL: addressOf(answer), Moved: e.moved.to}, nil
	}
	body, err := c.readBody(e.Context, answer, cmp.Or(call.MaxBody, defaultMaxBody))
	if err != nil {
		return nil, err
	}
	return &Response{Status: answer.StatusCode, Header: answer.Header, Body: body, URL: addressOf(answer), Moved: e.moved.to}, nil
}

// addressOf returns the address that answered.
func addressOf(answer *http.Response) string {
	if answer.Request == nil || answer.Request.URL == nil {
		return "" // a transport of tests
	}
	at := *answer.Request.URL
	at.Fragment, at.RawFragment = "", ""
	return at.String()
}

// move records where permanent redirects lead.
type move struct {
	to    string
	ended bool
}

// follow records one redirect.
func (m *move) follow(request *http.Request, from *url.URL) {
	permanent := request.Response != nil &&
		(request.Response.StatusCode == http.StatusMovedPermanently || request.Response.StatusCode == http.StatusPermanentRedirect)
	m.ended = m.ended || !permanent || from.Scheme == "https" && request.URL.Scheme != "https"
	if !m.ended {
		to := *request.URL
		to.Fragment, to.RawFragment = "", ""
		m.to = to.String()
	}
}

// checkRedirect is the call's rule for redirects.
func (e *exchange) checkRedirect(request *http.Request, via []*http.Request) error {
	if len(via) > e.redirects {
		return http.ErrUseLastResponse
	}
	if err := checkURL(request.URL); err != nil {
		return err
	}
	e.moved.follow(request, via[len(via)-1].URL)
	// The query of the previous URL may hold a token.
	request.Header.Del("Referer")
	for _, earlier := range append(via[1:len(via):len(via)], request) {
		if !sameOrigin(earlier.URL, via[0].URL) {
			dropPrivate(request.Header)
			break
		}
	}
	return nil
}

// dropPrivate drops headers that another origin must not see. Any header could be a
// credential, so only known harmless ones remain. Validators remain because the
// answer's origin issued them.
func dropPrivate(header http.Header) {
	for name := range header {
		switch name {
		case "User-Agent", "Accept", "Accept-Encoding", "If-None-Match", "If-Modified-Since":
		default:
			delete(header, name)
		}
	}
}
