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
	// searchesMost is how many searches of messages a process makes at once.
	searchesMost = 4
	// searchWait is how long a search looks unless the caller says otherwise, and searchWaitMost
	// the most that it may say. A search that streams looks until its page is full.
	searchWait     = 2 * time.Second
	searchWaitMost = 10 * time.Second
	// searchPage is how many messages are looked at at once.
	searchPage = 500
	// searchTells is how often a search that streams says how far it is.
	searchTells = 250 * time.Millisecond
	// searchTextMost is the most bytes of a text that is searched for.
	searchTextMost = 1024
)

// SearchProgress says how far a search of messages is.
type SearchProgress struct {
	Looked  int       `json:"looked,omitempty" doc:"How many stored messages and events this request has looked at. Left out for a key that is bound to labels."`
	Of      int       `json:"of,omitempty" doc:"How many are stored where it looks. Left out for a key that is bound to labels."`
	Reached time.Time `json:"reached,omitzero" doc:"It has looked at all that was found since then, or since this time and before to."`
	Next    string    `json:"next,omitempty" doc:"The before with which to go on. Left out: there is nothing more to look at."`
}

// MessageSearch is a page of messages that a search found.
type MessageSearch struct {
	Messages []Message `json:"messages" nullable:"false"`
	SearchProgress
}

// searchQuery says what a caller searches for.
type searchQuery struct {
	text, sender string // folded
	filter       message.Filter
	from, to     time.Time
	ago, until   time.Duration // in place of from and to
	before       string
	limit        int
	wait         time.Duration
}

func readSearchQuery(query url.Values) (q searchQuery, faults []*huma.ErrorDetail) {
	q.limit, q.wait = message.Limit, searchWait
	for _, name := range slices.Sorted(maps.Keys(query)) {
		value := query.Get(name)
		var err error
		switch name {
		case "text":
			q.text, err = searched(value)
		case "sender":
			q.sender, err = searched(value)
		case "account":
			q.filter.Account = value
		case "kind":
			q.filter.Kind = value
		case "type":
			q.filter.Type = value
		case "from":
			q.from, q.ago, err = pointInTime(value)
		case "to":
			q.to, q.until, err = pointInTime(value)
		case "before":
			q.before = value
		case "limit":
			if q.limit, err = strconv.Atoi(value); err != nil || q.limit < 1 || q.limit > message.MaxLimit {
				err = fmt.Errorf("must be 1 to %d", message.MaxLimit)
			}
		case "wait":
			if q.wait, err = lasting(value); err == nil && q.wait > searchWaitMost {
				err = fmt.Errorf("must be at most %v", searchWaitMost)
			}
		default:
			err = errors.New("unknown query parameter")
		}
		if err != nil {
			faults = append(faults, &huma.ErrorDetail{Location: "query." + name, Message: err.Error(), Value: value})
		}
	}
	return q, faults
}

func searched(text string) (string, error) {
	if len(text) > searchTextMost {
		return "", fmt.Errorf("must be at most %d bytes", searchTextMost)
	}
	return message.Folded(text), nil
}

// searching is a search under way.
type searching struct {
	server *Server
	query  searchQuery
	search *message.Search
	peers  map[string]Sending // by kind

	ahead []circulate.Found // that were read and not looked at, because the page was full

	bound bool
	at    SearchProgress
	ended bool
}

// searchMessages looks through the stored messages, the newest first. It answers when its page is
// full or the caller has waited for long enough. To a caller that accepts server-sent events it sends
// what it finds, and how far it is, until the page is full.
func (s *Server) searchMessages(w http.ResponseWriter, r *http.Request) {
	w.Header().Add("Vary", "Accept")
	stream := strings.Contains(strings.Join(r.Header.Values("Accept"), ","), "text/event-stream")
	q, faults := readSearchQuery(r.URL.Query())
	location := "query.before"
	if last := r.Header.Get("Last-Event-ID"); stream && last != "" {
		q.before, location = last, "header.Last-Event-ID"
	}
	if len(faults) > 0 {
		newErrorReply(http.StatusUnprocessableEntity, "validation failed", faults...).write(w, r)
		return
	}
	if s.searching.Add(1) > searchesMost {
		s.searching.Add(-1)
		unavailable(fmt.Sprintf("%d searches are under way here, and no more may: try again in a moment", searchesMost)).write(w, r)
		return
	}
	defer s.searching.Add(-1)
	ctx, end := s.stream(r)
	defer end()
	found, err := s.beginSearch(ctx, q)
	switch {
	case errors.Is(err, accounts.ErrCursor):
		newErrorReply(http.StatusUnprocessableEntity, "validation failed", badCursor(location, err).Errors...).write(w, r)
	case err != nil:
		s.errorReply(ctx, "search messages", err).write(w, r)
	case stream:
		found.stream(ctx, w, r)
	default:
		found.reply(ctx, w, r)
	}
}

// beginSearch returns a search that has looked at nothing yet.
func (s *Server) beginSearch(ctx context.Context, q searchQuery) (*searching, error) {
	if q.ago > 0 || q.until > 0 {
		now, err := s.options.Ring.Now(ctx, 0)
		if err != nil {
			return nil, err
		}
		if q.ago > 0 {
			q.from = now.Add(-q.ago)
		}
		if q.until > 0 {
			q.to = now.Add(-q.until)
		}
	}
	var position message.Position
	var err error
	switch {
	case q.before != "":
		position, err = s.messages.Position(ctx, q.before)
	case !q.to.IsZero():
		position = s.messages.WrittenBefore(q.to)
	default:
		position, err = s.messages.Position(ctx, message.FromNow)
	}
	if err != nil {
		return nil, err
	}
	search, err := s.messages.Search(position, q.filter.Account, q.from)
	if err != nil {
		return nil, err
	}
	found := &searching{server: s, query: q, search: search, peers: make(map[string]Sending), bound: boundTo(ctx) != ""}
	if !found.bound {
		found.at.Of, err = search.Stored(ctx)
	}
	return found, err
}

