package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"time"

	"github.com/rounds-dev/rounds/cmd/rounds/api"
)

// These are the places where a tail may start.
const (
	FromStart = "start"
	FromNow   = "now"
)

// The pauses before a lost stream is requested again double from the first to the last.
const (
	firstPause = 500 * time.Millisecond
	lastPause  = 15 * time.Second
)

// errRead wraps the error of the caller's function for a message. Such an error is no
// reason to connect again.
type errRead struct{ error }

// Tail calls read for each found message from a place on, for ever. If the connection
// breaks, it calls lost and connects again where it broke. It gives up only if the first
// connection fails or the API refuses. It returns what read returned, or ctx's cause.
func (c *Client) Tail(ctx context.Context, from string, read func(api.Message) error, lost func(err error, pause time.Duration)) error {
	place := ""
	again := backoff{c.firstPause}
	for connected := false; ; {
		began := place
		err := c.tailOnce(ctx, from, &place, &connected, read)
		var stopped errRead
		switch {
		case errors.As(err, &stopped):
			return stopped.error
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case !connected, Refused(err):
			return err
		}
		if place != began {
			again = backoff{c.firstPause}
		}
		if !again.wait(ctx, err, lost) {
			return context.Cause(ctx)
		}
	}
}

// backoff is the pause before a lost connection is tried again.
type backoff struct{ pause time.Duration }

// wait calls lost and waits, the next time for longer. It reports false if ctx ended first.
func (b *backoff) wait(ctx context.Context, err error, lost func(err error, pause time.Duration)) bool {
	// Half of the wait is random, so that not all clients return at the same moment as the API.
	wait := b.pause/2 + rand.N(b.pause/2)
	b.pause = min(2*b.pause, lastPause)
	lost(err, wait)
	return sleep(ctx, wait)
}

// sleep waits, and reports false if ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// tailOnce follows one connection until it breaks. It advances place.
func (c *Client) tailOnce(ctx context.Context, from string, place *string, connected *bool, read func(api.Message) error) error {
	header := http.Header{"Accept": {"text/event-stream"}}
	if *place != "" {
		header.Set("Last-Event-ID", *place) // it overrides the query; a long place in both would be too much
	}
	answer, err := c.send(ctx, http.MethodGet, "/v1/messages?after="+url.QueryEscape(from), header, nil)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	*connected = true
	events := newEventReader(answer.Body)
	events.id = *place
	for {
		e, err := events.next()
		if err != nil {
			*place = events.id // an id may come without data, to name where a stream begins
			return fmt.Errorf("the stream of messages broke off: %w", err)
		}
		if e.name == "" || e.name == "message" {
			var m api.Message
			if err := json.Unmarshal(e.data, &m); err != nil {
				return errRead{fmt.Errorf("the API sent a message that cannot be read: %w", err)}
			}
			if err := read(m); err != nil {
				return errRead{err}
			}
		}
		*place = events.id
	}
}

// Refused reports that repeating the request would bring the same answer.
func Refused(err error) bool {
	status := Status(err)
	return status/100 == 3 || status/100 == 4 && status != http.StatusTooManyRequests && status != http.StatusRequestTimeout
}
