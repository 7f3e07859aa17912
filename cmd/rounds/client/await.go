package client

import (
	"context"
	"errors"
	"net"
	"net/url"
	"strings"
	"time"
)

// starting is what a service says until its first attempt to reach its Redis has ended.
const starting = "starting"

// startsWithin is how long a listening service may say that it starts.
const startsWithin = 30 * time.Second

// Await waits for a service on this machine that was started a moment ago: until it listens, for at
// most the patience, and then while it says that it starts. It does not wait for other services. It
// returns no error, because the next call says what is wrong.
func (c *Client) Await(ctx context.Context, patience time.Duration) {
	if patience == 0 || !c.here() {
		return
	}
	began := time.Now()
	for {
		most := patience
		switch err := c.call(ctx, "GET", "/readyz", nil, nil); {
		case errors.Is(err, errUnreachable):
		case starts(err):
			most = startsWithin
		default:
			return
		}
		if !sleep(ctx, 20*time.Millisecond) || time.Since(began) >= most {
			return
		}
	}
}

// starts reports whether an error comes from a service that starts, and knows of no trouble yet.
func starts(err error) bool {
	refused, ok := errors.AsType[*Error](err)
	return ok && refused.Detail == starting
}

// here reports whether the API is on this machine.
func (c *Client) here() bool {
	if strings.HasPrefix(c.at, "unix://") {
		return true
	}
	u, err := url.Parse(c.at)
	if err != nil {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip.IsLoopback()
}
