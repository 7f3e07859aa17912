package ringtest

import (
	"context"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/document"
	"github.com/rounds-dev/rounds/circulate/group"
	"github.com/rounds-dev/rounds/circulate/limit"
)

// fullGroup: a message that a group has handled can be trimmed, so the group must make
// progress.
func fullGroup(f *fullFixture) {
	ctx := context.Background()
	f.group(circulate.StreamStart)
	positions := f.add("a/1", "a/2", "a/3")
	f.full()
	alive, err := group.Of(f.ring).Member(crew, alice, time.Minute).Join(ctx, group.Condition{})
	if err != nil || len(alive) != 1 {
		f.Errorf("alive: %v, %v", alive, err)
	}
	l := f.lease(alice)
	f.read(l, "a/1", "a/2", "a/3")
	// Most of its time is used up: the next step renews it.
	f.limit(false)
	f.do("HSET", f.key("leases"), crew, l.Token()+"|0000000000001|"+alice)
	f.full()
	f.pending(l, 1, 1, 1)
	if lease := f.text("HGET", f.key("leases"), crew); strings.Contains(lease, "|0000000000001|") {
		f.Errorf("the lease was not renewed: %s", lease)
	}
	if n, err := group.Of(f.ring).Acknowledge(ctx, 0, crew, positions[:1]); err != nil || n != 1 {
		f.Errorf("acknowledged %d, %v", n, err)
	}
	if buried, err := group.Of(f.ring).Bury(ctx, l, group.Pending{Position: positions[1], Deliveries: 8}, "bad"); err != nil || !buried {
		f.Errorf("buried: %v, %v", buried, err)
	}
	f.pending(l, 1)
	letters, err := group.Of(f.ring).DeadLetters(ctx, 0, circulate.StreamStart, 1)
	if err != nil || len(letters) != 1 {
		f.Fatalf("dead letters: %v, %v", letters, err)
	}
	_, err = group.Of(f.ring).ReplayDead(ctx, 0, letters[0].Position)
	f.refused("replay", err)
	f.must("quit", group.Of(f.ring).Member(crew, alice, 0).Quit(ctx))
}

func fullEffect(f *fullFixture) {
	f.group(circulate.StreamStart)
	l := f.lease(alice)
	f.add("a/1", "a/2")
	f.full()
	found := f.read(l, "a/1", "a/2")
	f.apply(time.Hour, found, "11")
	f.pending(l)
}

func fullLimit(f *fullFixture) {
	ctx := context.Background()
	one := limit.Limit{Name: "http/api.example.com", Concurrency: 1, Lease: time.Minute}
	answers, err := limit.Of(f.ring).Acquire(ctx, []limit.Asks{{Limit: one, Asks: []limit.Ask{{CheckID: "a"}}}})
	if err != nil || answers[0].Err != nil {
		f.Fatal(answers, err)
	}
	f.full()
	f.must("finish", limit.Of(f.ring).Finish(ctx, []limit.Finished{{Limit: one, CheckIDs: []string{"a"}}}))
}

func fullEndpoint(f *fullFixture) {
	ctx := context.Background()
	f.full()
	d, err := f.ring.Endpoints().Disable(ctx, "crm", "410")
	if err != nil || d.Name != "crm" {
		f.Errorf("%+v, %v", d, err)
	}
	if was, err := f.ring.Endpoints().Enable(ctx, "crm"); err != nil || !was {
		f.Errorf("enabled: %v, %v", was, err)
	}
	f.must("report", document.Of(f.ring).Endpoints().Report(ctx, alice, []document.Report{{Endpoint: "crm"}}))
	f.refused("order", document.Of(f.ring).Endpoints().Tell(ctx, document.Order{Endpoint: "crm", Action: document.Retry}))
}

// fullSkip: giving up on a message frees memory for it, as its dead letter is a few bytes
// larger.
func fullSkip(f *fullFixture) {
	ctx := context.Background()
	positions := f.add("a/1")
	f.group(circulate.StreamStart)
	l := f.lease(alice)
	f.read(l, "a/1")
	f.full()
	letter, err := group.Of(f.ring).Skip(ctx, 0, crew, positions[0], "a", "skipped")
	if err != nil || letter == "" {
		f.Errorf("%q, %v", letter, err)
	}
}

// fullOpen: a process that is started again can join.
func fullOpen(f *fullFixture) {
	f.register("a")
	f.full()
	again, err := circulate.Open(context.Background(), f.server, circulate.Options{Namespace: f.ns})
	if err != nil {
		f.Fatal(err)
	}
	if n, err := again.Count(context.Background(), 0); err != nil || n.Registered != 1 {
		f.Errorf("%+v, %v", n, err)
	}
	f.must("check", again.Check(context.Background()))
}

func fullMemory(f *fullFixture) {
	ctx := context.Background()
	f.must("try a write", f.ring.TryWrite(ctx))
	if n := f.number("EXISTS", f.key("schedule")); n != 0 {
		f.Error("trying a write has written")
	}
	memory, err := f.ring.Memory(ctx, 0)
	if err != nil || memory.Used <= 0 || memory.Share() != 0 {
		f.Errorf("without a limit: %+v, %v", memory, err)
	}
	f.full()
	if memory, err = f.ring.Memory(ctx, 0); err != nil || memory.Share() <= 1 {
		f.Errorf("at the limit: %+v, %v", memory, err)
	}
	f.refused("try a write", f.ring.TryWrite(ctx))
}

// tryWrite: every server reports whether it accepts writes, and how much memory it uses
// or that it does not report that.
func tryWrite(f *fixture) {
	ctx := context.Background()
	if err := f.ring.TryWrite(ctx); err != nil {
		f.Errorf("try a write: %v", err)
	}
	if n := f.number("EXISTS", f.key("schedule")); n != 0 {
		f.Error("trying a write has written")
	}
	if shards := f.ring.OneOfEachNode(); len(shards) != 1 || shards[0] != 0 {
		f.Errorf("of one shard, one of each node is %v", shards)
	}
	memory, err := f.ring.Memory(ctx, 0)
	if circulate.Unavailable(err) || err == nil && memory.Used <= 0 {
		f.Errorf("memory: %+v, %v", memory, err)
	}
	bytes, err := f.ring.Streams().Bytes(ctx, 0)
	if err == nil && bytes != 0 {
		f.Errorf("no messages take %d bytes", bytes)
	}
	f.add("a/1")
	if bytes, err = f.ring.Streams().Bytes(ctx, 0); circulate.Unavailable(err) || err == nil && bytes <= 0 {
		f.Errorf("a message takes %d bytes, %v", bytes, err)
	}
}
