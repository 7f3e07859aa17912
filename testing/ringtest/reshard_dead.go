package ringtest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/group"
)

// reshardDead has dead letters carried to the new shards by a mover that stops at each of
// its commands in turn. All arrive, once and in order, and do not hold up the end.
func reshardDead(fx *fixture) {
	const crew = "readers"
	ctx, base := context.Background(), fx.ns
	for _, after := range []bool{false, true} {
		for at := 1; ; at++ {
			fx.ns = fmt.Sprintf("%s.%d.%v", base[:min(len(base), 40)], at, after)
			f := newResharding(fx, 1, 2)
			f.registerAll(f.old, []string{"a"})
			if _, err := f.old.Streams().EnsureGroup(ctx, 0, crew, circulate.StreamStart); err != nil {
				f.Fatal(err)
			}
			c := f.claimOf(f.old, alice)["a"]
			f.give(f.old, circulate.Written, circulate.Return{Claim: c, Due: soon(c), Messages: []circulate.Message{message("1"), message("2"), message("3")}})
			lease, _, err := group.Of(f.old).Member(crew, alice, time.Minute).Lease(ctx, 0)
			if err != nil || lease == nil {
				f.Fatal(lease, err)
			}
			batch, err := group.Of(f.old).Read(ctx, lease, 10, 1<<20, false)
			if err != nil || len(batch.Messages) != 3 {
				f.Fatal(batch, err)
			}
			for _, m := range batch.Messages {
				if dead, err := group.Of(f.old).Bury(ctx, lease, group.Pending{Position: m.Position, Deliveries: 8}, "refused"); err != nil || !dead {
					f.Fatal(dead, err)
				}
			}
			ring := f.begin()
			broken := &cutting{Server: f.server, left: 1000}
			carrier := f.open(broken, 0)
			broken.left, broken.after = at, after
			_, failed := carrier.Mover().CarryDead(ctx, 0)
			if failed != nil && !errors.Is(failed, errCut) {
				f.Fatalf("cut at %d: %v", at, failed)
			}
			f.lawful(f.finish(ring), 1)
			home := ring.Sources() + f.open(f.server, 0).ShardOf("a")
			letters, err := group.Of(ring).DeadLetters(ctx, home, circulate.StreamStart, 10)
			if err != nil {
				f.Fatal(err)
			}
			got := ""
			for _, l := range letters {
				got += fmt.Sprint(l.Account, l.Message.ID, l.Group, l.Error, l.Deliveries, " ")
			}
			if want := "a1readersrefused8 a2readersrefused8 a3readersrefused8 "; got != want {
				f.Fatalf("cut at %d: the dead letters are %q, want %q", at, got, want)
			}
			if failed == nil {
				break
			}
		}
	}
}

// Lines of the old shard are read until the change is complete.
func timelineReshard(f *fixture) {
	r := newResharding(f, 1, 2)
	f.tells(1000)
	r.registerAll(f.ring, ids(3))
	if err := f.ring.Account("account-001").Park(context.Background(), "before"); err != nil {
		f.Fatal(err)
	}
	r.begin()
	f.tells(1000)
	if err := f.ring.Account("account-001").Park(context.Background(), "at the beginning"); err != nil {
		f.Fatal(err)
	}
	for range 20 {
		if _, _, err := f.ring.Mover().Move(context.Background(), 0); err != nil {
			f.Fatal(err)
		}
	}
	if err := f.ring.Account("account-001").Park(context.Background(), "after"); err != nil {
		f.Fatal(err)
	}
	f.told("account-001", "parked 0 before", "parked 0 at the beginning", "parked 0 after")
}