// read looks at the next messages, and returns those that match, at most limit. No more is read once
// the search has ended.
func (f *searching) read(ctx context.Context, limit int) ([]Message, error) {
	next := f.ahead
	if len(next) == 0 {
		var err error
		if next, err = f.search.Next(ctx, searchPage); err != nil {
			return nil, err
		}
	}
	f.ended = len(next) == 0
	var matching []circulate.Found
	looked := 0
	for i := range next {
		looked++
		if err := f.search.Pass(&next[i]); err != nil {
			return nil, err
		}
		if f.matches(&next[i]) {
			if matching = append(matching, next[i]); len(matching) == limit {
				break
			}
		}
	}
	f.ahead = next[looked:]
	if looked > 0 {
		id, err := circulate.ParseStreamID(next[looked-1].Position)
		if err != nil {
			return nil, err
		}
		f.at.Reached = inUTC(id.Time())
		if !f.bound {
			f.at.Looked += looked
		}
	}
	visible, err := f.server.visible(ctx, matching)
	if err != nil {
		return nil, err
	}
	var shown []Message
	var carry []*circulate.Found
	for i := range matching {
		if visible(&matching[i]) {
			shown, carry = append(shown, messageOf(&matching[i])), append(carry, &matching[i])
		}
	}
	all := make([]carrying, len(carry))
	for i, one := range carry {
		all[i] = carrying{found: one, into: &shown[i]}
	}
	return shown, f.server.tellFiles(ctx, all...)
}

func (f *searching) matches(m *circulate.Found) bool {
	q := &f.query
	return q.filter.Selects(m) && (q.text == "" || message.HasText(m.Message.Data, q.text)) && (q.sender == "" || f.isFrom(m))
}

// isFrom reports whether the sender has the part that is searched for: the peer for whom an answer
// would be, or what the data names as its sender.
func (f *searching) isFrom(m *circulate.Found) bool {
	if message.NamesSender(m.Message.Data, f.query.sender) {
		return true
	}
	sending, known := f.peers[m.Kind]
	if !known {
		if f.server.options.Sending != nil {
			// A kind names the peer of a message without the account's config.
			sending = f.server.options.Sending(m.Kind, nil)
		}
		f.peers[m.Kind] = sending
	}
	return sending.Prepare != nil && strings.Contains(message.Folded(sending.peerOf(&m.Message)), f.query.sender)
}

// progress returns how far the search is.
func (f *searching) progress() SearchProgress {
	if f.ended {
		f.at.Next = ""
		return f.at
	}
	position := f.search.Position()
	f.at.Next = position.String()
	return f.at
}

// reply answers with one page.
func (f *searching) reply(ctx context.Context, w http.ResponseWriter, r *http.Request) {
	page, began := MessageSearch{Messages: []Message{}}, time.Now()
	for size := 0; !f.ended && len(page.Messages) < f.query.limit && size < passedBytes; {
		found, err := f.read(ctx, f.query.limit-len(page.Messages))
		if err != nil {
			f.server.errorReply(ctx, "search messages", err).write(w, r)
			return
		}
		for i := range found {
			size += len(found[i].Data)
		}
		if page.Messages = append(page.Messages, found...); time.Since(began) >= f.query.wait {
			break
		}
	}
	page.SearchProgress = f.progress()
	writeJSON(w, page)
}

// stream sends events: each message that is found, progress now and then, and at last end, which has
// the progress too. Each id is the place from which the search goes on.
func (f *searching) stream(ctx context.Context, w http.ResponseWriter, r *http.Request) {
	out := &patientWriter{out: w, connection: http.NewResponseController(w)}
	_ = out.connection.SetReadDeadline(time.Time{}) // nothing more is read, and a read deadline must not end the stream
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // otherwise nginx holds back events
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return
	}
	buffer := bytes.NewBufferString("retry: 1000\n\n")
	shown, told := 0, time.Time{}
	for {
		found, err := f.read(ctx, f.query.limit-shown)
		if err != nil {
			if ctx.Err() == nil {
				_ = f.server.errorReply(ctx, "search messages", err) // it logs the error; the caller goes on from the last id
			}
			return
		}
		shown += len(found)
		over := f.ended || shown >= f.query.limit
		if !over && len(found) == 0 && time.Since(told) < searchTells {
			continue
		}
		at := f.progress()
		for i := range found {
			writeEvent(buffer, "", "", found[i])
		}
		name := "progress"
		if over {
			name = "end"
		}
		position := f.search.Position()
		writeEvent(buffer, name, position.String(), at)
		if _, err := out.Write(buffer.Bytes()); err != nil {
			return // the caller has gone
		}
		if err := out.connection.Flush(); err != nil || over {
			return
		}
		buffer.Reset()
		told = time.Now()
	}
}

func writeEvent(buffer *bytes.Buffer, name, id string, data any) {
	if name != "" {
		fmt.Fprintf(buffer, "event: %s\n", name)
	}
	if id != "" {
		fmt.Fprintf(buffer, "id: %s\n", id)
	}
	buffer.WriteString("data: ")
	e := json.NewEncoder(buffer) // it ends the line
	e.SetEscapeHTML(false)
	if e.Encode(data) != nil { // it is made of what Redis has as valid JSON
		buffer.WriteString("{}\n")
	}
	buffer.WriteByte('\n')
}
