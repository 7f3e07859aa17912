package message

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/group"
	"github.com/rounds-dev/rounds/testing/redistest"
)

// tail is a consumer that reads a group by rounds.
type tail struct {
	*testing.T
	world *world
	round GroupRead
}

func newTail(t *testing.T, r *world) *tail {
	return &tail{T: t, world: r, round: GroupRead{From: FromStart, Limit: 7}}
}

// next reads the next round. If acknowledge is set, it acknowledges the messages of the round
// before.
func (c *tail) next(acknowledge bool, change func(q *GroupRead)) []GroupMessage {
	c.Helper()
	q := c.round
	if !acknowledge {
		q.Acknowledge = nil
	}
	if change != nil {
		change(&q)
	}
	batch, err := c.world.ReadGroup(context.Background(), "tail", q)
	if err != nil {
		c.Fatal(err)
	}
	if batch.Acknowledged > len(q.Acknowledge) || len(batch.Messages) > max(q.Limit, Limit) {
		c.Errorf("%d of %d acknowledged, %d messages", batch.Acknowledged, len(q.Acknowledge), len(batch.Messages))
	}
	c.round.Consumer, c.round.From, c.round.Acknowledge = batch.Consumer, "", nil
	for _, m := range batch.Messages {
		c.round.Acknowledge = append(c.round.Acknowledge, m.ID)
	}
	return batch.Messages
}

func TestReadGroup(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server redistest.Redis) {
		ctx := context.Background()
		r, ring := newWorld(t, server, 4)
		for i := range 6 {
			stream(t, r, ring, fmt.Sprint("id-", i), 10)
		}
		got := make(map[string][]string)
		take := func(messages []GroupMessage) {
			t.Helper()
			for _, m := range messages {
				if m.Delivery != 1 || m.Kind != "plain" || string(m.Message.Data) != `{"n":1}` {
					t.Errorf("%+v", m)
				}
				got[m.Account] = append(got[m.Account], m.Message.ID)
			}
		}
		a := newTail(t, r)
		take(a.next(true, nil))
		take(a.next(true, nil))
		// A message that is not acknowledged is delivered again, and its deliveries are
		// counted. The same holds after a lost reply.
		first := a.next(true, nil)
		again := a.next(false, func(q *GroupRead) { q.Limit = 1000 })
		for _, m := range first {
			at := slices.IndexFunc(again, func(n GroupMessage) bool { return n.ID == m.ID })
			if at < 0 || again[at].Delivery != 2 || again[at].Message.ID != m.Message.ID {
				t.Errorf("%s does not come again", m.ID)
			}
		}
		for i := range again {
			again[i].Delivery = 1
		}
		take(again)
		if rest := a.next(true, nil); len(rest) != 0 {
			t.Errorf("%d more", len(rest))
		}
		for i := range 6 {
			if ids := got[fmt.Sprint("id-", i)]; !slices.Equal(ids, []string{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"}) {
				t.Errorf("id-%d: %v", i, ids)
			}
		}
		g, err := r.Group(ctx, "tail")
		if err != nil || g.Lag != 0 || g.Pending != 0 || len(g.Consumers) != 1 || g.Consumers[0].Name != a.round.Consumer {
			t.Errorf("%+v, %v", g, err)
		}

		// Once the first consumer has left, another one gets its part at once, with the
		// messages that it did not acknowledge.
		for i := range 4 {
			stream(t, r, ring, fmt.Sprint("more-", i), 2)
		}
		left := a.next(true, func(q *GroupRead) { q.Limit = 3 })
		a.next(false, func(q *GroupRead) { q.Leave, q.Acknowledge = true, []string{left[0].ID} })
		b := newTail(t, r)
		rest := b.next(true, func(q *GroupRead) { q.From, q.Limit = FromNow, 100 })
		if len(rest) != 7 || slices.ContainsFunc(rest, func(m GroupMessage) bool { return m.ID == left[0].ID }) {
			t.Errorf("%d are left to the second: %+v", len(rest), rest)
		}
		b.next(true, func(q *GroupRead) { q.Leave = true })
		if g, err = r.Group(ctx, "tail"); err != nil || g.Lag != 0 || g.Pending != 0 || len(g.Consumers) != 0 {
			t.Errorf("%+v, %v", g, err)
		}
	})
}

