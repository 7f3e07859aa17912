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

	"github.com/rounds-dev/rounds/accounts/api"
)

// Where a tail may start.
const (
	FromStart = "start"
	FromNow   = "now"
)

// The pauses before a lost stream is asked for again double from the first to
// the last.
const (
	firstPause = 500 * time.Millisecond
	lastPause  = 15 * time.Second
)

// errRead wraps what the caller's function made of a message: no reason to
// connect again.
type errRead struct{ error }

// Tail calls read for each found message from a place on, for ever. A
// connection that breaks is made again from where it broke, and lost is told of
// it; only when the first one fails, or the API refuses, does Tail give up. It
// returns what read returned, or ctx's cause.
func (c *Client) Tail(ctx context.Context, from string, read func(api.Message) error, lost func(err error, pause time.Duration)) error {
	place := ""
	pause := c.firstPause
	for connected := false; ; {
		began := place
		err := c.tailOnce(ctx, from, &place, &connected, read)
		var stopped errRead
		switch {
		case errors.As(err, &stopped):
			return stopped.error
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case !connected, refused(err):
			return err
		}
		if place != began {
			pause = c.firstPause
		}
		// Half of it by chance: when the API comes back, not all come at once.
		wait := pause/2 + rand.N(pause/2)
		lost(err, wait)
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(wait):
		}
		pause = min(2*pause, lastPause)
	}
}

// tailOnce follows one connection until it breaks. It moves place on.
func (c *Client) tailOnce(ctx context.Context, from string, place *string, connected *bool, read func(api.Message) error) error {
	header := http.Header{"Accept": {"text/event-stream"}}
	if *place != "" {
		header.Set("Last-Event-ID", *place) // goes before the query; in both, a long one would be too much
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
			*place = events.id // it may have come without data, to say where a stream begins
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

// refused reports that asking again would bring the same answer.
func refused(err error) bool {
	status := Status(err)
	return status/100 == 3 || status/100 == 4 && status != http.StatusTooManyRequests && status != http.StatusRequestTimeout
}
