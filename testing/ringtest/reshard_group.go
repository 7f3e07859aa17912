package ringtest

import (
	"context"
	"fmt"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/group"
)

// reshardFromNow makes groups that begin from now while accounts move. No message may be
// missed that is found after a group was made in any shard.
func reshardFromNow(fx *fixture) {
	f, ctx := newResharding(fx, fromShards, toShards), context.Background()
	f.registerAll(f.old, []string{"a"})
	ring := f.begin()
	if err := moveAll(ring); err != nil {
		f.Fatal(err)
	}
	home := 0
	find := func(id string) {
		f.Helper()
		c := f.claimOf(ring, alice)["a"]
		home = c.Shard
		f.give(ring, circulate.Written, circulate.Return{Claim: c, Messages: []circulate.Message{message(id)}})
	}
	join := func(r *circulate.Ring, crew string) {
		f.Helper()
		for shard := r.Shards() - 1; shard >= 0; shard-- {
			if _, err := r.Streams().EnsureGroup(ctx, shard, crew, circulate.StreamEnd); err != nil {
				f.Fatal(err)
			}
		}
	}
	find("before")
	join(ring, "knows")
	join(f.old, "learns") // it knows the old shards only
	find("after")
	join(ring, "learns")
	join(ring, "knows")
	read := func(crew string) []string {
		f.Helper()
		lease, _, err := group.Of(ring).Member(crew, alice, time.Minute).Lease(ctx, home)
		if err != nil || lease == nil {
			f.Fatalf("lease of shard %d: %v, %v", home, lease, err)
		}
		batch, err := group.Of(ring).Read(ctx, lease, 10, 1<<20, false)
		if err != nil {
			f.Fatal(err)
		}
		var found []string
		for _, m := range batch.Messages {
			found = append(found, m.Message.ID)
		}
		return found
	}
	if got := fmt.Sprint(read("knows")); got != "[after]" {
		f.Errorf("a group that was made in all shards read %s", got)
	}
	if got := fmt.Sprint(read("learns")); got != "[before after]" {
		f.Errorf("a group that was made in the old shards read %s, want all of the new one", got)
	}
}

// reshardVoid moves an account that waits under a void entry and, behind it, under its
// current one. That happens if the account is changed while it waits.
func reshardVoid(fx *fixture) {
	f, ctx := newResharding(fx, 1, 2), context.Background()
	f.registerAll(f.old, []string{"changed", "claimed"})
	c := f.claimOf(f.old, alice)
	f.give(f.old, circulate.Written, circulate.Return{Claim: c["claimed"]})
	f.give(f.old, circulate.Written, circulate.Return{Claim: c["changed"]})
	outcomes, err := f.old.Upsert(ctx, 0, []circulate.Registration{{ID: "changed", Record: []byte("another")}})
	if err != nil || outcomes[0] != circulate.Updated {
		f.Fatalf("upsert: %c, %v", outcomes, err)
	}
	b, err := f.old.Claim(ctx, 0, alice, 1, 0)
	if err != nil || len(b.Claims) != 1 || b.Claims[0].ID != "claimed" {
		f.Fatalf("claim: %+v, %v", b.Claims, err)
	}
	if n := f.number("LLEN", f.oldKey("changed", "message_queue")); n != 2 {
		f.Fatalf("%d entries wait, want the void and the current one", n)
	}

	ring := f.begin()
	if err := moveAll(ring); err != nil {
		f.Fatal(err)
	}
	f.lawful(ring, 2)
	if left, err := ring.Mover().Remaining(ctx, 0); err != nil || left.Accounts != 1 {
		f.Errorf("left are %+v, %v; want only the claimed account", left, err)
	}
	f.give(f.old, circulate.Written, circulate.Return{Claim: &b.Claims[0]})
	f.lawful(f.finish(ring), 2)
}