// Consumers divide the shards among them, and no message is delivered to two.
func TestReadGroupTogether(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server redistest.Redis) {
		r, ring := newWorld(t, server, 16)
		a, b := newTail(t, r), newTail(t, r)
		a.next(true, nil)
		b.next(true, nil)
		for i := range 40 {
			stream(t, r, ring, fmt.Sprint("id-", i), 2)
		}
		had := make(map[string]int)
		// The first gives up its part only with the round that notices the second.
		for range 50 {
			for i, c := range []*tail{a, b} {
				for _, m := range c.next(true, func(q *GroupRead) { q.Wait = time.Millisecond }) {
					if by, twice := had[m.ID]; twice {
						t.Errorf("%s was given to %d and %d", m.ID, by, i)
					}
					had[m.ID] = i
				}
			}
		}
		a.next(true, func(q *GroupRead) { q.Leave = true })
		for range 20 {
			for _, m := range b.next(true, nil) {
				had[m.ID] = 1
			}
		}
		if len(had) != 80 {
			t.Errorf("%d messages, want 80", len(had))
		}
	})
}

func TestReadGroupWaits(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server redistest.Redis) {
		r, ring := newWorld(t, server, 4)
		stream(t, r, ring, "before", 1)
		c := newTail(t, r)
		c.round.From = FromNow
		if got := c.next(true, nil); len(got) != 0 {
			t.Fatalf("%+v came before now", got)
		}
		done := make(chan []GroupMessage)
		go func() { done <- c.next(true, func(q *GroupRead) { q.Wait = maxGroupWait }) }()
		stream(t, r, ring, "after", 1)
		if got := <-done; len(got) != 1 || got[0].Account != "after" {
			t.Errorf("%+v", got)
		}
		ctx, cancel := context.WithCancel(context.Background())
		go cancel()
		_, err := r.ReadGroup(ctx, "tail", GroupRead{Consumer: c.round.Consumer, Acknowledge: c.round.Acknowledge, Wait: maxGroupWait})
		if err == nil {
			t.Error("a wait that was cancelled ended well")
		}
	})
}

// Other groups acknowledge, without showing it, a message that was replayed for one group.
func TestReadGroupPassesOthers(t *testing.T) {
	ctx := context.Background()
	r, ring := newWorld(t, redistest.Embedded(t), 2)
	stream(t, r, ring, "a", 3)
	bury(t, ring, "crm")
	c := newTail(t, r)
	if got := c.next(true, nil); len(got) != 3 {
		t.Fatalf("%+v", got)
	}
	if done, err := r.ReplayGroup(ctx, "crm", ""); err != nil || done.Replayed != 3 {
		t.Fatal(done, err)
	}
	if got := c.next(true, nil); len(got) != 0 {
		t.Errorf("%+v", got)
	}
	if g, err := r.Group(ctx, "tail"); err != nil || g.Pending != 0 || g.Lag != 0 {
		t.Errorf("%+v, %v", g, err)
	}
}

// A consumer acknowledges messages that it had in hand when the old shards were dropped. That is
// no fault, and it is as if they were not pending.
func TestReadGroupAcknowledgesInDroppedShards(t *testing.T) {
	r, ring := newWorld(t, redistest.Embedded(t), 2)
	stream(t, r, ring, "a", 1)
	c := newTail(t, r)
	if got := c.next(true, nil); len(got) != 1 {
		t.Fatalf("%+v", got)
	}
	q := c.round
	q.Acknowledge = append(q.Acknowledge, "2:1-1", "16383:1-1")
	batch, err := r.ReadGroup(context.Background(), "tail", q)
	if err != nil || batch.Acknowledged != 1 || len(batch.Messages) != 0 {
		t.Errorf("%+v, %v", batch, err)
	}
}

