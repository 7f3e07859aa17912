package api

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/accounts/message"
)

// passedPages is the most pages that a request reads for a caller that may see few of the
// messages.
const passedPages = 10

// getMessages returns a page of found messages. To a caller that accepts server-sent events it
// sends all messages as they come.
func (s *Server) getMessages(w http.ResponseWriter, r *http.Request) {
	w.Header().Add("Vary", "Accept")
	follow := strings.Contains(strings.Join(r.Header.Values("Accept"), ","), "text/event-stream")
	after, limit, faults := messagesQuery(r.URL.Query())
	location := "query.after"
	if last := r.Header.Get("Last-Event-ID"); follow && last != "" {
		after, location = last, "header.Last-Event-ID"
	}
	position, err := s.messages.Position(r.Context(), after)
	if errors.Is(err, accounts.ErrCursor) {
		faults = append(faults, badCursor(location, err).Errors...)
		err = nil
	}
	switch {
	case len(faults) > 0:
		newProblem(http.StatusUnprocessableEntity, "validation failed", faults...).write(w)
	case err != nil:
		s.fail(w, r, "get messages", err)
	case follow:
		s.followMessages(w, r, position)
	default:
		s.listMessages(w, r, position, limit)
	}
}

func messagesQuery(query url.Values) (after string, limit int, faults []*huma.ErrorDetail) {
	limit = message.Limit
	for _, name := range slices.Sorted(maps.Keys(query)) {
		value := query.Get(name)
		switch name {
		case "after":
			after = value
		case "limit":
			n, err := strconv.Atoi(value)
			if err != nil || n < 1 || n > message.MaxLimit {
				faults = append(faults, &huma.ErrorDetail{
					Location: "query.limit", Message: fmt.Sprintf("must be 1 to %d", message.MaxLimit), Value: value,
				})
			}
			limit = n
		default:
			faults = append(faults, &huma.ErrorDetail{Location: "query." + name, Message: "unknown query parameter"})
		}
	}
	return after, limit, faults
}

func (s *Server) listMessages(w http.ResponseWriter, r *http.Request, position message.Position, limit int) {
	ctx := r.Context()
	list := MessageList{Messages: []Message{}, More: boundTo(ctx) != ""}
	for range passedPages {
		found, err := s.messages.Messages(ctx, position, limit-len(list.Messages))
		if err != nil {
			s.fail(w, r, "get messages", err)
			return
		}
		shown, err := s.visible(ctx, found)
		if err != nil {
			s.fail(w, r, "get messages", err)
			return
		}
		for i := range found {
			if err := position.Pass(&found[i]); err != nil {
				s.fail(w, r, "get messages", err)
				return
			}
		}
		for i := range shown {
			list.Messages = append(list.Messages, messageOf(&shown[i]))
		}
		if len(found) == 0 {
			list.More = false
		}
		if !list.More || len(list.Messages) >= limit {
			break
		}
	}
	list.Next = position.String()
	writeJSON(w, list)
}
