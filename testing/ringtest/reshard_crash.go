package ringtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/group"
)

// errCut is what a process sees of Redis when it is about to end.
var errCut = errors.New("cut")

// cutting is a server whose connections die for good at some command, before it is done
// or after it with the reply lost.
type cutting struct {
	circulate.Server
	left  int // commands until then
	after bool
}

// Conn lends a connection.
func (s *cutting) Conn(ctx context.Context, key string) (redis.Conn, error) {
	conn, err := s.Server.Conn(ctx, key)
	if err != nil {
		return nil, err
	}
	return &cutConn{conn.(redis.ConnWithTimeout), s}, nil
}

type cutConn struct {
	redis.ConnWithTimeout
	server *cutting
}

func (c *cutConn) DoWithTimeout(timeout time.Duration, name string, args ...any) (any, error) {
	c.server.left--
	if c.server.left < 0 || c.server.left == 0 && !c.server.after {
		return nil, errCut
	}
	reply, err := c.ConnWithTimeout.DoWithTimeout(timeout, name, args...)
	if c.server.left == 0 {
		return nil, errCut
	}
	return reply, err
}

// Send counts too. Commands that are sent together are done together.
func (c *cutConn) Flush() error {
	c.server.left--
	if c.server.left <= 0 {
		return errCut
	}
	return c.ConnWithTimeout.Flush()
}

// reshardCrashes stops the mover at each of its commands in turn, and has another one
// continue.
func reshardCrashes(fx *fixture) {
	ctx := context.Background()
	base := fx.ns
	for _, after := range []bool{false, true} {
		for at := 1; ; at++ {
			fx.ns = fmt.Sprintf("%s.%d.%v", base[:min(len(base), 40)], at, after)
			f := newResharding(fx, 2, 3)
			all := ids(3)
			f.registerAll(f.old, all)
			ring := f.begin()
			broken := &cutting{Server: f.server, left: 1000}
			mover := f.open(broken, 0)
			broken.left, broken.after = at, after
			failed := moveAll(mover)
			if failed == nil {
				failed = func() error { _, err := mover.Mover().FinishMove(ctx); return err }()
			}
			for _, id := range all {
				f.see(ring, id) // found, and moved on if it was on its way
			}
			f.lawful(f.finish(ring), len(all))
			if failed == nil {
				f.Logf("%d commands", at)
				break
			}
			if !errors.Is(failed, errCut) {
				f.Fatalf("cut at %d: %v", at, failed)
			}
		}
	}
}

// reshardOnce repeats steps of a move late. No account may arrive twice, and none may
// come back that was deregistered.
func reshardOnce(fx *fixture) {
	f, ctx := newResharding(fx, fromShards, toShards), context.Background()
	all := ids(20)
	f.registerAll(f.old, all)
	ring := f.begin()
	if err := moveAll(ring); err != nil {
		f.Fatal(err)
	}
	for _, id := range all[:10] {
		if n, err := ring.Deregister(ctx, ring.ShardOf(id), []string{id}); err != nil || n != 1 {
			f.Fatal(n, err)
		}
	}
	claims := f.claimOf(ring, alice)
	if len(claims) != 10 {
		f.Fatalf("%d were claimed, want 10", len(claims))
	}
	for source := range f.from {
		f.onTheirWay(source)
		if n, err := ring.Mover().Complete(ctx, source); err != nil || n != 0 {
			f.Errorf("%d came again, %v", n, err)
		}
	}
	f.lawful(ring, 10)
	for _, c := range claims {
		f.give(ring, circulate.Written, circulate.Return{Claim: c, Due: soon(c)})
	}

	// After the end a repetition is refused.
	source := f.old.ShardOf(all[19])
	key := fmt.Sprintf("{%s:%d}:", f.ns, source)
	late := f.strings("HGETALL", key+"departed")
	f.lawful(f.finish(ring), 10)
	for i := 0; i+1 < len(late); i += 2 {
		f.do("HSET", key+"departures", late[i], late[i+1][14:])
	}
	if n, err := ring.Mover().Complete(ctx, source); err == nil {
		f.Errorf("%d came after the end", n)
	}
	if err := ring.Mover().Receive(ctx); err == nil {
		f.Error("new shards take accounts from others after the end")
	}
	f.lawful(f.open(f.server, 0), 10)
}

