package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate"
)

// poller claims from any one of some shards, and does with each claim one of what a
// replica may do. It may also release what it holds there without knowing, as a replica
// does whose claim had an unknown outcome.
func poller(n int, shards, ways []int, kinds ...string) *program {
	name := "poller"
	if slices.Contains(ways, handOver) {
		name = "stranger"
	}
	return &program{name: name, named: true, run: func(a *actor) error {
		ctx := context.Background()
		a.shard = shards[a.choose(len(shards))]
		if a.pick(2) == 1 {
			return a.reclaim(ctx)
		}
		b, err := a.ring.Claim(ctx, a.shard, a.name, n, 0, kinds...)
		if circulate.Unknown(err) {
			return nil // what it may have claimed is left to the monitors, or to reclaim
		}
		if err != nil {
			return err
		}
		for i := range b.Claims {
			if err := a.hold(ctx, b.Claims[i:], ways); err != nil {
				return err
			}
		}
		return nil
	}}
}

// reclaim releases what is claimed under the replica's name, between two rounds. The replica
// knows of no claim then.
func (a *actor) reclaim(ctx context.Context) error {
	claimed, _, err := a.ring.Oldest(ctx, a.shard, 0, 8)
	if err != nil {
		return unless(circulate.Unknown(err), err)
	}
	claimed = slices.DeleteFunc(claimed, func(h circulate.ClaimedEntry) bool { return h.Entry.Replica != a.name })
	if len(claimed) == 0 {
		return nil
	}
	var texts []string
	for _, h := range claimed {
		texts = append(texts, h.Entry.String())
	}
	a.at(fmt.Sprint("reclaims ", a.shard), texts...)
	_, err = a.ring.ReleaseEntries(ctx, a.shard, claimed)
	return unless(circulate.Unknown(err), err)
}

// choose is pick if there is a choice.
func (a *actor) choose(n int) int {
	if n == 1 {
		return 0
	}
	return a.pick(n)
}

// The ways to continue with a claim.
const (
	returnNow = iota
	returnLater
	returnParked
	release
	progress
	handOver
)

func everyWay() []int { return []int{returnNow, returnLater, returnParked, release, progress} }

// hold continues with the first of some claims until it is not held any more.
func (a *actor) hold(ctx context.Context, claims []circulate.Claim, ways []int) error {
	c := &claims[0]
	for {
		var live []string
		for i := range claims {
			about := claims[i].ID + " " + claims[i].Ticket()
			if claims[i].Due.Before(frozen()) { // it is late: a release tells since when
				about += " late"
			}
			live = append(live, about)
		}
		a.at(fmt.Sprint("holds ", a.shard), live...)
		var err error
		switch ways[a.choose(len(ways))] {
		case returnNow:
			err = a.give(ctx, c, time.Time{})
		case returnLater:
			err = a.give(ctx, c, later())
		case returnParked:
			_, err = a.ring.Return(ctx, a.shard, []circulate.Return{{Claim: c, Rule: 'd', Mark: '?', Park: "gone"}})
		case release:
			_, err = a.ring.Release(ctx, a.shard, []*circulate.Claim{c})
		case handOver:
			_, err = a.ring.Kinds().HandOver(ctx, a.shard, []circulate.HandOver{{Claim: c, Kind: accountKind}})
		case progress:
			err = a.ring.Progress(ctx, c, circulate.Page{Kind: "k", Messages: found(c)})
			if err == nil {
				continue // there is more
			}
			if circulate.Unknown(err) || errors.Is(err, circulate.ErrClaimLost) {
				return nil
			}
		}
		if circulate.Unknown(err) {
			continue // it may be repeated, or something else may be tried
		}
		return err
	}
}

// found is the message that each check finds. Its id says under which ticket of which
// account.
func found(c *circulate.Claim) []circulate.Message {
	return []circulate.Message{{ID: c.Ticket() + ofAccount + c.ID}}
}

// give returns a claim whose check found one message.
func (a *actor) give(ctx context.Context, c *circulate.Claim, due time.Time) error {
	_, err := a.ring.Return(ctx, a.shard, []circulate.Return{{
		Claim: c, Due: due, Kind: "k", Rule: 'd', Mark: circulate.MarkOK,
		Messages: found(c),
	}})
	return err
}

