package ringtest

import (
	"context"
	"strings"

	"github.com/rounds-dev/rounds/circulate"
)

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
