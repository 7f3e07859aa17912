package api

import (
	"context"
	"errors"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/cmd/rounds/message"
	"github.com/rounds-dev/rounds/cmd/rounds/trail"
)

// DeadLetter is a message that a consumer group could not handle.
type DeadLetter struct {
	DeadID     string `json:"dead_id" doc:"The id for replaying or dropping it."`
	Group      string `json:"group" doc:"The consumer group that could not handle it."`
	Error      string `json:"error" doc:"The failure of its last delivery."`
	Deliveries int    `json:"deliveries" doc:"How often it was delivered."`
	Origin     string `json:"origin" doc:"Its earlier position in the shard's stream of messages. The field position is its position among the dead letters."`
	Message
}

// DeadList is a page of dead letters.
type DeadList struct {
	Dead []DeadLetter `json:"dead" nullable:"false"`
	Next string       `json:"next,omitempty" doc:"The cursor of the next page; left out on the last one. A page may be short, even empty, and not be the last."`

	Total *int `json:"total,omitempty" doc:"All dead letters, of all groups; only on the first page."`
}

// ReplayRequest says which dead letters to deliver again.
type ReplayRequest struct {
	_      struct{} `additionalProperties:"false"`
	IDs    []string `json:"ids,omitempty" maxItems:"1000" doc:"The dead letters with these ids. Either ids or group is needed."`
	Group  string   `json:"group,omitempty" doc:"All dead letters that this consumer group has now."`
	Cursor string   `json:"cursor,omitempty" doc:"The previous reply's next, with the same group."`
}

// DropRequest says which dead letters to remove.
type DropRequest struct {
	_      struct{} `additionalProperties:"false"`
	IDs    []string `json:"ids,omitempty" maxItems:"1000" doc:"The dead letters with these ids. Either ids or group is needed."`
	Group  string   `json:"group,omitempty" doc:"All dead letters that this consumer group has now."`
	Cursor string   `json:"cursor,omitempty" doc:"The previous reply's next, with the same group."`
}

// Replayed is the result of a replay.
type Replayed struct {
	Replayed int    `json:"replayed" doc:"Letters that are now at the end of their streams again, for the group that could not handle them."`
	NotFound int    `json:"not_found" doc:"Ids that no dead letter has, or has any more."`
	NoGroup  int    `json:"no_group" doc:"Letters that stay dead, because their group does not exist."`
	Next     string `json:"next,omitempty" doc:"The cursor for the next request; left out when the replay is complete."`
}

// Dropped is the result of a drop.
type Dropped struct {
	Dropped  int    `json:"dropped"`
	NotFound int    `json:"not_found" doc:"Ids that no dead letter has, or has any more."`
	Next     string `json:"next,omitempty" doc:"The cursor for the next request; left out when all are dropped."`
}

type deadRequest struct {
	Limit  int    `query:"limit" default:"100" minimum:"1" maximum:"1000" doc:"The most letters on the page."`
	Cursor string `query:"cursor" doc:"The previous page's next."`
	Group  string `query:"group" doc:"Only letters of this consumer group."`
}

// deadRoutes adds the routes of dead letters.
func (s *Server) deadRoutes(api huma.API) {
	answer(s, api, "list dead letters", huma.Operation{
		OperationID: "list-dead", Method: http.MethodGet, Path: "/v1/dead", Tags: []string{"delivery"},
		Summary: "List dead letters", Description: "Messages that a consumer group could not handle, a page at a time, shard by shard, the oldest first.",
		Errors: []int{401, 422, 503},
	}, s.listDead)
	answer(s, api, "get dead letter", huma.Operation{
		OperationID: "get-dead", Method: http.MethodGet, Path: "/v1/dead/{id}", Tags: []string{"delivery"},
		Summary: "Get a dead letter", Errors: []int{401, 404, 422, 503},
	}, s.getDead)
	answer(s, api, "replay dead letters", takesBody(huma.Operation{
		OperationID: "replay-dead", Method: http.MethodPost, Path: "/v1/dead:replay", Tags: []string{"delivery"},
		Summary: "Deliver dead letters again",
		Description: "The named ones, or all that a group has now. They are put at the end of their streams, for the group that could not handle them. " +
			"If the reply has a next, ask again with it. Repeating a request is safe.",
		Errors: []int{400, 401, 413, 422, 503},
	}), s.replayDead)
	answer(s, api, "drop dead letters", takesBody(huma.Operation{
		OperationID: "drop-dead", Method: http.MethodPost, Path: "/v1/dead:drop", Tags: []string{"delivery"},
		Summary: "Remove dead letters", Description: "The named ones, or all that a group has now, for good. If the reply has a next, ask again with it. Repeating a request is safe.",
		Errors: []int{400, 401, 413, 422, 503},
	}), s.dropDead)
}

