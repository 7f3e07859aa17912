package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/cmd/rounds/message"
)

const (
	// passedMost is the most messages that a request reads for a caller that gets few of
	// them. After passedBytes of their data it reads no further page.
	passedMost  = 5000
	passedBytes = 16 << 20
	// passedPage is the most messages that it reads at once.
	passedPage = 500
)

// messagesQuery says which messages a caller wants.
type messagesQuery struct {
	after, before string
	limit         int
	filter        message.Filter
}

// getMessages returns a page of found messages. To a caller that accepts server-sent events it
// sends all messages as they come.
func (s *Server) getMessages(w http.ResponseWriter, r *http.Request) {
	w.Header().Add("Vary", "Accept")
	follow := strings.Contains(strings.Join(r.Header.Values("Accept"), ","), "text/event-stream")
	q, faults := readMessagesQuery(r.URL.Query(), follow)
	from, location := q.after, "query.after"
	if q.before != "" {
		from, location = q.before, "query.before"
	}
	if last := r.Header.Get("Last-Event-ID"); follow && last != "" {
		from, location = last, "header.Last-Event-ID"
	}
	position, err := s.messages.Position(r.Context(), from)
	if errors.Is(err, accounts.ErrCursor) {
		faults = append(faults, badCursor(location, err).Errors...)
		err = nil
	}
	switch {
	case len(faults) > 0:
		newErrorReply(http.StatusUnprocessableEntity, "validation failed", faults...).write(w, r)
	case err != nil:
		s.fail(w, r, "get messages", err)
	case follow:
		s.followMessages(w, r, position, q.filter)
	default:
		s.listMessages(w, r, position, q)
	}
}

func readMessagesQuery(query url.Values, follow bool) (q messagesQuery, faults []*huma.ErrorDetail) {
	fault := func(name, reason, value string) {
		faults = append(faults, &huma.ErrorDetail{Location: "query." + name, Message: reason, Value: value})
	}
	q.limit = message.Limit
	for _, name := range slices.Sorted(maps.Keys(query)) {
		value := query.Get(name)
		switch name {
		case "after":
			q.after = value
		case "before":
			if q.before = value; follow && value != "" {
				fault(name, "must not be given with Accept: text/event-stream, which only goes forward", value)
			}
		case "account":
			q.filter.Account = value
		case "kind":
			q.filter.Kind = value
		case "type":
			q.filter.Type = value
		case "limit":
			n, err := strconv.Atoi(value)
			if err != nil || n < 1 || n > message.MaxLimit {
				fault(name, fmt.Sprintf("must be 1 to %d", message.MaxLimit), value)
			}
			q.limit = n
		default:
			faults = append(faults, &huma.ErrorDetail{Location: "query." + name, Message: "unknown query parameter"})
		}
	}
	if q.before != "" && q.after != "" {
		fault("before", "must not be given together with after", q.before)
	}
	return q, faults
}

// listMessages replies with one page of messages.
func (s *Server) listMessages(w http.ResponseWriter, r *http.Request, position message.Position, q messagesQuery) {
	begin, list := s.messages.Forward, MessageList{Messages: []Message{}}
	if q.before != "" {
		begin, list.End = s.messages.Backward, position.String()
	}
	walk, err := begin(position, q.filter)
	if err == nil {
		err = s.fill(r.Context(), &list, walk, q)
	}
	if err != nil {
		s.fail(w, r, "get messages", err)
		return
	}
	next := walk.Position()
	list.Next = next.String()
	writeJSON(w, list)
}

// fill reads on until the list has as many messages as the query asks for, or there are no more.
// Where the filter or the key's labels leave messages out, it also ends after passedMost messages
// or passedBytes of their data.
func (s *Server) fill(ctx context.Context, list *MessageList, walk *message.Walk, q messagesQuery) error {
	everything := boundTo(ctx) == "" && !q.filter.Some()
	for looked, size := 0, 0; looked < passedMost && size < passedBytes; {
		page := q.limit - len(list.Messages)
		if !everything {
			page = max(page, passedPage)
		}
		found, err := walk.Next(ctx, page)
		if err != nil {
			return err
		}
		if list.Messages, err = s.pass(ctx, walk, found, list.Messages, q.limit); err != nil {
			return err
		}
		looked += len(found)
		if everything && q.before == "" && len(list.Messages) == looked {
			return nil // a page to which everything belongs needs no second read, and More stays false
		}
		list.More = len(found) > 0
		if !list.More || len(list.Messages) >= q.limit {
			return nil
		}
		for i := range found {
			size += len(found[i].Message.Data)
		}
	}
	return nil
}

// pass moves a walk past found messages until limit of them are shown, and returns the shown ones.
func (s *Server) pass(ctx context.Context, walk *message.Walk, found []circulate.Found, shown []Message, limit int) ([]Message, error) {
	visible, err := s.visible(ctx, found)
	if err != nil {
		return nil, err
	}
	before := len(shown)
	var carry []*circulate.Found
	for i := 0; i < len(found) && len(shown) < limit; i++ {
		selected, err := walk.Pass(&found[i])
		if err != nil {
			return nil, err
		}
		if selected && visible(&found[i]) {
			shown = append(shown, messageOf(&found[i]))
			carry = append(carry, &found[i])
		}
	}
	all := make([]carrying, len(carry))
	for i, f := range carry {
		all[i] = carrying{found: f, into: &shown[before+i]}
	}
	return shown, s.tellFiles(ctx, all...)
}

