package ringtest

import (
	"context"
	"errors"
	"fmt"

	"github.com/rounds-dev/rounds/circulate"
)

// reshardAbort aborts a change before any account has moved. All is as before, also for a
// process that comes late, and another change uses other shards.
func reshardAbort(fx *fixture) {
	f, ctx := newResharding(fx, fromShards, toShards), context.Background()
	all := ids(20)
	f.registerAll(f.old, all)
	late := f.begin()
	for range 2 {
		if now, err := f.old.Mover().Abort(ctx); err != nil || now.Phase != circulate.Steady || now.To != fromShards {
			f.Fatalf("abort: %+v, %v", now, err)
		}
	}
	after := f.open(f.server, 0)
	if after.Shards() != fromShards || after.Sources() != 0 {
		f.Fatalf("%d shards, %d of them old", after.Shards(), after.Sources())
	}
	if changed, err := f.old.Changed(ctx); err != nil || changed {
		f.Errorf("for a ring from before the change: changed %v, %v", changed, err)
	}
	lateMover := func() {
		f.Helper()
		for _, source := range late.Mover().Sequence() {
			if moved, _, err := late.Mover().Move(ctx, source); moved != 0 || !errors.Is(err, circulate.ErrAborted) {
				f.Fatalf("a mover that comes late: %d moved, %v", moved, err)
			}
		}
	}
	lateMover()
	if done, err := late.Mover().FinishMove(ctx); done || err != nil {
		f.Errorf("moved after all: %v, %v", done, err)
	}
	f.register(late, circulate.Registration{ID: "new"})
	f.lawful(after, 21)

	if now, err := after.Mover().Begin(ctx, 5); err != nil || now.To != 5 {
		f.Fatal(now, err)
	}
	ring := f.open(f.server, 0)
	if base, abandoned := ring.Base(); base != 0 || abandoned != 1 || ring.Generation() != 2 {
		f.Errorf("base %d, abandoned %d, generation %d", base, abandoned, ring.Generation())
	}
	if err := ring.Mover().Receive(ctx); err != nil {
		f.Fatal(err)
	}
	lateMover()
	if err := moveAll(ring); err != nil {
		f.Fatal(err)
	}
	lateMover()
	// The shards that were given up accept no account, even from a process that still
	// knows them.
	if o, err := late.Register(ctx, late.ShardOf("newer"), []circulate.Registration{{ID: "newer"}}); !errors.Is(err, circulate.ErrResharding) {
		f.Errorf("registered by who knows the abandoned shards: %c, %v", o, err)
	}
	if _, err := late.Look(ctx, late.ShardOf("new"), []string{"new"}); !errors.Is(err, circulate.ErrResharding) {
		f.Errorf("looked for by who knows the abandoned shards: %v", err)
	}
	f.confirmAll(ring)
	if done, err := ring.Mover().FinishMove(ctx); err != nil || !done {
		f.Fatalf("moved: %v, %v", done, err)
	}
	if _, err := ring.Mover().Abort(ctx); !errors.Is(err, circulate.ErrNoReturn) {
		f.Errorf("abort of what is over: %v", err)
	}
	if done, err := ring.Mover().Drained(ctx, true); err != nil || !done {
		f.Fatalf("drained: %v, %v", done, err)
	}
	f.lawful(f.open(f.server, 0), 21)
	lateMover()
}

// reshardNoReturn does not abort a change if accounts may have moved.
func reshardNoReturn(fx *fixture) {
	f, ctx := newResharding(fx, fromShards, toShards), context.Background()
	all := ids(20)
	f.registerAll(f.old, all)
	ring := f.begin()
	if _, _, err := ring.Mover().Move(ctx, fromShards-1); err != nil {
		f.Fatal(err)
	}
	if now, err := ring.Mover().Abort(ctx); !errors.Is(err, circulate.ErrNoReturn) || now.Phase != circulate.Moving {
		f.Fatalf("abort: %+v, %v", now, err)
	}
	f.lawful(ring, len(all))
	f.lawful(f.finish(ring), len(all))
}

// reshardAbortCrashes stops an abort at each of its commands in turn, and has others find
// it so. The change is then aborted, or goes on, for all.
func reshardAbortCrashes(fx *fixture) {
	ctx, base := context.Background(), fx.ns
	for _, after := range []bool{false, true} {
		for at := 1; ; at++ {
			fx.ns = fmt.Sprintf("%s.%d.%v", base[:min(len(base), 40)], at, after)
			f := newResharding(fx, 2, 3)
			all := ids(6)
			f.registerAll(f.old, all)
			ring := f.begin()
			broken := &cutting{Server: f.server, left: 1000}
			quitter := f.open(broken, 0)
			broken.left, broken.after = at, after
			_, failed := quitter.Mover().Abort(ctx)
			f.lawful(ring, len(all))
			moved := moveAll(ring)
			switch {
			case errors.Is(moved, circulate.ErrAborted):
				// As the monitors do.
				now, err := ring.Mover().Abort(ctx)
				if err != nil && !errors.Is(err, circulate.ErrNoReturn) {
					f.Fatalf("cut at %d: abort: %+v, %v", at, now, err)
				}
			case moved != nil:
				f.Fatalf("cut at %d: %v", at, moved)
			}
			now, err := ring.Mover().State(ctx)
			if err != nil {
				f.Fatal(err)
			}
			if now.Phase == circulate.Steady {
				f.lawful(f.open(f.server, 0), len(all))
			} else {
				f.lawful(f.finish(ring), len(all))
			}
			if failed == nil {
				if now.Phase != circulate.Steady {
					f.Errorf("aborted, and is %s", now.Phase)
				}
				break
			}
			if !errors.Is(failed, errCut) {
				f.Fatalf("cut at %d: %v", at, failed)
			}
		}
	}
}
