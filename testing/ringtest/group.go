package ringtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/group"
)

const crew = "billing"

// add appends messages, named ACCOUNT/ID, to the stream, and returns their
// positions.
func (f *fixture) add(names ...string) []string {
	f.Helper()
	positions := make([]string, len(names))
	for i, name := range names {
		account, id, _ := strings.Cut(name, "/")
		positions[i] = f.text("XADD", f.key("messages"), "*", "account", account, "kind", "feed", "id", id, "type", "text",
			"time", "2026-11-20T09:30:00.5Z", "data", `{"n":1}`)
	}
	return positions
}

func (f *fixture) group(after string) {
	f.Helper()
	if created, err := f.ring.Streams().EnsureGroup(context.Background(), 0, crew, after); !created || err != nil {
		f.Fatalf("ensure group: created %v, %v", created, err)
	}
}

func (f *fixture) lease(consumer string) *group.Lease {
	f.Helper()
	lease, _, err := group.Of(f.ring).Member(crew, consumer, time.Minute).Lease(context.Background(), 0)
	if err != nil || lease == nil {
		f.Fatalf("lease for %s: %v, %v", consumer, lease, err)
	}
	return lease
}

// expire makes the lease's time run out.
func (f *fixture) expire(l *group.Lease) {
	f.Helper()
	f.do("HSET", f.key("leases"), crew, fmt.Sprintf("%s|%013d|%s", l.Token(), 1, l.Consumer))
}

// read reads and expects the messages, in that order.
func (f *fixture) read(l *group.Lease, want ...string) []circulate.Found {
	f.Helper()
	batch, err := group.Of(f.ring).Read(context.Background(), l, 100, 1<<20, false)
	if err != nil {
		f.Fatal(err)
	}
	f.named(batch.Messages, want...)
	return batch.Messages
}

func (f *fixture) named(found []circulate.Found, want ...string) {
	f.Helper()
	var got []string
	for _, m := range found {
		got = append(got, m.Account+"/"+m.Message.ID)
	}
	if !slices.Equal(got, want) {
		f.Fatalf("messages %q, want %q", got, want)
	}
}

func (f *fixture) pending(l *group.Lease, want ...int) []group.Pending {
	f.Helper()
	pending, err := group.Of(f.ring).Pending(context.Background(), l, circulate.StreamStart, 100)
	if err != nil {
		f.Fatal(err)
	}
	var got []int
	for _, p := range pending {
		got = append(got, p.Deliveries)
	}
	if !slices.Equal(got, want) {
		f.Fatalf("pending with deliveries %v, want %v", got, want)
	}
	return pending
}

func groupReadsOnce(f *fixture) {
	ctx := context.Background()
	f.add("a/1")
	f.group(circulate.StreamStart)
	if created, err := f.ring.Streams().EnsureGroup(ctx, 0, crew, circulate.StreamEnd); created || err != nil {
		f.Errorf("a second time: created %v, %v", created, err)
	}
	positions := f.add("b/1", "a/2")
	l := f.lease(alice)
	found := f.read(l, "a/1", "b/1", "a/2")
	want := circulate.Found{Shard: 0, Position: positions[0], Account: "b", Kind: "feed", Message: circulate.Message{
		ID: "1", Type: "text", Time: time.Date(2026, 11, 20, 9, 30, 0, 5e8, time.UTC), Data: []byte(`{"n":1}`)}}
	if fmt.Sprint(found[1]) != fmt.Sprint(want) {
		f.Errorf("got %v, want %v", found[1], want)
	}
	f.read(l)
	f.pending(l, 1, 1, 1)
	for _, want := range []int{2, 0} { // safe to repeat
		if n, err := group.Of(f.ring).Acknowledge(ctx, 0, crew, positions); n != want || err != nil {
			f.Errorf("acknowledged %d, %v; want %d", n, err, want)
		}
	}
	f.pending(l, 1)
	f.do("XADD", f.key("messages"), "*", "data", "1", "id", "x", "extra", "e", "account", "c")
	f.read(l, "c/x") // whatever the order of fields, and without some
}

func groupFromEnd(f *fixture) {
	f.add("a/1")
	f.group(circulate.StreamEnd)
	l := f.lease(alice)
	f.read(l)
	f.add("a/2")
	f.read(l, "a/2")
}