func (s *Server) listDead(ctx context.Context, r *deadRequest) (DeadList, error) {
	page, err := s.messages.Dead(ctx, message.DeadQuery{Limit: r.Limit, Cursor: r.Cursor, Group: r.Group})
	list := DeadList{Dead: each(page.Letters, deadLetterOf), Next: page.Next}
	if err == nil && r.Cursor == "" {
		var total int
		total, err = s.messages.DeadCount(ctx)
		list.Total = &total
	}
	return list, err
}

func deadLetterOf(l *message.DeadLetter) DeadLetter {
	return DeadLetter{DeadID: l.ID, Group: l.Group, Error: l.Error, Deliveries: l.Deliveries, Origin: l.Origin, Message: messageOf(&l.Found)}
}

func (s *Server) getDead(ctx context.Context, r *struct {
	ID string `path:"id" maxLength:"64" example:"12:1767225600000-0" doc:"The letter's dead_id."`
}) (DeadLetter, error) {
	letter, err := s.messages.DeadLetter(ctx, r.ID)
	if faults, ok := errors.AsType[accounts.Faults](err); ok {
		return DeadLetter{}, invalid("path.id", faults[0].Reason)
	}
	return deadLetterOf(&letter), err
}

func (s *Server) replayDead(ctx context.Context, r *bodyInput) (Replayed, error) {
	choice, err := message.DecodeDeadChoice(r.RawBody)
	if err != nil {
		return Replayed{}, err
	}
	draft := trail.Of(ctx)
	draft.Subject("dead letters", choice.Group)
	var done message.Replayed
	if choice.Group != "" {
		done, err = s.messages.ReplayGroup(ctx, choice.Group, choice.Cursor)
	} else {
		done, err = s.messages.ReplayDead(ctx, choice.IDs)
	}
	if err != nil {
		return Replayed{}, inBody(err)
	}
	draft.Counts(map[string]int{"replayed": done.Replayed, "not_found": done.NotFound, "no_group": done.NoGroup})
	return Replayed{Replayed: done.Replayed, NotFound: done.NotFound, NoGroup: done.NoGroup, Next: done.Next}, nil
}

func (s *Server) dropDead(ctx context.Context, r *bodyInput) (Dropped, error) {
	choice, err := message.DecodeDeadChoice(r.RawBody)
	if err != nil {
		return Dropped{}, err
	}
	var reply Dropped
	if choice.Group != "" {
		var done message.Dropped
		done, err = s.messages.DropGroup(ctx, choice.Group, choice.Cursor)
		reply = Dropped{Dropped: done.Dropped, Next: done.Next}
	} else {
		reply.Dropped, err = s.messages.DropDead(ctx, choice.IDs)
		reply.NotFound = max(0, len(choice.IDs)-reply.Dropped)
	}
	draft := trail.Of(ctx)
	if err == nil || reply.Dropped > 0 {
		draft.Subject("dead letters", choice.Group)
		draft.Count("dropped", reply.Dropped)
	}
	if err != nil {
		return Dropped{}, inBody(err)
	}
	draft.Count("not_found", reply.NotFound)
	return reply, nil
}
