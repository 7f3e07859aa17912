package ringtest

import (
	"context"
	"errors"

	"github.com/rounds-dev/rounds/circulate"
)

// oneAccount takes one account through its life by the steps that take an id.
func oneAccount(f *fixture) {
	ctx := context.Background()
	a := f.ring.Account("a")
	absent := func(step string, err error) {
		f.Helper()
		if !errors.Is(err, circulate.ErrNotRegistered) {
			f.Errorf("%s of an account that is not there: %v", step, err)
		}
	}
	never := func() {
		f.Helper()
		_, err := a.Look(ctx)
		absent("look", err)
		absent("park", a.Park(ctx, circulate.ReasonPaused))
		absent("resume", a.Resume(ctx, circulate.Resumption{}))
		absent("nudge", a.Nudge(ctx, circulate.Nudge{}))
		absent("deregister", a.Deregister(ctx))
	}
	registers := func(step func(context.Context, circulate.Registration) (circulate.Registered, error), record string, want circulate.Registered) {
		f.Helper()
		if got, err := step(ctx, circulate.Registration{ID: "whatever", Record: []byte(record)}); err != nil || got != want {
			f.Errorf("%s: %c, %v, want %c", record, got, err, want)
		}
	}
	must := func(step string, err error) {
		f.Helper()
		if err != nil {
			f.Errorf("%s: %v", step, err)
		}
	}
	never()
	registers(a.Register, "1", circulate.Created)
	registers(a.Register, "2", circulate.Exists)
	registers(a.Upsert, "2", circulate.Updated)
	if v, err := a.Look(ctx); err != nil || v.ID != "a" || string(v.Record) != "2" || a.Shard() != f.ring.ShardOf("a") {
		f.Errorf("%+v, %v", v, err)
	}
	must("park", a.Park(ctx, circulate.ReasonPaused))
	f.placed("a", circulate.Parked)
	must("resume", a.Resume(ctx, circulate.Resumption{ID: "whatever"}))
	must("resume again", a.Resume(ctx, circulate.Resumption{}))
	must("nudge", a.Nudge(ctx, circulate.Nudge{}))
	f.claim(alice, "a")
	if now, err := a.Now(ctx); err != nil || now.IsZero() {
		f.Errorf("%v, %v", now, err)
	}
	f.conserved()
	must("deregister", a.Deregister(ctx))
	never()
}
