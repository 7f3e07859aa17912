package api

import (
	"context"

	"github.com/rounds-dev/rounds/accounts/message"
)

// Group is a consumer group and how far it has got.
type Group struct {
	Name          string   `json:"name"`
	Lag           int      `json:"lag" doc:"Messages that it has not read."`
	Pending       int      `json:"pending" doc:"That it has read and not acknowledged."`
	OldestUnread  float64  `json:"oldest_unread_seconds" doc:"For how long the first waits that it has not read."`
	OldestPending float64  `json:"oldest_pending_seconds" doc:"How old the first is that it has not acknowledged."`
	Consumers     []string `json:"consumers" nullable:"false" doc:"That are alive."`
}

// GroupList is all consumer groups.
type GroupList struct {
	Groups []Group `json:"groups" nullable:"false"`
}

// GroupReadRequest is a turn of a consumer that reads a group.
type GroupReadRequest struct {
	_           struct{} `additionalProperties:"false"`
	Consumer    string   `json:"consumer,omitempty" doc:"Who asks: ten letters or digits, at random; left out with the first turn, the answer names one."`
	From        string   `json:"from,omitempty" enum:"start,now" doc:"Make the group if it is new, and begin with the oldest message that is kept, or with the next; left out: it must be there."`
	Acknowledge []string `json:"acknowledge,omitempty" maxItems:"1000" doc:"Ids of messages that were dealt with."`
	Limit       int      `json:"limit,omitempty" minimum:"1" maximum:"1000" default:"100" doc:"At most this many."`
	Wait        string   `json:"wait,omitempty" example:"10s" default:"0s" doc:"Wait so long for a first message, at most 10s."`
	Leave       bool     `json:"leave,omitempty" doc:"Nothing more; what is not acknowledged goes to other consumers at once."`
}

// GroupMessage is a message that a consumer was given.
type GroupMessage struct {
	Handle   string `json:"handle" doc:"To acknowledge it by."`
	Delivery int    `json:"delivery" doc:"1 at first; one more for each time that it was given before."`
	Message
}

// GroupBatch is what a turn brought.
type GroupBatch struct {
	Consumer     string         `json:"consumer" doc:"Who asked; to be sent with the next turn."`
	Acknowledged int            `json:"acknowledged" doc:"How many of those acknowledged were pending."`
	Messages     []GroupMessage `json:"messages" nullable:"false"`
}

// GroupName is the consumer group in a path.
type GroupName struct {
	Name string `path:"name" pattern:"^[A-Za-z0-9_.-]{1,64}$" doc:"The group's name."`
}

type groupsReply struct {
	Body GroupList
}

func groupOf(g *message.Group) Group {
	return Group{
		Name: g.Name, Lag: g.Lag, Pending: g.Pending, OldestUnread: g.OldestUnread.Seconds(), OldestPending: g.OldestPending.Seconds(),
		Consumers: append([]string{}, g.Consumers...),
	}
}

func (s *Server) listGroups(ctx context.Context, _ *struct{}) (*groupsReply, error) {
	groups, err := s.messages.Groups(ctx)
	if err != nil {
		return nil, s.problem(ctx, "list groups", err)
	}
	list := GroupList{Groups: make([]Group, len(groups))}
	for i := range groups {
		list.Groups[i] = groupOf(&groups[i])
	}
	return &groupsReply{list}, nil
}

func (s *Server) deleteGroup(ctx context.Context, r *GroupName) (*struct{}, error) {
	if err := s.messages.RemoveGroup(ctx, r.Name); err != nil {
		return nil, s.problem(ctx, "remove group", err)
	}
	return nil, nil
}

type groupReadInput struct {
	GroupName
	RawBody []byte `contentType:"application/json"`
}

type groupReadReply struct {
	Body GroupBatch
}

func (s *Server) readGroup(ctx context.Context, r *groupReadInput) (*groupReadReply, error) {
	turn, err := message.DecodeGroupRead(r.RawBody)
	if err != nil {
		return nil, s.problem(ctx, "read group", err)
	}
	ctx, end := s.lasting(ctx)
	defer end()
	batch, err := s.messages.ReadGroup(ctx, r.Name, turn)
	if err != nil {
		return nil, s.problem(ctx, "read group", err)
	}
	reply := GroupBatch{Consumer: batch.Consumer, Acknowledged: batch.Acknowledged, Messages: make([]GroupMessage, len(batch.Messages))}
	for i := range batch.Messages {
		m := &batch.Messages[i]
		reply.Messages[i] = GroupMessage{Handle: m.ID, Delivery: m.Delivery, Message: messageOf(&m.Found)}
	}
	return &groupReadReply{reply}, nil
}