// reshardLosses has Redis forget its last writes, on either side.
func reshardLosses(fx *fixture) {
	f, ctx := newResharding(fx, fromShards, toShards), context.Background()
	all := ids(20)
	f.registerAll(f.old, all)
	ring := f.begin()
	source := f.old.ShardOf(all[0])
	// The old shard, as a replica still has it.
	tickets, records := f.strings("HGETALL", f.oldKey(all[0], "tickets")), f.strings("HGETALL", f.oldKey(all[0], "accounts"))
	if err := moveAll(ring); err != nil {
		f.Fatal(err)
	}
	f.lawful(ring, len(all))

	// A new shard loses all that arrived in it.
	lost := ring.Shards() - 1
	for _, name := range []string{"tickets", "schedule", "accounts", "arrivals", "ticket_seq"} {
		f.do("DEL", ring.Tag(lost)+":"+name)
	}
	if err := ring.Mover().Receive(ctx); err != nil {
		f.Fatal(err)
	}
	f.confirmAll(ring)
	f.lawful(ring, len(all))

	// An old shard is again what it was before.
	for i := 0; i+1 < len(tickets); i += 2 {
		f.do("HSET", f.oldKey(all[0], "tickets"), tickets[i], tickets[i+1])
		f.do("ZADD", f.oldKey(all[0], "schedule"), 1, tickets[i])
		f.do("HSET", f.oldKey(all[0], "accounts"), records[i], records[i+1])
	}
	f.do("DEL", f.oldKey(all[0], "departed"))
	left, err := ring.Mover().Remaining(ctx, source)
	if err != nil || left.Accounts == 0 {
		f.Fatalf("%+v, %v", left, err)
	}
	f.lawful(f.finish(ring), len(all))
}

// reshardGate expects that a shard is not claimed from while its accounts are moved, and
// not for longer.
func reshardGate(fx *fixture) {
	f, ctx := newResharding(fx, fromShards, toShards), context.Background()
	f.registerAll(f.old, []string{"a"})
	c := f.claimOf(f.old, alice)["a"]
	ring := f.begin()
	if moved, left, err := ring.Mover().Move(ctx, c.Shard); err != nil || moved != 0 || left != 1 {
		f.Fatalf("%d moved, %d left, %v", moved, left, err)
	}
	f.give(f.old, circulate.Written, circulate.Return{Claim: c}) // at once again: the tight ring
	b, err := f.old.Claim(ctx, c.Shard, alice, 1, 0)
	if err != nil || len(b.Claims) > 0 || b.NextDue.Before(b.Now) || b.NextDue.Sub(b.Now) > circulate.MoveGate {
		f.Fatalf("claimed: %+v, %v", b, err)
	}
	f.do("SET", f.oldKey("a", "leaving"), "0000000000001")
	c = f.claimOf(f.old, alice)["a"]
	if c == nil {
		f.Fatal("it is not claimed after the gate's time")
	}
	f.give(f.old, circulate.Written, circulate.Return{Claim: c})
	f.lawful(f.finish(ring), 1)
}

// reshardOrder expects a group to read an account's messages in order.
func reshardOrder(fx *fixture) {
	const crew = "readers"
	f, ctx := newResharding(fx, fromShards, toShards), context.Background()
	f.registerAll(f.old, []string{"a"})
	if _, err := f.old.Streams().EnsureGroup(ctx, f.old.ShardOf("a"), crew, circulate.StreamStart); err != nil {
		f.Fatal(err)
	}
	c := f.claimOf(f.old, alice)["a"]
	f.give(f.old, circulate.Written, circulate.Return{Claim: c, Messages: []circulate.Message{message("1")}})
	ring := f.begin()
	for _, source := range ring.Mover().Sequence() {
		if _, _, err := ring.Mover().Move(ctx, source); err != nil {
			f.Fatal(err)
		}
	}
	c = f.claimOf(ring, alice)["a"]
	f.give(ring, circulate.Written, circulate.Return{Claim: c, Messages: []circulate.Message{message("2")}})
	if c.Shard < ring.Sources() {
		f.Fatal("it has not moved")
	}
	if l, after, err := group.Of(ring).Member(crew, alice, time.Minute).Lease(ctx, c.Shard); l != nil || after <= 0 || err != nil {
		f.Fatalf("the new shard is read before the old one: %v, %v", l, err)
	}
	read := func(shard int) []string {
		l, _, err := group.Of(ring).Member(crew, alice, time.Minute).Lease(ctx, shard)
		if err != nil || l == nil {
			f.Fatalf("lease of shard %d: %v, %v", shard, l, err)
		}
		batch, err := group.Of(ring).Read(ctx, l, 10, 1<<20, false)
		if err != nil {
			f.Fatal(err)
		}
		var found, positions []string
		for _, m := range batch.Messages {
			found, positions = append(found, m.Message.ID), append(positions, m.Position)
		}
		if l, _, _ := group.Of(ring).Member(crew, alice, time.Minute).Lease(ctx, c.Shard); l != nil && shard < ring.Sources() {
			f.Error("the new shard is read before the old one's messages are acknowledged")
		}
		if _, err := group.Of(ring).Acknowledge(ctx, shard, crew, positions); err != nil {
			f.Fatal(err)
		}
		return found
	}
	if got := fmt.Sprint(read(f.old.ShardOf("a")), read(c.Shard)); got != "[1] [2]" {
		f.Errorf("read %s", got)
	}
	if done, err := ring.Mover().Drained(ctx, false); done || err != nil {
		f.Errorf("drained while accounts move: %v", err)
	}
}

