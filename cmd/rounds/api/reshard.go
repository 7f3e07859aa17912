package api

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/cmd/rounds/trail"
)

// Resharding says how far a change of the number of shards has got.
type Resharding struct {
	Phase    circulate.Phase `json:"phase" enum:"steady,moving,draining" doc:"steady: no change is under way; moving: accounts move to the new shards; draining: all accounts have moved, and the old shards still have messages."`
	From     int             `json:"from" doc:"How many shards there were."`
	To       int             `json:"to" doc:"How many shards there will be."`
	Accounts int             `json:"accounts" doc:"Registered accounts."`
	Left     int             `json:"left" doc:"Accounts that have not moved yet."`
	Transit  int             `json:"in_transit" doc:"Batches of accounts that are moving right now."`
	Kept     int             `json:"unconfirmed" doc:"Batches that have arrived, and that the old shards still have a copy of for some seconds."`
	Messages int             `json:"old_messages" doc:"Messages in the old shards. They are delivered from there."`
	Behind   []string        `json:"replicas_behind" nullable:"false" doc:"Replicas that do not know the new shards yet. No account moves before they do."`

	Dropped   int  `json:"dropped_messages,omitempty" doc:"In the reply that removed the old shards: the messages in them that were dropped."`
	NoMonitor bool `json:"no_monitor,omitempty" doc:"No monitor is alive. Nothing moves until one is."`

	Room []Room `json:"room,omitempty" doc:"In a dry run: the memory that each Redis server with a limit needs and has."`
}

// Room is the memory that a change of the number of shards needs on a Redis server.
type Room struct {
	Node string `json:"node,omitempty" doc:"The server's address, in a cluster."`
	Need int64  `json:"need_bytes" doc:"About the most memory that moving the accounts takes."`
	Free int64  `json:"free_bytes" doc:"The memory that is left below the server's limit."`
}

// ReshardRequest asks for another number of shards.
type ReshardRequest struct {
	_      struct{} `additionalProperties:"false"` // a misspelt dry_run must not start a real change
	Shards int      `json:"shards" minimum:"1" maximum:"16384" doc:"The new number of shards."`
	DryRun bool     `json:"dry_run,omitempty" doc:"Only say what the change would do."`
	Force  bool     `json:"force,omitempty" doc:"Begin even if Redis seems to have too little memory below its limit."`
}

// reshardRoutes adds the routes that change the number of shards.
func (s *Server) reshardRoutes(api huma.API) {
	answer(s, api, "reshard", huma.Operation{
		OperationID: "get-resharding", Method: http.MethodGet, Path: "/v1/reshard", Tags: []string{"service"},
		Summary: "How far a change of the number of shards has got", Errors: []int{401, 503},
	}, func(ctx context.Context, _ *struct{}) (Resharding, error) {
		return s.resharding(ctx)
	})
	answer(s, api, "reshard", huma.Operation{
		OperationID: "reshard", Method: http.MethodPost, Path: "/v1/reshard", Tags: []string{"service"},
		Summary: "Change the number of shards",
		Description: "The monitors move the accounts while the service runs. The reply only says that the change has begun. Repeating the request is safe. " +
			"409, also for a dry run, while another change is under way, or if Redis has too little memory below its limit. force begins it even with too little memory.",
		Errors: []int{401, 409, 422, 503},
	}, func(ctx context.Context, r *struct{ Body ReshardRequest }) (Resharding, error) {
		trail.Of(ctx).Count("shards", r.Body.Shards)
		if now := s.change(ctx); r.Body.DryRun || now.To == r.Body.Shards {
			trail.Of(ctx).LookOnly() // it changes nothing
		}
		done, err := s.registry(ctx).Reshard(ctx, r.Body.Shards, s.options.DeadAfter,
			accounts.ReshardOptions{Dry: r.Body.DryRun, Force: r.Body.Force})
		return s.reshardingOf(ctx, done, err)
	})
	answer(s, api, "abort resharding", huma.Operation{
		OperationID: "abort-resharding", Method: http.MethodPost, Path: "/v1/reshard:abort", Tags: []string{"service"},
		Summary: "Abort a change of the number of shards",
		Description: "It works until the first account moves, which is the point of no return. Then everything is as before, and another change may begin. Repeating the request is safe. " +
			"409 once accounts have begun to move: the change can only go on, and the number can be changed back once it is complete.",
		Errors: []int{401, 409, 503},
	}, func(ctx context.Context, _ *struct{}) (Resharding, error) {
		err := s.registry(ctx).AbortResharding(ctx)
		if errors.Is(err, accounts.ErrNoReturn) {
			err = s.underWay(ctx, "accounts have moved, which is the point of no return")
		}
		if err != nil {
			return Resharding{}, err
		}
		return s.resharding(ctx)
	})
	answer(s, api, "finish resharding", huma.Operation{
		OperationID: "finish-resharding", Method: http.MethodPost, Path: "/v1/reshard:finish", Tags: []string{"service"},
		Summary: "Remove the old shards now",
		Description: "It works once all accounts have moved. Messages in the old shards that every consumer group has handled are dropped. Without this request that happens when their retention is over. " +
			"409 while accounts are moving, or a group has messages to handle there. Dead letters move to the new shards.",
		Errors: []int{401, 409, 503},
	}, func(ctx context.Context, _ *struct{}) (Resharding, error) {
		before, err := s.registry(ctx).Resharding(ctx, s.options.DeadAfter)
		if err != nil {
			return Resharding{}, err
		}
		over, err := s.registry(ctx).FinishResharding(ctx)
		if err == nil && !over {
			err = s.underWay(ctx, "the old shards are still needed")
		}
		if err != nil {
			return Resharding{}, err
		}
		reply, err := s.resharding(ctx)
		if before.Phase != circulate.Steady {
			reply.Dropped = before.Messages
		}
		return reply, err
	})
}

