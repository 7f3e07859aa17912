package api

import (
	"context"
	"errors"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/accounts/trail"
	"github.com/rounds-dev/rounds/circulate"
)

// Resharding is how far a change of the number of shards has come.
type Resharding struct {
	Phase    circulate.Phase `json:"phase" enum:"steady,moving,draining" doc:"steady: none is under way; moving: accounts go to the new shards; draining: all have moved, and messages are left in the old ones."`
	From     int             `json:"from" doc:"How many shards there were."`
	To       int             `json:"to" doc:"How many there will be."`
	Accounts int             `json:"accounts" doc:"Registered accounts."`
	Left     int             `json:"left" doc:"Accounts that have not moved yet."`
	Transit  int             `json:"in_transit" doc:"Batches of accounts that are on their way this moment."`
	Kept     int             `json:"unconfirmed" doc:"Batches that have arrived and are kept in their old shards for some seconds more."`
	Messages int             `json:"old_messages" doc:"Messages in the old shards. They are delivered from there."`
	Behind   []string        `json:"replicas_behind" nullable:"false" doc:"Replicas that do not know the new shards yet: no account moves before they do."`
	Room     []Room          `json:"room,omitempty" doc:"Of a dry run: the room that each Redis server with a limit of memory needs and has."`
}

// Room is what a change of the number of shards needs of a Redis server.
type Room struct {
	Node string `json:"node,omitempty" doc:"The server's address, in a cluster."`
	Need int64  `json:"need_bytes" doc:"What moving the accounts takes at most, about."`
	Free int64  `json:"free_bytes" doc:"What the server has left below its limit of memory."`
}

// ReshardRequest asks for another number of shards.
type ReshardRequest struct {
	_      struct{} `additionalProperties:"false"` // a dry run that is misspelt must not be the real one
	Shards int      `json:"shards" minimum:"1" maximum:"16384" doc:"How many shards there are to be."`
	DryRun bool     `json:"dry_run,omitempty" doc:"Only tell what there would be to do."`
	Force  bool     `json:"force,omitempty" doc:"Begin even where Redis seems to have too little memory below its limit."`
}

type reshardingReply struct{ Body Resharding }

// reshardRoutes are those that change the number of shards.
func (s *Server) reshardRoutes(api huma.API) {
	huma.Register(api, huma.Operation{
		OperationID: "get-resharding", Method: http.MethodGet, Path: "/v1/reshard", Tags: []string{"service"},
		Summary: "How far a change of the number of shards has come", Errors: []int{401, 503},
	}, func(ctx context.Context, _ *struct{}) (*reshardingReply, error) {
		done, err := s.registry(ctx).Resharding(ctx, s.options.DeadAfter)
		return s.resharding(ctx, done, err)
	})
	huma.Register(api, huma.Operation{
		OperationID: "reshard", Method: http.MethodPost, Path: "/v1/reshard", Tags: []string{"service"},
		Summary: "Change the number of shards",
		Description: "The monitors do it while the service goes on: the reply tells only that it has begun. To ask again is safe. " +
			"409 where a change to another number is not over, or Redis has too little memory below its limit for it: force begins it all the same.",
		Errors: []int{401, 409, 422, 503},
	}, func(ctx context.Context, r *struct{ Body ReshardRequest }) (*reshardingReply, error) {
		trail.Of(ctx).Count("shards", r.Body.Shards)
		if r.Body.DryRun {
			trail.Of(ctx).LookOnly()
		}
		done, err := s.registry(ctx).Reshard(ctx, r.Body.Shards, s.options.DeadAfter,
			accounts.ReshardOptions{Dry: r.Body.DryRun, Force: r.Body.Force})
		return s.resharding(ctx, done, err)
	})
	huma.Register(api, huma.Operation{
		OperationID: "abort-resharding", Method: http.MethodPost, Path: "/v1/reshard:abort", Tags: []string{"service"},
		Summary: "Give up a change of the number of shards",
		Description: "Before the first account moves: that is the point of no return. All is as it was before, and another change may begin. To ask again is safe. " +
			"409 where accounts have begun to move: then the change can only go on, and the number be changed back once it is over.",
		Errors: []int{401, 409, 503},
	}, func(ctx context.Context, _ *struct{}) (*reshardingReply, error) {
		err := s.registry(ctx).AbortResharding(ctx)
		if errors.Is(err, accounts.ErrNoReturn) {
			return nil, newProblem(http.StatusConflict, "accounts have begun to move, which is the point of no return: let the change go on, and change the number back once it is over")
		}
		if err != nil {
			return nil, s.problem(ctx, "abort resharding", err)
		}
		done, err := s.registry(ctx).Resharding(ctx, s.options.DeadAfter)
		return s.resharding(ctx, done, err)
	})
	huma.Register(api, huma.Operation{
		OperationID: "finish-resharding", Method: http.MethodPost, Path: "/v1/reshard:finish", Tags: []string{"service"},
		Summary: "Forget the old shards now",
		Description: "Once all accounts have moved. Messages in the old shards go that every consumer group has handled; otherwise that happens when their retention is over. " +
			"409 where accounts are still moving, or a group has messages to handle there. Dead letters are carried to the new ones.",
		Errors: []int{401, 409, 503},
	}, func(ctx context.Context, _ *struct{}) (*reshardingReply, error) {
		over, err := s.registry(ctx).FinishResharding(ctx)
		if err == nil && !over {
			return nil, newProblem(http.StatusConflict, "the old shards are still needed: accounts are moving, or a consumer group has messages to handle there")
		}
		if err != nil {
			return nil, s.problem(ctx, "finish resharding", err)
		}
		done, err := s.registry(ctx).Resharding(ctx, s.options.DeadAfter)
		return s.resharding(ctx, done, err)
	})
}

func (s *Server) resharding(ctx context.Context, done accounts.Resharding, err error) (*reshardingReply, error) {
	if errors.Is(err, accounts.ErrResharding) {
		return nil, newProblem(http.StatusConflict, "another change of the number of shards is not over: GET /v1/reshard tells of it")
	}
	if errors.Is(err, accounts.ErrNoRoom) {
		return nil, newProblem(http.StatusConflict, err.Error()+", or force it")
	}
	if err != nil {
		return nil, s.problem(ctx, "reshard", err)
	}
	reply := Resharding{
		Phase: done.Phase, From: done.From, To: done.To, Accounts: done.Accounts, Left: done.Left,
		Transit: done.Transit, Kept: done.Kept, Messages: done.Messages, Behind: done.Behind,
	}
	for _, server := range done.Room {
		reply.Room = append(reply.Room, Room(server))
	}
	if reply.Behind == nil {
		reply.Behind = []string{}
	}
	return &reshardingReply{reply}, nil
}
