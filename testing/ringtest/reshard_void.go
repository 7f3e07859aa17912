package ringtest

import (
	"context"

	"github.com/rounds-dev/rounds/circulate"
)

// reshardVoid moves an account that waits under a void entry and, behind it, under
// its current one, as an account does that was changed while it waited.
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