// change returns the change of the number of shards that is under way, if there is one and Redis
// answers.
func (s *Server) change(ctx context.Context) circulate.Resharding {
	now, err := s.options.Ring.Mover().State(ctx)
	if err != nil {
		return circulate.Resharding{}
	}
	return now
}

// underWay returns the refusal of an order that the running change of the number of shards does not
// allow. It says how far the change has got, and what ends it.
func (s *Server) underWay(ctx context.Context, refused string) *errorReply {
	done, err := s.registry(ctx).Resharding(ctx, s.options.DeadAfter)
	if err != nil {
		return s.errorReply(ctx, "reshard", err)
	}
	what := fmt.Sprintf("%s: the number of shards changes from %d to %d", refused, done.From, done.To)
	switch {
	case done.Phase == circulate.Steady: // the change ended just now
		return newErrorReply(http.StatusConflict, refused+": a change of the number of shards ended at this moment; try again")
	case done.Phase == circulate.Moving && done.Left == done.Accounts && done.Transit+done.Kept == 0:
		what += ", and no account has moved. `rounds reshard --abort` (POST /v1/reshard:abort) ends that, and everything is as before"
	case done.Phase == circulate.Moving:
		what += ", and accounts are moving, which cannot be aborted. `rounds reshard` shows how far they are"
	default:
		what += fmt.Sprintf(". All accounts have moved, and %d messages are left in the old shards until their retention is over. ", done.Messages)
		left, err := s.registry(ctx).Undrained(ctx)
		if err != nil {
			return s.errorReply(ctx, "reshard", err)
		}
		if len(left) == 0 {
			what += "`rounds reshard --finish` (POST /v1/reshard:finish) drops them now"
			break
		}
		var groups []string
		for _, group := range slices.Sorted(maps.Keys(left)) {
			groups = append(groups, fmt.Sprintf("%s (%d)", group, left[group]))
		}
		what += "Consumer groups have messages to handle there: " + strings.Join(groups, ", ") +
			". Let them catch up, or remove those that nobody needs (`rounds groups rm`); then `rounds reshard --finish` (POST /v1/reshard:finish) drops the rest"
	}
	return newErrorReply(http.StatusConflict, what)
}

// resharding says how far a change of the number of shards has got.
func (s *Server) resharding(ctx context.Context) (Resharding, error) {
	done, err := s.registry(ctx).Resharding(ctx, s.options.DeadAfter)
	return s.reshardingOf(ctx, done, err)
}

func (s *Server) reshardingOf(ctx context.Context, done accounts.Resharding, err error) (Resharding, error) {
	if errors.Is(err, accounts.ErrResharding) {
		return Resharding{}, s.underWay(ctx, "another change of the number of shards is not over")
	}
	if errors.Is(err, accounts.ErrNoRoom) {
		return Resharding{}, newErrorReply(http.StatusConflict, err.Error()+", or force it")
	}
	if err != nil {
		return Resharding{}, s.errorReply(ctx, "reshard", err)
	}
	reply := Resharding{
		Phase: done.Phase, From: done.From, To: done.To, Accounts: done.Accounts, Left: done.Left,
		Transit: done.Transit, Kept: done.Kept, Messages: done.Messages, Behind: append([]string{}, done.Behind...), NoMonitor: done.NoMonitor,
	}
	for _, server := range done.Room {
		reply.Room = append(reply.Room, Room(server))
	}
	return reply, nil
}
