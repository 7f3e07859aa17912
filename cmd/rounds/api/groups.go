package api

import (
	"context"
	"errors"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rounds-dev/rounds/cmd/rounds/message"
)

// Group is a consumer group, and how far it has read.
type Group struct {
	Name          string   `json:"name"`
	Lag           int      `json:"lag" doc:"Messages that it has not read."`
	Pending       int      `json:"pending" doc:"Messages that it has read but not acknowledged."`
	OldestUnread  float64  `json:"oldest_unread_seconds" doc:"The age of the oldest message that it has not read."`
	OldestPending float64  `json:"oldest_pending_seconds" doc:"The age of the oldest message that it has not acknowledged."`
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
	Acknowledge []string `json:"acknowledge,omitempty" maxItems:"1000" doc:"Handles of messages that were handled."`
	Limit       int      `json:"limit,omitempty" minimum:"1" maximum:"1000" default:"100" doc:"The most messages to return."`
	Wait        string   `json:"wait,omitempty" example:"10s" default:"0s" doc:"The longest wait for a first message, at most 10s."`
	Leave       bool     `json:"leave,omitempty" doc:"Stop reading. Other consumers get unacknowledged messages at once."`
}

// GroupMessage is a message that was delivered to a consumer.
type GroupMessage struct {
	Handle   string `json:"handle" doc:"The handle for acknowledging it."`
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
		Name: g.Name, Lag: g.Lag, Pending: g.Pending, OldestUnread: g.OldestUnread.Seconds(), OldestPending: g.OldestPending.Seconds(),
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
	return GroupBatch{Consumer: batch.Consumer, Acknowledged: batch.Acknowledged, Messages: each(batch.Messages, groupMessageOf)}, nil
}

func groupMessageOf(m *message.GroupMessage) GroupMessage {
	return GroupMessage{Handle: m.ID, Delivery: m.Delivery, Message: messageOf(&m.Found)}
}
