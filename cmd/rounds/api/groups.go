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

// Group is a consumer group, and how far it has read.
type Group struct {
	Name          string   `json:"name"`
	Lag           int      `json:"lag" doc:"Messages that it has not read."`
	Pending       int      `json:"pending" doc:"Messages that it has read but not acknowledged."`
	OldestUnread  float64  `json:"oldest_unread_seconds" doc:"The age of the oldest message that it has not read."`
	OldestPending float64  `json:"oldest_pending_seconds" doc:"The age of the oldest message that it has not acknowledged."`
	Events        bool     `json:"events,omitempty" doc:"It asks for events beside messages."`
	Consumers     []string `json:"consumers" nullable:"false" doc:"Its living consumers."`

	Members []GroupMember `json:"members" nullable:"false" doc:"The same consumers, with what each is doing."`
}

// GroupMember is a living consumer of a group.
type GroupMember struct {
	Name          string  `json:"name"`
	Silent        float64 `json:"silent_seconds" doc:"The time since its last sign of life."`
	Shards        int     `json:"shards" doc:"The number of shards that it reads now."`
	Pending       int     `json:"pending" doc:"Messages of these shards that are read but not acknowledged."`
	OldestPending float64 `json:"oldest_pending_seconds" doc:"The age of the oldest of these messages."`
	Error         string  `json:"error,omitempty" doc:"Why messages wait for it: the last error of its handler."`
}

// GroupList is all consumer groups.
type GroupList struct {
	Groups []Group `json:"groups" nullable:"false"`
}

// GroupReadRequest is one round of a group's consumer.
type GroupReadRequest struct {
	_           struct{} `additionalProperties:"false"`
	Consumer    string   `json:"consumer,omitempty" doc:"The consumer's name, ten random letters or digits. Leave it out in the first round: the reply has a name."`
	From        string   `json:"from,omitempty" enum:"start,now" doc:"Create the group if it is new, and begin with the oldest stored message (start) or with the next one (now). Left out: the group must exist."`
	Events      bool     `json:"events,omitempty" doc:"With from: the group also gets events from now on, which say what becomes of sends. With from and without events it gets none."`
	Acknowledge []string `json:"acknowledge,omitempty" maxItems:"1000" doc:"Handles of messages that were handled."`
	Limit       int      `json:"limit,omitempty" minimum:"1" maximum:"1000" default:"100" doc:"The most messages to return."`
	Wait        string   `json:"wait,omitempty" example:"10s" default:"0s" doc:"The longest wait for a first message, at most 10s."`
	Leave       bool     `json:"leave,omitempty" doc:"Stop reading. Other consumers get unacknowledged messages at once."`
}

// GroupMessage is a message that was delivered to a consumer.
type GroupMessage struct {
	Handle   string `json:"handle" doc:"The handle for acknowledging it, and for reply_to of a send."`
	Delivery int    `json:"delivery" doc:"1 for the first delivery, and one more for each later one."`
	Message
}

// GroupBatch is the result of a round.
type GroupBatch struct {
	Consumer     string         `json:"consumer" doc:"The consumer's name, for the next round."`
	Acknowledged int            `json:"acknowledged" doc:"The number of acknowledged messages that were pending."`
	Messages     []GroupMessage `json:"messages" nullable:"false"`
}

// GroupName is the consumer group in a path.
type GroupName struct {
	Name string `path:"name" pattern:"^[A-Za-z0-9_.-]{1,64}$" doc:"The group's name."`
}