// monitor looks at what is claimed in any one of some shards and takes any of it away. To
// it, every entry may be stale, which is more than any clock would allow. It may
// quarantine whatever it has requeued, however few the strikes: any number may be the
// limit.
func monitor(shards []int) *program {
	return &program{name: "monitor", eager: true, run: func(a *actor) error {
		ctx := context.Background()
		a.shard = shards[a.choose(len(shards))]
		entries, _, err := a.ring.Oldest(ctx, a.shard, 0, 8)
		if err != nil {
			return unless(circulate.Unknown(err), err)
		}
		i := a.pick(len(entries) + 1)
		if i == len(entries) {
			return nil
		}
		entry := entries[i].Entry.String()
		a.at(fmt.Sprint("suspects ", a.shard), entry)
		outcome, _, err := a.ring.Requeue(ctx, a.shard, entries[i])
		if err != nil || outcome != circulate.Moved || a.pick(2) == 0 {
			return unless(circulate.Unknown(err), err)
		}
		a.at(fmt.Sprint("quarantines ", a.shard), entry)
		_, err = a.ring.Quarantine(ctx, a.shard, entries[i], 0, "quarantine")
		return unless(circulate.Unknown(err), err)
	}}
}

func unless(known bool, err error) error {
	if known {
		return nil
	}
	return err
}

// transact runs commands in MULTI.
func (a *actor) transact(ctx context.Context, commands ...[]any) ([]any, error) {
	conn, err := a.server.Conn(ctx, "")
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	all := append(append([][]any{{"MULTI"}}, commands...), []any{"EXEC"})
	for _, c := range all {
		if err := conn.Send(c[0].(string), c[1:]...); err != nil {
			return nil, err
		}
	}
	var last any
	for range all {
		if last, err = conn.Receive(); err != nil {
			return nil, err
		}
	}
	return redis.Values(last, nil)
}

// surroundings are the clients that change what circulates. Each does one step at a time
// and remembers nothing, so it is always there and acts any number of times. Due is when the
// clock has an account due.
func surroundings(roles []string, accounts int, due time.Time) ([]*program, error) {
	var all []*program
	for _, role := range roles {
		step, ok := map[string]func(a *actor, id string) error{
			"registrar": registrar, "pauser": pauser, "nudger": nudger, "clock": clock(due), "recaller": recaller,
		}[role]
		if !ok {
			return nil, fmt.Errorf("role %q: must be registrar, pauser, nudger, clock or recaller", role)
		}
		all = append(all, &program{name: role, changes: role != "clock" && role != "recaller", run: func(a *actor) error {
			err := step(a, accountID(a.pick(accounts)))
			if errors.Is(err, circulate.ErrNotRegistered) || errors.Is(err, circulate.ErrParked) {
				return nil
			}
			return err
		}})
	}
	return all, nil
}

func accountID(i int) string { return fmt.Sprintf("account%d", i) }

func registrar(a *actor, id string) error {
	ctx := context.Background()
	var err error
	switch a.pick(3) {
	case 0:
		_, err = a.ring.Register(ctx, 0, []circulate.Registration{{ID: id, Record: []byte("after")}})
	case 1:
		_, err = a.ring.Upsert(ctx, 0, []circulate.Registration{{ID: id, Record: []byte("after")}})
	case 2:
		_, err = a.ring.Deregister(ctx, 0, []string{id})
	}
	return err
}

func pauser(a *actor, id string) error {
	if a.pick(2) == 0 {
		_, err := a.ring.Park(context.Background(), 0, circulate.ReasonPaused, []string{id})
		return err
	}
	return a.ring.Account(id).Resume(context.Background(), circulate.Resumption{})
}

func nudger(a *actor, id string) error {
	return a.ring.Account(id).Nudge(context.Background(), circulate.Nudge{})
}

// accountKind is the kind of every account; strangers check others.
const accountKind = "k"

// recaller has what waits by its kind wait for anybody, as a monitor does that believes
// nobody checks the kind, or has the kinds forgotten, as they are after a while.
func recaller(a *actor, _ string) error {
	ctx := context.Background()
	if a.pick(2) == 0 {
		_, err := a.ring.Kinds().Recall(ctx, 0, "", 8)
		return err
	}
	conn, err := a.server.Conn(ctx, "")
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = conn.Do("DEL", tag+"kinds")
	return err
}

// clock lets time pass until an account is due. That is a step of Redis too, because all
// other steps happen at one moment.
func clock(due time.Time) func(a *actor, id string) error {
	return func(a *actor, id string) error {
		conn, err := a.server.Conn(context.Background(), "")
		if err != nil {
			return err
		}
		defer conn.Close()
		_, err = conn.Do("ZADD", tag+"schedule", "XX", due.UnixMilli(), id)
		return err
	}
}