// The id of a message names no other message once the number of shards has changed, though that
// message may be pending at the same position, in the shard that has the number now.
func TestReadGroupAcknowledgesNothingElseAfterReshard(t *testing.T) {
	ctx := context.Background()
	server := redistest.Embedded(t)
	_, before := newWorld(t, server, 2)
	if _, err := before.Mover().Begin(ctx, 1); err != nil {
		t.Fatal(err)
	}
	r, during := newWorld(t, server, 0)
	if during.Shards() != 3 {
		t.Fatalf("%d shards", during.Shards())
	}
	for source := range during.Sources() {
		if _, _, err := during.Mover().Move(ctx, source); err != nil {
			t.Fatal(err)
		}
	}
	if done, err := during.Mover().FinishMove(ctx); !done || err != nil {
		t.Fatal(done, err)
	}
	old := &world{New(before), r.Registry}
	stream(t, r, during, "a", 1)
	c := newTail(t, r)
	found := c.next(true, nil)
	if len(found) != 1 || found[0].ID != "1.0:"+found[0].Position || found[0].Shard != 2 {
		t.Fatalf("%+v", found)
	}
	acknowledge := func(r *world, id string) (int, error) {
		t.Helper()
		q := c.round
		q.Acknowledge = []string{id}
		batch, err := r.ReadGroup(ctx, "tail", q)
		return batch.Acknowledged, err
	}
	if _, err := acknowledge(old, found[0].ID); !errors.Is(err, circulate.ErrResharding) {
		t.Errorf("a process that does not know of the change: %v", err)
	}
	if n, err := acknowledge(r, "2:"+found[0].Position); n != 0 || err != nil {
		t.Errorf("a third shard of the first layout: %d, %v", n, err)
	}
	if done, err := during.Mover().Drained(ctx, true); !done || err != nil {
		t.Fatal(done, err)
	}
	after, _ := newWorld(t, server, 0)
	for _, other := range []string{"0:", "2.0:", "1.1:"} {
		if n, err := acknowledge(after, other+found[0].Position); n != 0 || err != nil {
			t.Errorf("%s: %d, %v", other, n, err)
		}
	}
	if n, err := acknowledge(after, found[0].ID); n != 1 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
}

func TestReadGroupRefuses(t *testing.T) {
	ctx := context.Background()
	r, ring := newWorld(t, redistest.Embedded(t), 2)
	if _, err := r.ReadGroup(ctx, "none", GroupRead{}); !errors.Is(err, ErrNoGroup) {
		t.Errorf("no group: %v", err)
	}
	c := newTail(t, r)
	c.next(true, nil)
	if removed, err := group.Of(ring).Remove(ctx, "tail"); !removed || err != nil {
		t.Fatal(removed, err)
	}
	if _, err := r.ReadGroup(ctx, "tail", c.round); !errors.Is(err, ErrNoGroup) {
		t.Errorf("a group that was removed: %v", err)
	}
	for field, q := range map[string]GroupRead{
		"consumer":       {Consumer: "x"},
		"from":           {From: "1-1"},
		"limit":          {Limit: 1001},
		"wait":           {Wait: maxGroupWait + 1},
		"acknowledge[1]": {Acknowledge: []string{"0:1-1", "16384:1-1"}},
		"acknowledge[0]": {Acknowledge: []string{"1-1"}},
		"acknowledge[2]": {Acknowledge: []string{"1.0:1-1", "0:1-1", "0.0:1-1"}},
		"acknowledge":    {Acknowledge: make([]string, 1001)},
	} {
		var faults strict.Faults
		if _, err := r.ReadGroup(ctx, "tail", q); !errors.As(err, &faults) || len(faults) != 1 || faults[0].Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	for field, text := range map[string]string{
		strict.RecordField: `[]`, "limit": `{"limit":0}`, "wait": `{"wait":"soon"}`, "acknowledge": `{"acknowledge":"0:1-1"}`,
		"leave": `{"leave":1}`, "from": `{"from":1}`, "consumer": `{"consumer":[]}`, "group": `{"group":"x"}`,
	} {
		var faults strict.Faults
		if _, err := DecodeGroupRead([]byte(text)); !errors.As(err, &faults) || len(faults) != 1 || faults[0].Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	if _, err := r.ReadGroup(ctx, "a b", GroupRead{}); err == nil || circulate.ValidateGroup("a b") == nil {
		t.Error("a name that is none")
	}
}