// groupRoutes adds the routes of consumer groups.
func (s *Server) groupRoutes(api huma.API) {
	answer(s, api, "list groups", huma.Operation{
		OperationID: "list-groups", Method: http.MethodGet, Path: "/v1/groups", Tags: []string{"delivery"},
		Summary: "List consumer groups and how far they have read", Errors: []int{401, 503},
	}, s.listGroups)
	register(s, api, "remove group", huma.Operation{
		OperationID: "delete-group", Method: http.MethodDelete, Path: "/v1/groups/{name}", Tags: []string{"delivery"},
		Summary: "Remove a consumer group", Description: "With its position and its pending messages. Its dead letters stay. 409 while its consumers are running.",
		Errors: []int{401, 404, 409, 503},
	}, s.deleteGroup)
	answer(s, api, "read group", takesBody(huma.Operation{
		OperationID: "read-group", Method: http.MethodPost, Path: "/v1/groups/{name}/read", Tags: []string{"delivery"},
		Summary: "Read messages as a consumer of a group",
		Description: "A round: it acknowledges the messages that the consumer has handled, and returns more. A consumer has one round at a time, and must begin the next within 15 s. " +
			"Messages that it has not acknowledged by then are delivered again, to it or to another consumer. Messages of an account come in order. " +
			"Repeating a round whose reply was lost is safe.",
		Errors: []int{400, 401, 404, 413, 422, 503},
	}), s.readGroup)
}

func groupOf(g *message.Group) Group {
	out := Group{
		Name: g.Name, Lag: g.Lag, Pending: g.Pending, OldestUnread: g.OldestUnread.Seconds(), OldestPending: g.OldestPending.Seconds(), Events: g.Events,
		Consumers: make([]string, len(g.Consumers)), Members: make([]GroupMember, len(g.Consumers)),
	}
	for i, c := range g.Consumers {
		out.Consumers[i] = c.Name
		out.Members[i] = GroupMember{Name: c.Name, Silent: c.Silent.Seconds(), Shards: c.Shards, Pending: c.Pending, OldestPending: c.OldestPending.Seconds(), Error: c.Error}
	}
	return out
}

func (s *Server) listGroups(ctx context.Context, _ *struct{}) (GroupList, error) {
	groups, err := s.messages.Groups(ctx)
	return GroupList{each(groups, groupOf)}, err
}

func (s *Server) deleteGroup(ctx context.Context, r *GroupName) (*struct{}, error) {
	return nil, s.messages.RemoveGroup(ctx, r.Name)
}

type groupReadInput struct {
	GroupName
	RawBody []byte `contentType:"application/json"`
}

func (s *Server) readGroup(ctx context.Context, r *groupReadInput) (GroupBatch, error) {
	round, err := message.DecodeGroupRead(r.RawBody)
	if err != nil {
		return GroupBatch{}, err
	}
	ctx, end := s.lasting(ctx)
	defer end()
	batch, err := s.messages.ReadGroup(ctx, r.Name, round)
	if errors.Is(err, message.ErrNoGroup) {
		return GroupBatch{}, newErrorReply(http.StatusNotFound, "there is no such consumer group; from, as in {\"from\": \"start\"}, creates it")
	}
	if err != nil {
		return GroupBatch{}, s.errorReply(ctx, "read group", err) // of this context, which may have ended with the server
	}
	reply := GroupBatch{Consumer: batch.Consumer, Acknowledged: batch.Acknowledged, Messages: each(batch.Messages, groupMessageOf)}
	all := make([]carrying, len(batch.Messages))
	for i := range batch.Messages {
		all[i] = carrying{found: &batch.Messages[i].Found, into: &reply.Messages[i].Message, linked: true}
	}
	if err := s.tellFiles(ctx, all...); err != nil {
		return GroupBatch{}, s.errorReply(ctx, "read group", err) // the messages are delivered again
	}
	return reply, nil
}

func groupMessageOf(m *message.GroupMessage) GroupMessage {
	return GroupMessage{Handle: m.ID, Delivery: m.Delivery, Message: messageOf(&m.Found)}
}

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
	if err == nil {
		err = s.tellDeadFiles(ctx, page.Letters, list.Dead)
	}
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
	reply := []DeadLetter{deadLetterOf(&letter)}
	if err == nil {
		err = s.tellDeadFiles(ctx, []message.DeadLetter{letter}, reply)
	}
	return reply[0], err
}

// tellDeadFiles tells the files of dead letters. Their messages may have gone from the streams.
func (s *Server) tellDeadFiles(ctx context.Context, letters []message.DeadLetter, shown []DeadLetter) error {
	all := make([]carrying, len(letters))
	for i := range letters {
		all[i] = carrying{found: &letters[i].Found, into: &shown[i].Message, at: "/v1/dead/" + letters[i].ID + "/files"}
	}
	return s.tellFiles(ctx, all...)
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
