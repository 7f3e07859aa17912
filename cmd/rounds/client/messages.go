package client

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"time"

	"github.com/rounds-dev/rounds/circulate"
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

const (
	// groupWait is how long one read waits for messages.
	groupWait = 10 * time.Second
	// groupPage is the most messages of one read.
	groupPage = 100
	// leaveTimeout bounds the last call, when the caller wants to end.
	leaveTimeout = 5 * time.Second
)

// Consume reads a consumer group, which begins at from if it is new, and calls read for
// each message, for ever. With events the group also gets events from now on. A message is
// acknowledged with the next call after read has returned without an error. limit, if not
// 0, is the most messages to read.
//
// It ends as Tail does, but first acknowledges and leaves the group. Unacknowledged
// messages go to other consumers.
func (c *Client) Consume(ctx context.Context, group, from string, events bool, limit int, read func(api.GroupMessage) error, lost func(err error, pause time.Duration)) error {
	path := namedPath("/v1/groups/", group) + "/read"
	// The caller chooses the name, so that the first call can be repeated too.
	turn := api.GroupReadRequest{Consumer: circulate.NewReplica(), From: from, Events: events, Wait: groupWait.String()}
	again, given, connected := backoff{c.firstPause}, 0, false
	for {
		turn.Limit = groupPage
		if limit > 0 {
			turn.Limit = min(groupPage, limit-given)
		}
		var batch api.GroupBatch
		err := c.call(ctx, http.MethodPost, path, turn, &batch)
		switch {
		case err == nil:
		case ctx.Err() != nil:
			return c.leave(ctx, path, turn, context.Cause(ctx))
		case !connected || Refused(err):
			return err
		default:
			// The call may have been done. Repeating it acknowledges nothing twice, and
			// returns the messages of the lost reply.
			if !again.wait(ctx, err, lost) {
				return c.leave(ctx, path, turn, context.Cause(ctx))
			}
			continue
		}
		again, connected = backoff{c.firstPause}, true
		turn = api.GroupReadRequest{Consumer: batch.Consumer, Wait: groupWait.String()}
		for _, m := range batch.Messages {
			if ctx.Err() != nil {
				return c.leave(ctx, path, turn, context.Cause(ctx))
			}
			if err := read(m); err != nil {
				return c.leave(ctx, path, turn, err)
			}
			turn.Acknowledge = append(turn.Acknowledge, m.Handle)
			given++
		}
		if limit > 0 && given >= limit {
			return c.leave(ctx, path, turn, nil)
		}
	}
}

// leave acknowledges the messages that were read last, and leaves the group. It returns
// the error with which the consumer ends, or else its own.
func (c *Client) leave(ctx context.Context, path string, turn api.GroupReadRequest, why error) error {
	// This is done although the caller wants to end, so that the last messages are not
	// delivered again.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
	defer cancel()
	turn.From, turn.Events, turn.Limit, turn.Wait, turn.Leave = "", false, 0, "", true
	err := c.call(ctx, http.MethodPost, path, turn, nil)
	for err != nil && !Refused(err) {
		if !sleep(ctx, c.firstPause) {
			break
		}
		err = c.call(ctx, http.MethodPost, path, turn, nil)
	}
	return cmp.Or(why, err)
}

// maxEvent is the most bytes that an event may have. A message's data may be 256 KiB, and
// JSON may write each byte as six.
const maxEvent = 4 << 20

// event is one server-sent event.
type event struct {
	name string
	data []byte
}

// eventReader reads server-sent events as the HTML standard defines them.
type eventReader struct {
	lines *bufio.Reader
	id    string // of the last complete event
	size  int    // the bytes of the current event so far
}

func newEventReader(r io.Reader) *eventReader {
	return &eventReader{lines: bufio.NewReaderSize(r, 64<<10)}
}

var errEventSize = errors.New("an event of the API is too long")

// next returns the next event that has data. It drops an event that the stream's end cuts
// off.
func (r *eventReader) next() (event, error) {
	var e event
	id, hasData := r.id, false
	for r.size = 0; ; {
		line, err := r.line()
		if err != nil {
			return event{}, err
		}
		if len(line) == 0 {
			if r.id = id; hasData {
				return e, nil
			}
			e, r.size = event{}, 0
			continue
		}
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(field) {
		case "id":
			if !bytes.ContainsRune(value, 0) {
				id = string(value)
			}
		case "event":
			e.name = string(value)
		case "data":
			if hasData {
				e.data = append(e.data, '\n')
			}
			e.data = append(e.data, value...)
			hasData = true
		}
	}
}

// line returns the next line without its end, however much longer than the buffer it is.
func (r *eventReader) line() ([]byte, error) {
	var line []byte
	for {
		part, err := r.lines.ReadSlice('\n')
		if r.size += len(part); r.size > maxEvent {
			return nil, errEventSize
		}
		line = append(line, part...)
		switch {
		case err == nil:
			return bytes.TrimRight(line, "\r\n"), nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		}
	}
}

// SearchQuery says which stored messages to search for. Empty fields leave nothing out.
type SearchQuery struct {
	Text, Sender        string // parts
	Account, Kind, Type string
	From, To            string // times, or how long ago
	Before              string // the previous page's Next; empty: begin with the newest
	Limit               int
}

// SearchMessages looks through stored messages for a few seconds, the newest first. A page may be
// short, even empty, and have a Next.
func (c *Client) SearchMessages(ctx context.Context, q SearchQuery) (api.MessageSearch, error) {
	return get[api.MessageSearch](ctx, c, pagePath("/v1/messages:search", "", q.Limit,
		"text", q.Text, "sender", q.Sender, "account", q.Account, "kind", q.Kind, "type", q.Type, "from", q.From, "to", q.To, "before", q.Before))
}
