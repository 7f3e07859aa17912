package ringtest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/group"
)

// sendEvents: a group is told what becomes of sends if it asks, and nobody else sees anything.
func sendEvents(f *fixture) {
	ctx := context.Background()
	o, streams := f.outbox("a"), f.ring.Streams()
	f.group(circulate.StreamStart)
	if _, err := streams.EnsureGroup(ctx, 0, "audit", circulate.StreamStart); err != nil {
		f.Fatal(err)
	}
	end := func(s circulate.Send, how circulate.Settlement) {
		f.Helper()
		o.settle(true, o.attempt(alice, o.queue(s))[0], how)
	}
	end(text("a", "anna", "1"), circulate.Settlement{Outcome: circulate.AttemptAccepted})
	if n := f.number("XLEN", f.key("messages")) + f.number("EXISTS", f.key("sends:names")); n != 0 {
		f.Fatal("nobody has asked for events, and something was written")
	}

	o.asks(crew, true)
	o.asks(crew, true)
	s := text("a", `"anna" ü/\`, "secret")
	s.ReplyTo = "0:1-1"
	before := f.now()
	end(s, circulate.Settlement{Outcome: circulate.AttemptAccepted, VendorID: "v1", Code: "0", Text: "fine,\n\"really\""})
	want := circulate.SendEvent{
		ID: s.ID, Account: "a", Kind: chat, To: s.Peer, Type: "text", ReplyTo: "0:1-1", State: "accepted",
		Queued: o.is(s.ID, circulate.SendAccepted).Queued, Attempts: 1, Code: "0", Reason: "fine,\n\"really\"", VendorID: "v1",
	}
	is := func(found circulate.Found) {
		f.Helper()
		got, err := found.SendEvent()
		if err != nil || !got.Queued.Equal(want.Queued) {
			f.Errorf("queued %v, %v; want %v", got.Queued, err, want.Queued)
		}
		if got.Queued = want.Queued; got != want {
			f.Errorf("got %+v, want %+v", got, want)
		}
		if m := found.Message; !found.Event || found.Account != "a" || found.Kind != chat || m.Type != "send.accepted" || !strings.HasPrefix(m.ID, s.ID+".accepted.") ||
			m.Time.Before(before) || m.Time.After(f.now()) || strings.Contains(string(m.Data), "secret") {
			f.Errorf("got %+v", found)
		}
	}
	l := f.lease(alice)
	batch, err := group.Of(f.ring).Read(ctx, l, 10, 1<<20, false)
	if err != nil || len(batch.Messages) != 1 || len(batch.Others) != 0 {
		f.Fatalf("read %+v, %v", batch, err)
	}
	is(batch.Messages[0])
	other, _, err := group.Of(f.ring).Member("audit", bob, time.Minute).Lease(ctx, 0)
	if err != nil || other == nil {
		f.Fatal(other, err)
	}
	if others, err := group.Of(f.ring).Read(ctx, other, 10, 1<<20, false); err != nil || len(others.Messages) != 0 || len(others.Others) != 1 {
		f.Errorf("a group that has not asked read %+v, %v", others, err)
	}
	if _, err := (&circulate.Found{Message: circulate.Message{Data: batch.Messages[0].Message.Data}}).SendEvent(); err == nil {
		f.Error("a message is taken for an event")
	}

	// As a dead letter, and delivered again, it is still the same event.
	pending := f.pending(l, 1)
	if dead, err := group.Of(f.ring).Bury(ctx, l, pending[0], "no"); !dead || err != nil {
		f.Fatal(dead, err)
	}
	letters, err := group.Of(f.ring).DeadLetters(ctx, 0, circulate.StreamStart, 10)
	if err != nil || len(letters) != 1 {
		f.Fatal(letters, err)
	}
	is(letters[0].Found)
	if _, err := group.Of(f.ring).ReplayDead(ctx, 0, letters[0].Position); err != nil {
		f.Fatal(err)
	}
	if batch, err = group.Of(f.ring).Read(ctx, l, 10, 1<<20, false); err != nil || len(batch.Messages) != 1 {
		f.Fatalf("read %+v, %v", batch, err)
	}
	is(batch.Messages[0])

	// Each group is told by itself, until it no longer asks, or is removed.
	told := func(want ...string) {
		f.Helper()
		crews, audits := len(o.events(crew)), len(o.events("audit"))
		end(text("a", "anna", "2"), circulate.Settlement{Outcome: circulate.AttemptRejected})
		for name, was := range map[string]int{crew: crews, "audit": audits} {
			if is := len(o.events(name)) - was; (is == 1) != slices.Contains(want, name) {
				f.Errorf("%s was told %d times, want %q", name, is, want)
			}
		}
		if got, err := streams.Told(ctx, 0); err != nil || !slices.Equal(got, want) {
			f.Errorf("%q are told, %v; want %q", got, err, want)
		}
	}
	o.asks("audit", true)
	told(crew, "audit")
	o.asks(crew, false)
	o.asks(crew, false)
	told("audit")
	if removed, err := group.Of(f.ring).Remove(ctx, "audit"); !removed || err != nil {
		f.Fatal(removed, err)
	}
	told()
	if err := streams.TellEvents(ctx, 0, "a b", true); err == nil {
		f.Error("a group with a space may ask")
	}
}

// fullSendEvents: a Redis at its memory limit takes the event of each step that ends a send,
// or leaves it in doubt.
func fullSendEvents(f *fullFixture) {
	ctx := context.Background()
	o := f.outbox("a")
	o.asks(crew, true)
	send := func() string { return o.queue(text("a", fmt.Sprint(o.steps), "1")) }
	attempt := func() circulate.Attempt {
		f.Helper()
		f.limit(false)
		a := o.attempt(alice, send())[0]
		f.full()
		return a
	}
	var want []string
	tells := func(id string, events ...string) {
		f.Helper()
		for _, event := range events {
			want = append(want, "send."+event+" "+id)
		}
		if got := o.told(); !slices.Equal(got, want) {
			f.Fatalf("told %q, want %q", got, want)
		}
	}
	for outcome, event := range map[circulate.SendOutcome]string{circulate.AttemptAccepted: "accepted", circulate.AttemptRejected: "rejected"} {
		a := attempt()
		o.settle(true, a, circulate.Settlement{Outcome: outcome})
		tells(a.ID, event)
	}
	for to, event := range map[circulate.SendState]string{circulate.SendAccepted: "accepted", circulate.SendRejected: "rejected"} {
		a := attempt()
		o.settle(true, a, circulate.Settlement{Outcome: circulate.AttemptUnknown})
		tells(a.ID, "unknown")
		_, err := o.sends.Resolve(ctx, a.ID, circulate.Resolution{Fence: a.Fence, To: to})
		f.must("resolve", err)
		tells(a.ID, event)
	}
	failed := attempt()
	_, err := o.sends.Fail(ctx, "a", failed.ID, "bounce", "")
	f.must("fail", err)
	tells(failed.ID, "failed")
	dead := attempt()
	o.sweep(0, nil, dead.ID)
	tells(dead.ID, "unknown")

	for _, step := range []func(){
		func() { o.sweep(time.Minute, nil) },
		func() { o.attempt(alice) },
	} {
		f.limit(false)
		s := text("a", "anna", "1")
		s.Expires = f.now().Add(time.Hour)
		o.queue(s)
		o.passed()
		record := f.text("HGET", f.key("sends"), s.ID)
		f.do("HSET", f.key("sends"), s.ID, strings.Replace(record, fmt.Sprintf("%013d", s.Expires.UnixMilli()), fmt.Sprintf("%013d", 1), 1))
		f.full()
		step()
		tells(s.ID, "expired")
	}
	f.limit(false)
	under := o.attempt(alice, send())[0].ID
	queued := send()
	f.full()
	if got, err := f.ring.Deregister(ctx, 0, []string{"a"}); got != 1 || err != nil {
		f.Errorf("deregistered %d, %v", got, err)
	}
	want = append(want, "send.canceled "+queued)
	tells(under, "unknown")
}

// sendEventTimes: the script writes times of any year.
func sendEventTimes(f *fixture) {
	o := f.outbox("a")
	o.asks(crew, true)
	for _, at := range []string{
		"1970-01-01T00:00:00Z", "1999-12-31T23:59:59.999Z", "2000-02-29T12:00:00.001Z", "2000-03-01T00:00:00Z", "2024-02-29T23:59:59Z",
		"2026-12-31T23:59:59Z", "2027-01-01T00:00:00Z", "2100-02-28T23:59:59.999Z", "2100-03-01T00:00:00Z", "2199-07-04T05:06:07.89Z",
	} {
		want, err := time.Parse(time.RFC3339Nano, at)
		if err != nil {
			f.Fatal(err)
		}
		id := o.queue(text("a", "anna", "1"))
		o.accept(o.attempt(alice, id)[0])
		queued := o.is(id, circulate.SendAccepted).Queued
		record := f.text("HGET", f.key("sends"), id)
		f.do("HSET", f.key("sends"), id, strings.Replace(record, fmt.Sprintf("anna%013d", queued.UnixMilli()), fmt.Sprintf("anna%013d", want.UnixMilli()), 1))
		if _, err := o.sends.Fail(context.Background(), "a", id, "", ""); err != nil {
			f.Fatal(err)
		}
		events := o.events(crew)
		if e, err := events[len(events)-1].SendEvent(); err != nil || e.State != "failed" || !e.Queued.Equal(want) {
			f.Errorf("%s is written as %v, %v", at, e.Queued, err)
		}
	}
}

// reshardEvents: a group that asks for events gets each of them once, and each account's in
// order, also while accounts move.
func reshardEvents(fx *fixture) {
	f, ctx := newResharding(fx, fromShards, toShards), context.Background()
	all := ids(8)
	f.registerAll(f.old, all)
	ensure := func(ring *circulate.Ring) {
		f.Helper()
		if _, err := group.Of(ring).Ensure(ctx, crew, func(int) string { return circulate.StreamStart }); err != nil {
			f.Fatal(err)
		}
		if err := group.Of(ring).TellEvents(ctx, crew, true); err != nil {
			f.Fatal(err)
		}
	}
	ensure(f.old)
	want := make(map[string][]string) // account -> sends in order
	send := func(ring *circulate.Ring) {
		f.Helper()
		for _, id := range all {
			s := text(id, "anna", "1")
			if _, _, err := ring.Sends().Queue(ctx, s, "", circulate.SendBounds{}); err != nil {
				f.Fatal(err)
			}
			want[id] = append(want[id], s.ID)
		}
		for shard := range ring.Shards() {
			attempts, _, err := ring.Sends().Attempt(ctx, shard, circulate.AttemptOrder{
				Replica: alice, Step: fmt.Sprint(shard, len(want[all[0]])), Kinds: []string{chat}, Most: 100, Lasts: time.Minute})
			if err != nil {
				f.Fatal(err)
			}
			for _, a := range attempts {
				settled, err := ring.Sends().Settle(ctx, []circulate.Settlement{{ID: a.ID, Fence: a.Fence, Outcome: circulate.AttemptAccepted}})
				if err != nil || !settled[0] {
					f.Fatal(settled, err)
				}
			}
		}
	}
	got := make(map[string][]string)
	read := func(ring *circulate.Ring) {
		f.Helper()
		for shard := range ring.Shards() {
			l, _, err := group.Of(ring).Member(crew, alice, time.Minute).Lease(ctx, shard)
			if err != nil || l == nil {
				f.Fatalf("lease of shard %d: %v, %v", shard, l, err)
			}
			batch, err := group.Of(ring).Read(ctx, l, 100, 1<<20, false)
			if err != nil {
				f.Fatal(err)
			}
			var positions []string
			for _, m := range batch.Messages {
				e, err := m.SendEvent()
				if err != nil {
					f.Fatal(err)
				}
				got[e.Account] = append(got[e.Account], e.ID)
				positions = append(positions, m.Position)
			}
			if _, err := group.Of(ring).Acknowledge(ctx, shard, crew, positions); err != nil {
				f.Fatal(err)
			}
		}
	}
	send(f.old)
	ring := f.begin() // nobody reads the new shards yet
	send(ring)
	if err := moveAll(ring); err != nil {
		f.Fatal(err)
	}
	send(ring)
	read(ring)
	after := f.finish(ring)
	send(after)
	read(after)
	for _, id := range all {
		if !slices.Equal(got[id], want[id]) {
			f.Errorf("of %s the group was told\n%q, want\n%q", id, got[id], want[id])
		}
	}
}
