package ringtest

import (
	"context"
	"errors"
	"strings"

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

// resumeAnew forgets the cursors, short and long, of the accounts that it resumes, and
// replaces what the cadence keeps. A probe does neither.
func resumeAnew(f *fixture) {
	ctx := context.Background()
	long := strings.Repeat("c", 100)
	park := func(id, cursor string) {
		f.Helper()
		c := f.claim(alice, id)[0]
		f.ret(circulate.Written, circulate.Return{Claim: c, Cursor: []byte(cursor), State: "i1000", Park: "gone"})
	}
	resume := func(step func(context.Context, int, []circulate.Resumption) ([]circulate.Resumed, error), item circulate.Resumption) *circulate.Claim {
		f.Helper()
		outcomes, err := step(ctx, 0, []circulate.Resumption{item})
		if err != nil || string(outcomes) != "r" {
			f.Fatalf("%q, %v", outcomes, err)
		}
		return f.claim(alice, item.ID)[0]
	}
	for _, cursor := range []string{"short", long} {
		id := "of " + cursor[:2]
		f.register(id)
		park(id, cursor)
		c := resume(f.ring.Probe, circulate.Resumption{ID: id, ForgetCursor: true, State: "s5"})
		if string(c.Cursor) != cursor || c.State != "i1000" {
			f.Errorf("probed with cursor %q, state %q", c.Cursor, c.State)
		}
		f.ret(circulate.Written, circulate.Return{Claim: c, State: c.State, Park: "gone"})
		c = resume(f.ring.ResumeAll, circulate.Resumption{ID: id, State: "s5"})
		if string(c.Cursor) != cursor || c.State != "s5" {
			f.Errorf("resumed with cursor %q, state %q", c.Cursor, c.State)
		}
		f.ret(circulate.Written, circulate.Return{Claim: c, State: c.State, Park: "gone"})
		c = resume(f.ring.ResumeAll, circulate.Resumption{ID: id, ForgetCursor: true})
		if c.Cursor != nil || c.State != "" {
			f.Errorf("resumed anew with cursor %q, state %q", c.Cursor, c.State)
		}
		f.ret(circulate.Written, circulate.Return{Claim: c, Due: soon(c)})
	}
	if n := f.number("EXISTS", f.key("cursors"), f.key("states")); n != 0 {
		f.Errorf("%d keys are left", n)
	}
	f.conserved()
}

// changeKeepsSkip changes a record while messages are passed over.
func changeKeepsSkip(f *fixture) {
	ctx := context.Background()
	f.register("a", "b")
	for i, c := range f.claim(alice, "a", "b") {
		f.ret(circulate.Written, circulate.Return{Claim: c, Due: soon(c), State: []string{"s17 i1000", "i1000"}[i]})
	}
	for _, id := range []string{"a", "b"} {
		if _, err := f.ring.Upsert(ctx, 0, []circulate.Registration{{ID: id, Record: []byte(`{"new":1}`)}}); err != nil {
			f.Fatal(err)
		}
	}
	for i, c := range f.claim(alice, "a", "b") {
		if want := []string{"s17", ""}[i]; c.State != want {
			f.Errorf("%s has state %q, want %q", c.ID, c.State, want)
		}
	}
}
