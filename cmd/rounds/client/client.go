// Package client calls the HTTP API of rounds from Go. The commands use it.
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/accounts"
)

const (
	// callTimeout bounds a call; streams may go on for ever.
	callTimeout = 30 * time.Second
	// heldTimeout bounds a call that the API holds.
	heldTimeout = 60 * time.Second
	// maxAnswer bounds an answer that is read as a whole.
	maxAnswer = 64 << 20
)

// Client calls one API. It is safe for concurrent use.
type Client struct {
	at    string // as it was passed
	base  string // the URL to which paths are appended: the same, or http://localhost for a socket
	token string
	http  *http.Client

	firstPause time.Duration
}

// New makes a client of the API at a URL; unix:///PATH is a socket. The token may be
// empty.
func New(at, token string) *Client {
	base, transport := Transport(at)
	return &Client{
		at:         strings.TrimRight(at, "/"),
		base:       base,
		token:      token,
		firstPause: firstPause,
		http: &http.Client{
			Transport: transport,
			// A server that answers with a redirect is not the API, and must not get the
			// token.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

// At returns the URL that the client was made with.
func (c *Client) At() string { return c.at }

// Transport returns how to reach the API at a URL, and the URL to which paths are appended. A
// socket is never reached through a proxy.
func Transport(at string) (base string, transport *http.Transport) {
	dialer := &net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}
	transport = &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         dialer.DialContext,
		TLSHandshakeTimeout: 10 * time.Second,
		ForceAttemptHTTP2:   true,
		IdleConnTimeout:     90 * time.Second,
	}
	path, ok := strings.CutPrefix(at, "unix://")
	if !ok {
		return strings.TrimRight(at, "/"), transport
	}
	transport.Proxy = nil
	transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
		return dialer.DialContext(ctx, "unix", path)
	}
	return "http://localhost", transport
}

// Close closes the idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// call sends a body, unless it is nil, and reads the answer into out, unless
// that is nil.
func (c *Client) call(ctx context.Context, method, path string, body, out any) error {
	_, err := c.callWith(ctx, method, path, nil, body, out)
	return err
}

// callWith is call with further headers. It returns the headers of the answer.
func (c *Client) callWith(ctx context.Context, method, path string, more http.Header, body, out any) (http.Header, error) {
	timeout := callTimeout
	if strings.HasPrefix(path, loginsPath+"/") || strings.HasPrefix(path, mailLoginsPath+"/") || strings.HasPrefix(path, "/v1/webhooks/") && strings.HasSuffix(path, "/test") {
		timeout = heldTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var reader io.Reader
	header := http.Header{"Accept": {"application/json"}}
	if body != nil {
		var text bytes.Buffer
		e := json.NewEncoder(&text)
		e.SetEscapeHTML(false) // the & in a config's address stays as it is
		if err := e.Encode(body); err != nil {
			return nil, err
		}
		reader = bytes.NewReader(bytes.TrimSuffix(text.Bytes(), []byte("\n")))
		header.Set("Content-Type", "application/json")
	}
	for name, values := range more {
		header[name] = values
	}
	answer, err := c.send(ctx, method, path, header, reader)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("the API's answer broke off: %w", err)
	}
	if out == nil || len(text) == 0 {
		return answer.Header, nil
	}
	if err := json.Unmarshal(text, out); err != nil {
		return nil, fmt.Errorf("what answers at %s is not rounds: set ROUNDS_API_URL (%w)", c.at, err)
	}
	return answer.Header, nil
}

// send makes a request and returns its answer. The caller reads and closes the body. An
// answer that is not 2xx is an *Error.
func (c *Client) send(ctx context.Context, method, path string, header http.Header, body io.Reader) (*http.Response, error) {
	return c.sendSized(ctx, method, path, header, body, 0)
}

// sendSized is send for a body whose size net/http cannot know; 0: it can.
func (c *Client) sendSized(ctx context.Context, method, path string, header http.Header, body io.Reader, size int64) (*http.Response, error) {
	if size > 0 {
		body = io.NopCloser(body) // the body is the caller's, who may send it again
	}
	request, err := http.NewRequestWithContext(ctx, method, c.base+path, body)
	if err != nil {
		return nil, err
	}
	if size > 0 {
		request.ContentLength = size
	}
	request.Header = header
	if c.token != "" {
		request.Header.Set("Authorization", "Bearer "+c.token)
	}
	answer, err := c.http.Do(request)
	if err != nil {
		return nil, c.explain(ctx, err)
	}
	if answer.StatusCode/100 != 2 {
		defer answer.Body.Close()
		return nil, readError(c.at, answer)
	}
	return answer, nil
}

// explain turns the error of a failed request into one that tells the user what to do.
func (c *Client) explain(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.DeadlineExceeded) {
		return cause
	}
	var asked *url.Error
	if errors.As(err, &asked) {
		err = asked.Err // method and URL say nothing here
	}
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" {
		return fmt.Errorf("%w at %s: is `rounds serve` running? set ROUNDS_API_URL (%w)", errUnreachable, c.at, err)
	}
	return fmt.Errorf("the API at %s did not answer: %w", c.at, err)
}

// namedPath returns a path that ends in a name. A name may contain slashes, and a name of dots must
// not look like a directory.
func namedPath(before, name string) string {
	escaped := url.PathEscape(name)
	switch escaped {
	case ".":
		escaped = "%2E"
	case "..":
		escaped = "%2E%2E"
	}
	return before + escaped
}

// queryPath returns a path with parameters, which are pairs of name and value. Parameters
// without a value are left out.
func queryPath(path string, pairs ...string) string {
	values := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			values.Add(pairs[i], pairs[i+1])
		}
	}
	if len(values) == 0 {
		return path
	}
	return path + "?" + values.Encode()
}

// pagePath returns the path of a page of a list.
func pagePath(path, cursor string, limit int, pairs ...string) string {
	if limit > 0 {
		pairs = append(pairs, "limit", strconv.Itoa(limit))
	}
	return queryPath(path, append(pairs, "cursor", cursor)...)
}

// selection returns the parameters of a selector.
func selection(s accounts.Selector) []string {
	var pairs []string
	add := func(name string, values []string) {
		for _, value := range values {
			pairs = append(pairs, name, value)
		}
	}
	add("id", s.IDs)
	add("kind", s.Kinds)
	add("state", s.States)
	for _, name := range slices.Sorted(maps.Keys(s.Labels)) {
		pairs = append(pairs, "label", name+"="+s.Labels[name])
	}
	add("prefix", s.Prefixes)
	add("part", s.Parts)
	add("reason", s.Reasons)
	add("error", s.Errors)
	add("cause", s.Causes)
	add("host", s.Hosts)
	add("except_host", s.Except)
	add("secret", s.Secrets)
	if s.Since > 0 {
		pairs = append(pairs, "since", s.Since.String())
	}
	if s.Until > 0 {
		pairs = append(pairs, "until", s.Until.String())
	}
	return pairs
}
