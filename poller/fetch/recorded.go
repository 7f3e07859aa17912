package fetch

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/rounds-dev/rounds/poller/span"
)

// recorded makes a call and records it in a span within that of its context. Of the URL it records only
// scheme, host and port: all else may be a secret.
func (c *Client) recorded(ctx context.Context, within span.Span, call Call) (*Response, error) {
	method := cmp.Or(call.Method, http.MethodGet)
	s := within.Begin(span.Client, method, time.Now())
	defer func() { s.End(time.Now()) }()
	s.Set(span.HTTPMethod, method)
	if to, err := url.Parse(call.URL); err == nil {
		s.Set(span.URLScheme, to.Scheme)
		s.Set(span.ServerAddress, to.Hostname())
		s.Set(span.ServerPort, int(portOf(to)))
	}
	if call.Traced {
		call.Header = maps.Clone(call.Header)
		if call.Header == nil {
			call.Header = make(http.Header, 1)
		}
		call.Header.Set(span.Header, s.Traceparent())
	}
	response, err := c.make(ctx, call)
	if err != nil {
		class := "other"
		if failed, ok := errors.AsType[*Error](err); ok {
			class = string(failed.Code)
		}
		s.Fail(class)
		return nil, err
	}
	s.Set(span.HTTPStatus, response.Status)
	if response.Status >= http.StatusBadRequest {
		s.Fail(strconv.Itoa(response.Status))
	}
	return response, nil
}
