package message

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/group"
	"github.com/rounds-dev/rounds/testing/redistest"
)

// One message in each stage that a group may have it in.
func TestDelivered(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server redistest.Redis) {
		ctx := context.Background()
		r, ring := newWorld(t, server, 2)
		stream(t, r, ring, "a", 4)
		shard := ring.ShardOf("a")
		found, err := ring.Streams().Messages(ctx, shard, circulate.StreamStart, 10)
		if err != nil || len(found) != 4 {
			t.Fatal(found, err)
		}
		for name, from := range map[string]string{"crm": circulate.StreamStart, "webhook.audit": circulate.StreamEnd} {
			if _, err := ring.Streams().EnsureGroup(ctx, shard, name, from); err != nil {
				t.Fatal(err)
			}
		}
		lease, _, err := group.Of(ring).Member("crm", reader, time.Minute).Lease(ctx, shard)
		if err != nil || lease == nil {
			t.Fatal(lease, err)
		}
		if _, err := group.Of(ring).Read(ctx, lease, 3, 1<<20, false); err != nil {
			t.Fatal(err)
		}
		if _, err := group.Of(ring).Acknowledge(ctx, shard, "crm", []string{found[0].Position}); err != nil {
			t.Fatal(err)
		}
		if done, err := group.Of(ring).Bury(ctx, lease, group.Pending{Position: found[1].Position, Deliveries: 8}, "refused"); !done || err != nil {
			t.Fatal(done, err)
		}
		of := func(f *circulate.Found) map[string]Delivery {
			t.Helper()
			at, position, err := ParseRef(ref(f))
			if err != nil {
				t.Fatal(err)
			}
			d, err := r.Delivered(ctx, at, position)
			if err != nil || d.Message.ID != f.Message.ID || d.Account != "a" || !d.Complete {
				t.Fatalf("%+v, %v", d, err)
			}
			all := make(map[string]Delivery)
			for _, at := range d.Deliveries {
				all[at.Group] = at
			}
			return all
		}
		for i, want := range []string{"done", "dead", "pending", "unread"} {
			got := of(&found[i])
			if len(got) != 2 || got["crm"].Stage != want || got["webhook.audit"].Stage != "done" || got["webhook.audit"].Webhook != "audit" || got["crm"].Webhook != "" {
				t.Errorf("message %d: %+v, want %s", i, got, want)
			}
		}
		dead := of(&found[1])["crm"]
		if dead.Error != "refused" || dead.Deliveries != 8 {
			t.Errorf("dead: %+v", dead)
		}
		if p := of(&found[2])["crm"]; p.Consumer != reader || p.Deliveries != 1 || p.Idle < 0 || p.Idle > time.Minute {
			t.Errorf("pending: %+v", p)
		}
		letter, err := r.DeadLetter(ctx, dead.DeadID)
		if err != nil || letter.Message.ID != "1" || letter.Group != "crm" || letter.ID != dead.DeadID {
			t.Errorf("%+v, %v", letter, err)
		}

		// Once replayed it is another message, which is for its group alone.
		if done, err := r.ReplayDead(ctx, []string{dead.DeadID}); err != nil || done.Replayed != 1 {
			t.Fatal(done, err)
		}
		if _, err := r.DeadLetter(ctx, dead.DeadID); !errors.Is(err, ErrNoDead) {
			t.Errorf("a replayed letter: %v", err)
		}
		if got := of(&found[1])["crm"]; got.Stage != "done" || got.DeadID != "" {
			t.Errorf("where it was: %+v", got)
		}
		all, err := ring.Streams().Messages(ctx, shard, found[3].Position, 10)
		if err != nil || len(all) != 1 {
			t.Fatal(all, err)
		}
		if got := of(&all[0]); got["crm"].Stage != "unread" || got["webhook.audit"].Stage != "skipped" {
			t.Errorf("replayed: %+v", got)
		}

		for _, missing := range []string{"0:5-5", "7:1-1"} {
			at, position, err := ParseRef(missing)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := r.Delivered(ctx, at, position); !errors.Is(err, ErrNoMessage) {
				t.Errorf("%s: %v", missing, err)
			}
		}
	})
}

// ref names a message in a path.
func ref(f *circulate.Found) string { return fmt.Sprint(f.Shard, ":", f.Position) }

// A message that is done may be one of more dead letters than one call looks at.
func TestDeliveredSaysWhereItDidNotLook(t *testing.T) {
	ctx := context.Background()
	r, ring := newWorld(t, redistest.Embedded(t), 1)
	large := strings.Repeat("x", 250_000)
	var messages []circulate.Message
	for i := range 80 {
		messages = append(messages, circulate.Message{ID: fmt.Sprint(i), Data: fmt.Appendf(nil, "%q", large)})
	}
	stream(t, r, ring, "a", 1)
	first, err := ring.Streams().Messages(ctx, 0, circulate.StreamStart, 1)
	if err != nil {
		t.Fatal(err)
	}
	stream(t, r, ring, "b", 0)
	if _, err := r.Resume(ctx, "b"); err != nil {
		t.Fatal(err)
	}
	find(t, ring, "b", messages...)
	bury(t, ring, "crm")
	d, err := r.Delivered(ctx, 0, mustParse(t, first[0].Position))
	if err != nil || d.Complete {
		t.Errorf("complete: %v, %v", d.Complete, err)
	}
}

func mustParse(t *testing.T, position string) circulate.StreamID {
	t.Helper()
	id, err := circulate.ParseStreamID(position)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// A drop of a group's letters goes on where it stopped, and touches no other group's.
func TestDropGroup(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server redistest.Redis) {
		ctx := context.Background()
		r, ring := newWorld(t, server, 4)
		for i := range 4 {
			stream(t, r, ring, fmt.Sprint("id-", i), 300)
		}
		bury(t, ring, "crm")
		if n, err := r.DeadCount(ctx); err != nil || n != 1200 {
			t.Fatal(n, err)
		}
		stream(t, r, ring, "late", 3)
		bury(t, ring, "audit")
		dropped, calls := 0, 0
		for next := ""; ; calls++ {
			done, err := r.DropGroup(ctx, "crm", next)
			if err != nil || calls > 20 {
				t.Fatal(calls, err)
			}
			dropped += done.Dropped
			if next = done.Next; next == "" {
				break
			}
		}
		if n, err := r.DeadCount(ctx); err != nil || dropped != 1200 || n != 1203 || calls == 0 {
			t.Errorf("%d dropped in %d calls, %d are left, %v", dropped, calls+1, n, err)
		}
	})
}
