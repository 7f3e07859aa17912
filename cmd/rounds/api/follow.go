package api

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/rounds-dev/rounds/cmd/rounds/message"
)

// follower is a caller that gets messages as they come.
type follower struct {
	server   *Server
	filter   message.Filter
	position message.Position
	tail     *message.Tail
	out      *patientWriter
	buffer   bytes.Buffer
	passed   bool // the position is after messages that the filter left out, and the caller does not have it yet
}

// followMessages sends server-sent events until the caller goes or the server closes. The id of
// each event is the position after its message. Messages that the filter does not select are left
// out. A caller that lost the connection continues from there: it misses no message and gets none
// twice.
func (s *Server) followMessages(w http.ResponseWriter, r *http.Request, position message.Position, filter message.Filter) {
	if s.following.Add(1) > int64(s.options.MaxFollowers) {
		s.following.Add(-1)
		unavailable(fmt.Sprintf("%d callers already follow messages here, and no more may: ask without text/event-stream, or follow at another process", s.options.MaxFollowers)).write(w, r)
		return
	}
	defer s.following.Add(-1)
	ctx, end := s.stream(r)
	defer end()
	tail, err := s.messages.Tail(position, filter)
	if err != nil {
		s.errorReply(ctx, "follow messages", err).write(w, r)
		return
	}
	defer tail.Close()
	f := &follower{server: s, filter: filter, position: position, tail: tail, out: &patientWriter{out: w, connection: http.NewResponseController(w)}}
	// Read the first page before the reply begins: until then the reply can be an error.
	full, err := f.read(ctx)
	if err != nil {
		s.errorReply(ctx, "follow messages", err).write(w, r)
		return
	}
	_ = f.out.connection.SetReadDeadline(time.Time{}) // nothing more is read, and a read deadline must not end the stream
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // otherwise nginx holds back events
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return
	}
	// Send an id first. A caller that is cut off before its first message must not miss
	// messages that come while it is away.
	opening := fmt.Sprintf("retry: 1000\nid: %s\n\n", position.String())
	if err := f.send([]byte(opening)); err != nil {
		return
	}
	if err := f.follow(ctx, full); err != nil && ctx.Err() == nil {
		_ = s.errorReply(ctx, "follow messages", err) // it logs the error; the caller gets it when it reconnects
	}
}

func (f *follower) follow(ctx context.Context, full bool) error {
	options := &f.server.options
	looked, sent := time.Now(), time.Now()
	for {
		if f.buffer.Len() == 0 && time.Since(sent) >= options.Heartbeat {
			f.buffer.WriteString(": still here\n")
			if f.passed { // a caller that is cut off must not pass over the same messages again
				fmt.Fprintf(&f.buffer, "id: %s\n", f.position.String())
				f.passed = false
			}
			f.buffer.WriteByte('\n')
		}
		if f.buffer.Len() > 0 {
			if err := f.send(f.buffer.Bytes()); err != nil {
				return nil // the caller has gone
			}
			f.buffer.Reset()
			sent = time.Now()
		}
		if !full {
			wait := min(options.PollInterval-time.Since(looked), options.Heartbeat-time.Since(sent))
			f.tail.Await(ctx, max(wait, 0))
		}
		if ctx.Err() != nil {
			return nil
		}
		if time.Since(looked) >= options.PollInterval {
			f.tail.Doubt()
			looked = time.Now()
		}
		var err error
		if full, err = f.read(ctx); err != nil {
			return err
		}
	}
}

// read puts the next messages into the buffer, and reports whether there may already be more.
func (f *follower) read(ctx context.Context) (full bool, err error) {
	found, more, err := f.tail.Page(ctx)
	if err != nil {
		return false, err
	}
	f.position = f.position.Clone() // the opening event keeps the position from before
	visible, err := f.server.visible(ctx, found)
	if err != nil {
		return false, err
	}
	for i := range found {
		if err := f.position.Pass(&found[i]); err != nil {
			return false, err
		}
		if f.passed = !visible(&found[i]) || !f.filter.Selects(&found[i]); f.passed {
			continue
		}
		fmt.Fprintf(&f.buffer, "id: %s\ndata: ", f.position.String())
		e := json.NewEncoder(&f.buffer) // it ends the line
		e.SetEscapeHTML(false)
		if err := e.Encode(messageOf(&found[i])); err != nil {
			return false, err
		}
		f.buffer.WriteByte('\n')
	}
	return more, nil
}

func (f *follower) send(events []byte) error {
	if _, err := f.out.Write(events); err != nil {
		return err
	}
	return f.out.connection.Flush()
}
