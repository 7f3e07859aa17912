package accounts

import (
	"context"
	"strings"
	"testing"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/testing/redistest"
)

// An account waits in the lane of its record's priority, however it was registered. A
// change of the priority alone takes effect.
func TestPriority(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server redistest.Redis) {
		ctx := context.Background()
		r, ring := newRegistry(t, server, 4)
		lane := func(id string) circulate.Priority {
			t.Helper()
			views, err := ring.Look(ctx, ring.ShardOf(id), []string{id})
			if err != nil || len(views) != 1 {
				t.Fatal(views, err)
			}
			return views[0].Priority
		}
		if _, err := r.Create(ctx, Account{ID: "created", Kind: "plain", Priority: PriorityUrgent}); err != nil {
			t.Fatal(err)
		}
		s, err := r.Import(ctx, strings.NewReader(`{"id":"imported","kind":"plain","priority":"low"}`), noBadLines(t))
		if err != nil || s.Created != 1 {
			t.Fatal(s, err)
		}
		if u, l := lane("created"), lane("imported"); u != circulate.Urgent || l != circulate.Low {
			t.Errorf("lanes %c and %c", u, l)
		}
		for _, step := range []struct {
			priority string
			change   circulate.Registered
			lane     circulate.Priority
			record   string
		}{
			{"", circulate.Created, circulate.Normal, ""},
			{PriorityNormal, circulate.Unchanged, circulate.Normal, ""},
			{PriorityLow, circulate.Updated, circulate.Low, PriorityLow},
			{PriorityLow, circulate.Unchanged, circulate.Low, PriorityLow},
			{PriorityUrgent, circulate.Updated, circulate.Urgent, PriorityUrgent},
			{PriorityNormal, circulate.Updated, circulate.Normal, ""},
		} {
			v, change, err := r.Put(ctx, Account{ID: "put", Kind: "plain", Priority: step.priority})
			if err != nil || change != step.change || v.Priority != step.record || lane("put") != step.lane {
				t.Errorf("put %q: %c, %q, lane %c, %v", step.priority, change, v.Priority, lane("put"), err)
			}
		}
		s, err = r.Import(ctx, strings.NewReader(`{"id":"imported","kind":"plain","priority":"urgent"}`), noBadLines(t))
		if err != nil || s.Updated != 1 || lane("imported") != circulate.Urgent {
			t.Errorf("import of a change: %+v, %v, lane %c", s, err, lane("imported"))
		}
		if err := r.Delete(ctx, "imported"); err != nil {
			t.Fatal(err)
		}

		stats, err := r.Stats(ctx)
		if err != nil || stats.Waiting != 0 {
			t.Fatal(stats, err)
		}
		for shard := range ring.Shards() {
			batch, err := ring.Claim(ctx, shard, "replica001", 100, 0)
			if err != nil {
				t.Fatal(err)
			}
			for i := range batch.Claims {
				if _, err := ring.Release(ctx, shard, []*circulate.Claim{&batch.Claims[i]}); err != nil {
					t.Fatal(err)
				}
			}
		}
		if stats, err = r.Stats(ctx); err != nil || stats.Waiting != 2 || stats.Urgent != 1 || stats.Low != 0 {
			t.Errorf("stats: %+v, %v", stats, err)
		}
	})
}