func groupReadIsBounded(f *fixture) {
	ctx := context.Background()
	f.group(circulate.StreamStart)
	l := f.lease(alice)
	empty, err := group.Of(f.ring).Read(ctx, l, 10, 1<<20, true)
	if err != nil || empty.More || empty.End != circulate.StreamStart {
		f.Errorf("of an empty stream: %+v, %v", empty, err)
	}
	for i := range 200 {
		f.add(fmt.Sprintf("a/%d", i))
	}
	for _, test := range []struct {
		n, bytes, want int
		more           bool
	}{{10, 1 << 20, 10, true}, {100, 7, 64, true}, {100, 7 * 65, 100, true}, {0, 1 << 20, 0, false}, {100, 1 << 20, 26, false}} {
		batch, err := group.Of(f.ring).Read(ctx, l, test.n, test.bytes, false)
		if err != nil || len(batch.Messages) != test.want || batch.More != test.more {
			f.Errorf("n %d, bytes %d: %d messages, more %v, %v", test.n, test.bytes, len(batch.Messages), batch.More, err)
		}
	}
	last := f.add("a/x")[0]
	f.read(l, "a/x")
	if batch, err := group.Of(f.ring).Read(ctx, l, 10, 1<<20, true); err != nil || batch.End != last {
		f.Errorf("the end is %q, %v; want %q", batch.End, err, last)
	}
}

func leaseIsAlone(f *fixture) {
	ctx := context.Background()
	f.group(circulate.StreamStart)
	mine := f.lease(alice)
	other, after, err := group.Of(f.ring).Member(crew, bob, time.Minute).Lease(ctx, 0)
	if other != nil || err != nil || after <= 59*time.Second || after > time.Minute {
		f.Fatalf("a second lease: %v, after %v, %v", other, after, err)
	}
	if elsewhere, _, err := group.Of(f.ring).Member("audit", bob, time.Minute).Lease(ctx, 0); elsewhere == nil || err != nil {
		f.Fatalf("of another group: %v, %v", elsewhere, err)
	}
	f.add("a/1")
	found := f.read(mine, "a/1")
	f.expire(mine)
	f.read(mine) // nobody has taken it: it is valid again
	if other, _, err := group.Of(f.ring).Member(crew, bob, time.Minute).Lease(ctx, 0); other != nil || err != nil {
		f.Fatalf("after a renewal: %v, %v", other, err)
	}
	f.expire(mine)
	yours := f.lease(bob)
	if yours.Token() <= mine.Token() {
		f.Errorf("token %q after %q", yours.Token(), mine.Token())
	}
	p := group.Pending{Position: found[0].Position, Deliveries: 2}
	for name, step := range map[string]func() error{
		"read":      func() error { _, err := group.Of(f.ring).Read(ctx, mine, 1, 1, false); return err },
		"renew":     func() error { _, err := group.Of(f.ring).Read(ctx, mine, 0, 1, false); return err },
		"pending":   func() error { _, err := group.Of(f.ring).Pending(ctx, mine, circulate.StreamStart, 1); return err },
		"redeliver": func() error { _, _, err := group.Of(f.ring).Redeliver(ctx, mine, []group.Pending{p}, 1); return err },
		"bury":      func() error { _, err := group.Of(f.ring).Bury(ctx, mine, p, "bad"); return err },
		"forget":    func() error { _, err := group.Of(f.ring).Forget(ctx, mine); return err },
	} {
		if err := step(); !errors.Is(err, group.ErrLeaseLost) || circulate.Unknown(err) {
			f.Errorf("%s under a lost lease: %v", name, err)
		}
	}
	if held, err := group.Of(f.ring).Release(ctx, mine); held || err != nil {
		f.Errorf("release of a lost lease: %v, %v", held, err)
	}
	f.pending(yours, 1)
	if held, err := group.Of(f.ring).Release(ctx, yours); !held || err != nil {
		f.Errorf("release: %v, %v", held, err)
	}
	f.lease(alice)
}

