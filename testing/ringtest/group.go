package ringtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/circulate"
)

const group = "billing"

// add appends messages, named ACCOUNT/ID, to the stream, and gives their
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
	if created, err := f.ring.EnsureGroup(context.Background(), 0, group, after); !created || err != nil {
		f.Fatalf("ensure group: created %v, %v", created, err)
	}
}

func (f *fixture) lease(consumer string) *circulate.Lease {
	f.Helper()
	lease, _, err := f.ring.LeaseShard(context.Background(), 0, group, consumer, time.Minute)
	if err != nil || lease == nil {
		f.Fatalf("lease for %s: %v, %v", consumer, lease, err)
	}
	return lease
}

// expire makes the lease one whose time is over.
func (f *fixture) expire(l *circulate.Lease) {
	f.Helper()
	f.do("HSET", f.key("leases"), group, fmt.Sprintf("%s|%013d|%s", l.Token(), 1, l.Consumer))
}

// read reads and expects the messages, in that order.
func (f *fixture) read(l *circulate.Lease, want ...string) []circulate.Found {
	f.Helper()
	batch, err := f.ring.ReadGroup(context.Background(), l, 100, 1<<20, false)
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

func (f *fixture) pending(l *circulate.Lease, want ...int) []circulate.Pending {
	f.Helper()
	pending, err := f.ring.Pending(context.Background(), l, circulate.StreamStart, 100)
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
	if created, err := f.ring.EnsureGroup(ctx, 0, group, circulate.StreamEnd); created || err != nil {
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
		if n, err := f.ring.Acknowledge(ctx, 0, group, positions); n != want || err != nil {
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
	empty, err := f.ring.ReadGroup(ctx, l, 10, 1<<20, true)
	if err != nil || empty.More || empty.End != circulate.StreamStart && empty.End != "" {
		f.Errorf("of an empty stream: %+v, %v", empty, err)
	}
	for i := range 200 {
		f.add(fmt.Sprintf("a/%d", i))
	}
	for _, test := range []struct {
		n, bytes, want int
		more           bool
	}{{10, 1 << 20, 10, true}, {100, 7, 64, true}, {100, 7 * 65, 100, true}, {0, 1 << 20, 0, false}, {100, 1 << 20, 26, false}} {
		batch, err := f.ring.ReadGroup(ctx, l, test.n, test.bytes, false)
		if err != nil || len(batch.Messages) != test.want || batch.More != test.more {
			f.Errorf("n %d, bytes %d: %d messages, more %v, %v", test.n, test.bytes, len(batch.Messages), batch.More, err)
		}
	}
	last := f.add("a/x")[0]
	f.read(l, "a/x")
	if batch, err := f.ring.ReadGroup(ctx, l, 10, 1<<20, true); err != nil || batch.End != last {
		f.Errorf("the end is %q, %v; want %q", batch.End, err, last)
	}
}

func leaseIsAlone(f *fixture) {
	ctx := context.Background()
	f.group(circulate.StreamStart)
	mine := f.lease(alice)
	other, after, err := f.ring.LeaseShard(ctx, 0, group, bob, time.Minute)
	if other != nil || err != nil || after <= 59*time.Second || after > time.Minute {
		f.Fatalf("a second lease: %v, after %v, %v", other, after, err)
	}
	if elsewhere, _, err := f.ring.LeaseShard(ctx, 0, "audit", bob, time.Minute); elsewhere == nil || err != nil {
		f.Fatalf("of another group: %v, %v", elsewhere, err)
	}
	f.add("a/1")
	found := f.read(mine, "a/1")
	f.expire(mine)
	f.read(mine) // nobody has taken it: it lives again
	if other, _, err := f.ring.LeaseShard(ctx, 0, group, bob, time.Minute); other != nil || err != nil {
		f.Fatalf("after a renewal: %v, %v", other, err)
	}
	f.expire(mine)
	yours := f.lease(bob)
	if yours.Token() <= mine.Token() {
		f.Errorf("token %q after %q", yours.Token(), mine.Token())
	}
	p := circulate.Pending{Position: found[0].Position, Deliveries: 2}
	for name, step := range map[string]func() error{
		"read":      func() error { _, err := f.ring.ReadGroup(ctx, mine, 1, 1, false); return err },
		"renew":     func() error { _, err := f.ring.ReadGroup(ctx, mine, 0, 1, false); return err },
		"pending":   func() error { _, err := f.ring.Pending(ctx, mine, circulate.StreamStart, 1); return err },
		"redeliver": func() error { _, err := f.ring.Redeliver(ctx, mine, []circulate.Pending{p}); return err },
		"bury":      func() error { _, err := f.ring.Bury(ctx, mine, p, "bad"); return err },
		"forget":    func() error { _, err := f.ring.ForgetConsumers(ctx, mine); return err },
	} {
		if err := step(); !errors.Is(err, circulate.ErrLeaseLost) || circulate.Unknown(err) {
			f.Errorf("%s under a lost lease: %v", name, err)
		}
	}
	if held, err := f.ring.ReleaseLease(ctx, mine); held || err != nil {
		f.Errorf("release of a lost lease: %v, %v", held, err)
	}
	f.pending(yours, 1)
	if held, err := f.ring.ReleaseLease(ctx, yours); !held || err != nil {
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
	if n, err := f.ring.ForgetConsumers(ctx, yours); n != 0 || err != nil {
		f.Errorf("forgot %d with something pending, %v", n, err)
	}
	if _, err := f.ring.Acknowledge(ctx, 0, group, positions[1:2]); err != nil {
		f.Fatal(err)
	}
	for i := range pending {
		pending[i].Deliveries = 2 + i
	}
	again, err := f.ring.Redeliver(ctx, yours, pending)
	if err != nil {
		f.Fatal(err)
	}
	f.named(again.Messages, "a/1", "a/2") // b/1 was acknowledged meanwhile
	f.pending(yours, 2, 4)
	if n, err := f.ring.ForgetConsumers(ctx, yours); n != 1 || err != nil {
		f.Errorf("forgot %d, %v; want 1", n, err)
	}
	rest, err := f.ring.Pending(ctx, yours, positions[0], 10)
	if err != nil || len(rest) != 1 || rest[0] != (circulate.Pending{Position: positions[2], Deliveries: 4}) {
		f.Errorf("after the first: %v, %v", rest, err)
	}
	// What was trimmed stops being pending.
	f.do("XDEL", f.key("messages"), positions[0])
	if gone, err := f.ring.Redeliver(ctx, yours, pending[:1]); err != nil || len(gone.Messages) != 0 {
		f.Errorf("trimmed: %v, %v", gone, err)
	}
	f.pending(yours, 4)
	if _, err := f.ring.Acknowledge(ctx, 0, group, positions[2:]); err != nil {
		f.Fatal(err)
	}
	if _, err := f.ring.ReleaseLease(ctx, yours); err != nil {
		f.Fatal(err)
	}
	if consumers := f.do("XINFO", "CONSUMERS", f.key("messages"), group).([]any); len(consumers) != 0 {
		f.Errorf("%d consumers' names are left", len(consumers))
	}
}

func groupBadInput(f *fixture) {
	ctx := context.Background()
	l := &circulate.Lease{Group: group, Consumer: alice, TTL: time.Minute}
	for want, step := range map[string]func() error{
		"group":    func() error { _, err := f.ring.EnsureGroup(ctx, 0, "a b", circulate.StreamStart); return err },
		"position": func() error { _, err := f.ring.EnsureGroup(ctx, 0, group, "now"); return err },
		"ttl":      func() error { _, _, err := f.ring.LeaseShard(ctx, 0, group, alice, 0); return err },
		"replica":  func() error { _, _, err := f.ring.LeaseShard(ctx, 0, group, "x", time.Minute); return err },
		"n:":       func() error { _, err := f.ring.ReadGroup(ctx, l, 1001, 1, false); return err },
		"n: ":      func() error { _, err := f.ring.Pending(ctx, l, circulate.StreamStart, 0); return err },
		"messages": func() error { _, err := f.ring.Redeliver(ctx, l, nil); return err },
		"remember": func() error {
			_, _, err := f.ring.Apply(ctx, 0, count, circulate.Applying{Group: group, Remember: -1}, make([]circulate.Found, 1))
			return err
		},
		"replay": func() error { _, err := f.ring.ReplayDead(ctx, 0, "x"); return err },
	} {
		if err := step(); err == nil || !strings.Contains(err.Error(), want) || circulate.Unknown(err) {
			f.Errorf("%s: %v", want, err)
		}
	}
}