// MessageDelivery is the state of a message in a consumer group.
type MessageDelivery struct {
	Group      string  `json:"group"`
	Webhook    string  `json:"webhook,omitempty" doc:"The webhook endpoint that has this group."`
	State      string  `json:"state" enum:"unread,pending,done,skipped,dead" doc:"unread: the group has not read it. pending: it was read and is not acknowledged. done: it is acknowledged, or is older than the group. skipped: it was replayed for another group. dead: it is a dead letter."`
	Deliveries int     `json:"deliveries,omitempty" doc:"How often it was delivered, if it is pending or dead."`
	Consumer   string  `json:"consumer,omitempty" doc:"The consumer that has it, if it is pending."`
	Idle       float64 `json:"idle_seconds,omitempty" doc:"The time since its last delivery, if it is pending."`
	DeadID     string  `json:"dead_id,omitempty" doc:"The id of the dead letter."`
	Error      string  `json:"error,omitempty" doc:"The error of its last delivery, if it is dead."`
}

// DeliveredMessage is a message and its state in each consumer group.
type DeliveredMessage struct {
	Message
	Written    time.Time         `json:"written" doc:"When it was written, by Redis' clock."`
	Deliveries []MessageDelivery `json:"delivery,omitempty" doc:"By consumer group. Left out for a key that is bound to labels."`
	Uncertain  bool              `json:"uncertain,omitempty" doc:"There are too many dead letters to look at all: a message whose state is done may be one of them."`
}

// MessageRef is the message in a path.
type MessageRef struct {
	Ref string `path:"ref" maxLength:"64" example:"12:1767225600000-0" doc:"SHARD:POSITION of the message, as the fields shard and position have it."`
}

// messageRoutes adds the route of a single message.
func (s *Server) messageRoutes(api huma.API) {
	answer(s, api, "get message", huma.Operation{
		OperationID: "get-message", Method: http.MethodGet, Path: "/v1/messages/{ref}", Tags: []string{"messages"},
		Summary:     "Get a message, and its state in each consumer group",
		Description: "A message that is read and not acknowledged is pending, and one that a group could not handle is dead. A key that is bound to labels gets only the message.",
		Errors:      []int{401, 404, 422, 503},
	}, s.getMessage)
}

func (s *Server) getMessage(ctx context.Context, r *MessageRef) (DeliveredMessage, error) {
	shard, position, err := message.ParseRef(r.Ref)
	if err != nil {
		return DeliveredMessage{}, invalid("path.ref", err.Error())
	}
	d, err := s.messages.Delivered(ctx, shard, position)
	if err != nil {
		return DeliveredMessage{}, err
	}
	visible, err := s.visible(ctx, []circulate.Found{d.Found})
	if err == nil && !visible(&d.Found) {
		err = message.ErrNoMessage
	}
	if err != nil {
		return DeliveredMessage{}, err
	}
	reply := DeliveredMessage{Message: messageOf(&d.Found), Written: inUTC(position.Time())}
	if err := s.tellFiles(ctx, carrying{found: &d.Found, into: &reply.Message}); err != nil {
		return DeliveredMessage{}, err
	}
	if boundTo(ctx) == "" {
		reply.Uncertain = !d.Complete
		for _, at := range d.Deliveries {
			reply.Deliveries = append(reply.Deliveries, MessageDelivery{
				Group: at.Group, Webhook: at.Webhook, State: at.Stage, Deliveries: at.Deliveries, Consumer: at.Consumer,
				Idle: at.Idle.Seconds(), DeadID: at.DeadID, Error: at.Error,
			})
		}
	}
	return reply, nil
}

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
	more, err := f.read(ctx)
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
	if err := f.follow(ctx, more); err != nil && ctx.Err() == nil {
		_ = s.errorReply(ctx, "follow messages", err) // it logs the error; the caller gets it when it reconnects
	}
}

// follow sends events until ctx is done or the caller has gone. more reports whether the next page
// may already be there.
func (f *follower) follow(ctx context.Context, more bool) error {
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
		if !more {
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
		if more, err = f.read(ctx); err != nil {
			return err
		}
	}
}

// read writes the next selected messages into the buffer as events, and reports whether there may
// already be more.
func (f *follower) read(ctx context.Context) (more bool, err error) {
	found, more, err := f.tail.Page(ctx)
	if err != nil {
		return false, err
	}
	f.position = f.position.Clone() // the opening event keeps the position from before
	visible, err := f.server.visible(ctx, found)
	if err != nil {
		return false, err
	}
	shown := make([]*Message, len(found)) // nil: the caller does not get it
	var all []carrying
	for i := range found {
		if visible(&found[i]) && f.filter.Selects(&found[i]) {
			m := messageOf(&found[i])
			shown[i] = &m
			all = append(all, carrying{found: &found[i], into: &m, linked: true})
		}
	}
	if err := f.server.tellFiles(ctx, all...); err != nil {
		return false, err
	}
	for i := range found {
		if err := f.position.Pass(&found[i]); err != nil {
			return false, err
		}
		if f.passed = shown[i] == nil; f.passed {
			continue
		}
		fmt.Fprintf(&f.buffer, "id: %s\ndata: ", f.position.String())
		e := json.NewEncoder(&f.buffer) // it ends the line
		e.SetEscapeHTML(false)
		if err := e.Encode(shown[i]); err != nil {
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