func groupRedelivers(f *fixture) {
	ctx := context.Background()
	f.group(circulate.StreamStart)
	mine := f.lease(alice)
	positions := f.add("a/1", "b/1", "a/2")
	f.read(mine, "a/1", "b/1", "a/2")
	f.expire(mine)
	yours := f.lease(bob)
	pending := f.pending(yours, 1, 1, 1)
	if n, err := group.Of(f.ring).Forget(ctx, yours); n != 0 || err != nil {
		f.Errorf("forgot %d with something pending, %v", n, err)
	}
	if _, err := group.Of(f.ring).Acknowledge(ctx, 0, crew, positions[1:2]); err != nil {
		f.Fatal(err)
	}
	for i := range pending {
		pending[i].Deliveries = 2 + i
	}
	again, came, err := group.Of(f.ring).Redeliver(ctx, yours, pending, 1<<20)
	if err != nil {
		f.Fatal(err)
	}
	f.named(again.Messages, "a/1", "a/2") // b/1 was acknowledged meanwhile
	if came != 3 {
		f.Errorf("came to %d of 3", came)
	}
	f.pending(yours, 2, 4)
	// It stops after some bytes, but not before the first message.
	if again, came, err = group.Of(f.ring).Redeliver(ctx, yours, pending, 1); err != nil || came != 1 {
		f.Errorf("came to %d, %v; want 1", came, err)
	}
	f.named(again.Messages, "a/1")
	// Without bytes it counts only.
	pending[0].Deliveries = 7
	if again, came, err = group.Of(f.ring).Redeliver(ctx, yours, pending, 0); err != nil || came != 3 || len(again.Messages) != 0 {
		f.Errorf("counted: %+v, %d, %v", again, came, err)
	}
	f.pending(yours, 7, 4)
	if n, err := group.Of(f.ring).Forget(ctx, yours); n != 1 || err != nil {
		f.Errorf("forgot %d, %v; want 1", n, err)
	}
	rest, err := group.Of(f.ring).Pending(ctx, yours, positions[0], 10)
	if err != nil || len(rest) != 1 || rest[0] != (group.Pending{Position: positions[2], Deliveries: 4}) {
		f.Errorf("after the first: %v, %v", rest, err)
	}
	// A trimmed message stops being pending.
	f.do("XDEL", f.key("messages"), positions[0])
	if gone, _, err := group.Of(f.ring).Redeliver(ctx, yours, pending[:1], 1); err != nil || len(gone.Messages) != 0 {
		f.Errorf("trimmed: %v, %v", gone, err)
	}
	f.pending(yours, 4)
	if _, err := group.Of(f.ring).Acknowledge(ctx, 0, crew, positions[2:]); err != nil {
		f.Fatal(err)
	}
	if _, err := group.Of(f.ring).Release(ctx, yours); err != nil {
		f.Fatal(err)
	}
	if consumers := f.do("XINFO", "CONSUMERS", f.key("messages"), crew).([]any); len(consumers) != 0 {
		f.Errorf("%d consumers' names are left", len(consumers))
	}
}

func groupBadInput(f *fixture) {
	ctx := context.Background()
	l := &group.Lease{Group: crew, Consumer: alice, TTL: time.Minute}
	for want, step := range map[string]func() error{
		"group":    func() error { _, err := f.ring.Streams().EnsureGroup(ctx, 0, "a b", circulate.StreamStart); return err },
		"position": func() error { _, err := f.ring.Streams().EnsureGroup(ctx, 0, crew, "now"); return err },
		"ttl":      func() error { _, _, err := group.Of(f.ring).Member(crew, alice, 0).Lease(ctx, 0); return err },
		"replica":  func() error { _, _, err := group.Of(f.ring).Member(crew, "x", time.Minute).Lease(ctx, 0); return err },
		"n:":       func() error { _, err := group.Of(f.ring).Read(ctx, l, 1001, 1, false); return err },
		"n: ":      func() error { _, err := group.Of(f.ring).Pending(ctx, l, circulate.StreamStart, 0); return err },
		"messages": func() error { _, _, err := group.Of(f.ring).Redeliver(ctx, l, nil, 1); return err },
		"remember": func() error {
			_, _, err := group.Of(f.ring).Apply(ctx, 0, count, group.Applying{Group: crew, Remember: -1}, make([]circulate.Found, 1))
			return err
		},
		"replay": func() error { _, err := group.Of(f.ring).ReplayDead(ctx, 0, "x"); return err },
	} {
		if err := step(); err == nil || !strings.Contains(err.Error(), want) || circulate.Unknown(err) {
			f.Errorf("%s: %v", want, err)
		}
	}
}
