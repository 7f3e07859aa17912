package message

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/group"
	"github.com/rounds-dev/rounds/testing/redistest"
)

func TestGroups(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server redistest.Redis) {
		ctx := context.Background()
		r, ring := newWorld(t, server, 4)
		if groups, err := r.Groups(ctx); len(groups) != 0 || err != nil {
			t.Fatal(groups, err)
		}
		stream(t, r, ring, "a", 5)
		stream(t, r, ring, "b", 5)
		for shard := range 4 {
			if _, err := ring.Streams().EnsureGroup(ctx, shard, "crm", circulate.StreamStart); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := ring.Streams().EnsureGroup(ctx, 2, "partly", circulate.StreamEnd); err != nil {
			t.Fatal(err)
		}
		if _, err := group.Of(ring).Member("crm", reader, time.Minute).Join(ctx, group.Condition{}); err != nil {
			t.Fatal(err)
		}
		lease, _, err := group.Of(ring).Member("crm", reader, time.Minute).Lease(ctx, ring.ShardOf("a"))
		if err != nil {
			t.Fatal(err)
		}
		if batch, err := group.Of(ring).Read(ctx, lease, 5, 1<<20, false); err != nil || len(batch.Messages) == 0 {
			t.Fatal(batch, err)
		}
		groups, err := r.Groups(ctx)
		if err != nil || len(groups) != 2 || groups[0].Name != "crm" || groups[1].Name != "partly" {
			t.Fatalf("%+v, %v", groups, err)
		}
		if g := groups[0]; g.Pending != 5 || g.Lag < 5 || len(g.Consumers) != 1 || g.Consumers[0].Name != reader {
			t.Errorf("%+v", g)
		} else if c := g.Consumers[0]; c.Shards != 1 || c.Pending != 5 || c.OldestPending != g.OldestPending || c.Silent < 0 || c.Silent > groupWindow {
			t.Errorf("its consumer: %+v", c)
		}
		if g := groups[1]; g.Pending != 0 || g.Lag != 0 || len(g.Consumers) != 0 {
			t.Errorf("%+v", g)
		}

		if err := r.RemoveGroup(ctx, "crm"); !errors.Is(err, ErrGroupAlive) {
			t.Errorf("with a consumer: %v", err)
		}
		if err := group.Of(ring).Member("crm", reader, 0).Quit(ctx); err != nil {
			t.Fatal(err)
		}
		if err := r.RemoveGroup(ctx, "crm"); err != nil {
			t.Error(err)
		}
		for _, name := range []string{"crm", "", "a b", "none"} {
			if err := r.RemoveGroup(ctx, name); !errors.Is(err, ErrNoGroup) {
				t.Errorf("%q: %v", name, err)
			}
			if _, err := r.Group(ctx, name); !errors.Is(err, ErrNoGroup) {
				t.Errorf("%q: %v", name, err)
			}
		}
	})
}

func TestWebhooks(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server redistest.Redis) {
		ctx := context.Background()
		r, ring := newWorld(t, server, 2)
		for _, group := range []string{"webhook.crm", "webhook.b", "audit"} {
			if _, err := ring.Streams().EnsureGroup(ctx, 0, group, circulate.StreamStart); err != nil {
				t.Fatal(err)
			}
		}
		for _, name := range []string{"crm", "a"} {
			if _, err := ring.Endpoints().Disable(ctx, name, "answered 410 Gone"); err != nil {
				t.Fatal(err)
			}
		}
		all, err := r.Webhooks(ctx)
		if err != nil || len(all) != 3 {
			t.Fatalf("%+v, %v", all, err)
		}
		for i, want := range []struct {
			name            string
			disabled, group bool
		}{{"a", true, false}, {"b", false, true}, {"crm", true, true}} {
			w := all[i]
			if w.Name != want.name || (w.Disabled != nil) != want.disabled || (w.Group != nil) != want.group {
				t.Errorf("%+v, want %+v", w, want)
			}
			if w.Disabled != nil && (w.Disabled.Reason != "answered 410 Gone" || w.Disabled.Since.IsZero()) {
				t.Errorf("%+v", w.Disabled)
			}
		}
		for _, name := range []string{"crm", "crm", "a", "b"} {
			if w, err := r.EnableWebhook(ctx, name); err != nil || w.Name != name || w.Disabled != nil {
				t.Errorf("%s: %+v, %v", name, w, err)
			}
		}
		for _, name := range []string{"a", "audit", "../x"} {
			if _, err := r.EnableWebhook(ctx, name); !errors.Is(err, ErrNoWebhook) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}