// reshardWalk does steps of all kinds in random order while accounts move, by old rings
// and new ones, and by movers that stop anywhere.
func reshardWalk(fx *fixture) {
	f, ctx := newResharding(fx, fromShards, toShards), context.Background()
	random := rand.New(rand.NewPCG(7, 11))
	all := ids(25)
	there := make(map[string]bool)
	ring := f.begin()
	rings := []*circulate.Ring{f.old, ring}
	var held []*circulate.Claim
	for n := range 500 {
		id, r := all[random.IntN(len(all))], rings[random.IntN(2)]
		shard := r.ShardOf(id)
		var err error
		switch random.IntN(10) {
		case 0, 1:
			var o []circulate.Registered
			if o, err = r.Upsert(ctx, shard, []circulate.Registration{{ID: id, Record: fmt.Append(nil, n)}}); err == nil {
				if (o[0] == circulate.Created) == there[id] {
					f.Fatalf("step %d: upsert of %q: %c", n, id, o)
				}
				there[id] = true
			}
		case 2:
			var n int
			if n, err = r.Deregister(ctx, shard, []string{id}); err == nil {
				if (n == 1) != there[id] {
					f.Fatalf("deregister of %q: %d", id, n)
				}
				delete(there, id)
			}
		case 3:
			_, err = r.Park(ctx, shard, circulate.ReasonPaused, []string{id})
		case 4:
			err = r.Account(id).Resume(ctx, circulate.Resumption{})
		case 5:
			err = r.Account(id).Nudge(ctx, circulate.Nudge{})
		case 6:
			if n%3 == 0 {
				f.do("SET", f.oldKey(id, "leaving"), "0000000000001", "XX")
			}
			for _, c := range f.claimOf(r, alice) {
				held = append(held, c)
			}
		case 7:
			for len(held) > 0 {
				c := held[0]
				held = held[1:]
				if _, err := ring.Return(ctx, c.Shard, []circulate.Return{{Claim: c, Due: c.Due.Add(time.Duration(random.IntN(2)) * time.Hour)}}); err != nil {
					f.Fatal(err)
				}
			}
		case 8:
			if n > 100 { // at first nothing moves
				broken := &cutting{Server: f.server, left: 1000}
				mover := f.open(broken, 0)
				broken.left, broken.after = 1+random.IntN(20), random.IntN(2) == 0
				_, _, err = mover.Mover().Move(ctx, random.IntN(f.from))
			}
		case 9:
			views, err := ring.Look(ctx, ring.ShardOf(id), []string{id})
			if err != nil || (len(views) == 1) != there[id] {
				f.Fatalf("step %d: %q: %v, %v, want %v", n, id, views, err, there[id])
			}
		}
		switch {
		case err == nil, errors.Is(err, circulate.ErrNotRegistered), errors.Is(err, circulate.ErrParked), errors.Is(err, errCut):
		case errors.Is(err, circulate.ErrResharding) && r == f.old:
		default:
			f.Fatalf("step %d: %v", n, err)
		}
	}
	for _, c := range held {
		if _, err := ring.Return(ctx, c.Shard, []circulate.Return{{Claim: c}}); err != nil {
			f.Fatal(err)
		}
	}
	f.lawful(f.finish(ring), len(there))
}
