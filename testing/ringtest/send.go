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

func sendLife(f *fixture) {
	o := f.outbox("a")
	o.asks(crew, true)
	s := text("a", "anna", "hello")
	s.ReplyTo = "0:1-1"
	id := o.queue(s)
	a := o.attempt(alice, id)[0]
	if string(a.Record) != `{"id":"a"}` || a.Attempts != 1 || a.Peer != "anna" || string(a.Data) != `"hello"` || a.ReplyTo != "0:1-1" || a.Type != "text" || a.Token != "" {
		f.Errorf("attempt %+v", a)
	}
	o.attempt(bob)
	o.settle(true, a, circulate.Settlement{Outcome: circulate.AttemptAccepted, VendorID: "v1", Code: "0", Text: "ok"})
	if got := o.is(id, circulate.SendAccepted); got.VendorID != "v1" || got.Code != "0" || got.Text != "ok" || got.Fence != a.Fence {
		f.Errorf("accepted as %+v", got)
	}
	o.attempt(bob)
	if got, want := o.told(), []string{"send.accepted " + id}; !slices.Equal(got, want) {
		f.Errorf("events %q, want %q", got, want)
	}
	if _, err := o.sends.Look(context.Background(), circulate.NewSendID("a")); !errors.Is(err, circulate.ErrNoSend) {
		f.Errorf("a send that is not there: %v", err)
	}
	o.passed()
	o.sweep(time.Minute, nil)
	o.asks(crew, false)
	if n := f.number("EXISTS", f.key("sends"), f.key("sends:line"), f.key("sends:due"), f.key("sends:index"), f.key("sends:ends"), f.key("sends:names"), f.key("windows")); n != 0 {
		f.Errorf("%d keys are left when all is forgotten", n)
	}
}

func sendOrder(f *fixture) {
	o := f.outbox("a", "b")
	first, second, third := o.queue(text("a", "anna", "1")), o.queue(text("a", "anna", "2")), o.queue(text("a", "anna", "3"))
	other, same := o.queue(text("a", "ben", "1")), o.queue(text("b", "anna", "1"))
	attempts := o.attempt(alice, first, other, same)
	o.attempt(bob) // one at a time
	of := func(id string) circulate.Attempt {
		i := slices.IndexFunc(attempts, func(a circulate.Attempt) bool { return a.ID == id })
		return attempts[i]
	}
	o.settle(true, of(first), circulate.Settlement{Outcome: circulate.AttemptRejected, Code: "40001"})
	attempts = append(attempts, o.attempt(bob, second)...)
	// What is tried again later still comes before what was queued after it.
	o.settle(true, of(second), circulate.Settlement{Outcome: circulate.AttemptAgain, After: f.now().Add(time.Hour), Code: "429"})
	o.attempt(alice)
	if got := o.is(second, circulate.SendQueued); got.Code != "429" || got.Attempts != 1 {
		f.Errorf("to be tried again: %+v", got)
	}
	_, next, err := o.sends.Attempt(context.Background(), 0, circulate.AttemptOrder{Replica: alice, Step: o.step(), Kinds: []string{chat}, Most: 1, Lasts: time.Minute})
	if left := next.Sub(f.now()); err != nil || left < 50*time.Minute || left > time.Hour {
		f.Errorf("the next is due in %v, %v", left, err)
	}
	if _, err := o.sends.Cancel(context.Background(), second); err != nil {
		f.Fatal(err)
	}
	o.consistent()
	o.attempt(alice, third)
	// Many wait for one peer, and some for peers whose names are next to it.
	o.queue(text("b", "carl", "1"))
	o.queue(text("b", "carl2", "1"))
	var line []string
	for i := range 12 {
		line = append(line, o.queue(text("b", "carl1", fmt.Sprint(i))))
	}
	o.consistent()
	for i, id := range line {
		attempts, _, err := o.sends.Attempt(context.Background(), 0, circulate.AttemptOrder{Replica: alice, Step: o.step(), Kinds: []string{chat}, Most: 10, Lasts: time.Minute})
		at := slices.IndexFunc(attempts, func(a circulate.Attempt) bool { return a.Peer == "carl1" })
		if err != nil || at < 0 || attempts[at].ID != id {
			f.Fatalf("attempt %d of twelve: %+v, %v; want %s", i, attempts, err, id)
		}
		o.accept(attempts[at])
	}
}

// sendsInOneOrder queues 250 sends of accounts of several shards, and expects lists of all of
// them in the order in which they were queued, or have ended. Pages neither repeat nor skip,
// also if sends come and go between two of them.
func sendsInOneOrder(f *fixture) {
	ctx := context.Background()
	f.ns += ".order"
	ring := f.open(f.server, 5)
	sends := ring.Sends()
	accounts, queued := ids(20), []string(nil)
	for _, id := range accounts {
		if _, err := ring.Register(ctx, ring.ShardOf(id), []circulate.Registration{{ID: id, Record: []byte(`{}`)}}); err != nil {
			f.Fatal(err)
		}
	}
	queue := func(i int) {
		f.Helper()
		account := accounts[0] // one shard has most of the oldest
		if i >= 120 {
			account = accounts[i*7%len(accounts)]
		}
		s := text(account, "anna", fmt.Sprint(i))
		if _, _, err := sends.Queue(ctx, s, "", circulate.SendBounds{}); err != nil {
			f.Fatal(err)
		}
		queued = append(queued, s.ID)
	}
	for i := range 250 {
		queue(i)
	}
	same := func(what string, got, want []string) {
		f.Helper()
		// What was queued in one millisecond is in the order of ids.
		if !slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))) {
			f.Errorf("%s: listed %d sends, want %d", what, len(got), len(want))
		}
	}
	for _, n := range []int{1, 7, 100, 250, 1000} {
		same(fmt.Sprint("pages of ", n), f.walked(ring, circulate.GroupQueued, "", n), queued)
	}
	// A version before this one did not write the order of time, in some shards not at all.
	for shard := range 3 {
		index := ring.Tag(shard) + ":sends:index"
		for i, member := range f.strings("ZRANGEBYLEX", index, "[t", "(u") {
			if shard == 0 || i%2 == 0 {
				f.do("ZREM", index, member)
			}
		}
	}
	same("without an order", f.walked(ring, circulate.GroupQueued, "", 100), queued)

	page, behind, err := sends.Oldest(ctx, circulate.GroupQueued, "", "", 100)
	if err != nil || len(page) == 0 || len(page) > 100 {
		f.Fatal(len(page), err)
	}
	rest := slices.DeleteFunc(slices.Clone(queued), func(id string) bool {
		return slices.ContainsFunc(page, func(s circulate.Send) bool { return s.ID == id })
	})
	cancel := func(id string) {
		f.Helper()
		if _, err := sends.Cancel(ctx, id); err != nil {
			f.Fatal(err)
		}
	}
	cancel(page[len(page)-1].ID) // where the next page begins
	cancel(rest[len(rest)-1])
	queue(250)
	rest = append(rest[:len(rest)-1], queued[250])
	var got []string
	for behind != "" {
		if page, behind, err = sends.Oldest(ctx, circulate.GroupQueued, "", behind, 60); err != nil {
			f.Fatal(err)
		}
		for _, s := range page {
			got = append(got, s.ID)
		}
	}
	same("after changes", got, rest)
	for i := len(rest) - 1; i >= 0; i -= 2 {
		cancel(rest[i])
	}
	if n, want := len(f.walked(ring, circulate.GroupEnded, "", 30)), 2+(len(rest)+1)/2; n != want {
		f.Errorf("%d have ended, want %d", n, want)
	}
	if _, _, err := sends.Oldest(ctx, circulate.GroupQueued, "", "x", 1); err == nil {
		f.Error("a place that is none was taken")
	}
}

func sendKeys(f *fixture) {
	ctx := context.Background()
	o := f.outbox("a", "b")
	s := text("a", "anna", "1")
	queued, isNew, err := o.sends.Queue(ctx, s, "k", circulate.SendBounds{})
	if err != nil || !isNew {
		f.Fatal(queued, isNew, err)
	}
	same := func(want string, send circulate.Send, key string) {
		f.Helper()
		got, isNew, err := o.sends.Queue(ctx, send, key, circulate.SendBounds{})
		if err != nil || isNew != (want == send.ID && want != s.ID) || got.ID != want {
			f.Errorf("queued %s, new %v, %v; want %s", got.ID, isNew, err, want)
		}
		o.consistent()
	}
	again := text("a", "anna", "1")
	same(s.ID, again, "k")
	same(s.ID, s, "k") // its reply was lost
	same(s.ID, s, "")
	others := text("b", "anna", "1")
	same(others.ID, others, "k") // of another account
	another := text("a", "anna", "2")
	if _, _, err := o.sends.Queue(ctx, another, "k", circulate.SendBounds{}); !errors.Is(err, circulate.ErrSendConflict) {
		f.Errorf("another send with the same key: %v", err)
	}
	other := s
	other.Data = []byte(`"2"`)
	if _, _, err := o.sends.Queue(ctx, other, "", circulate.SendBounds{}); !errors.Is(err, circulate.ErrSendConflict) {
		f.Errorf("another send with the same id: %v", err)
	}
	for _, a := range o.attempt(alice, s.ID, others.ID) {
		o.accept(a)
	}
	same(s.ID, again, "k")
	o.attempt(alice)
	// The key outlives the send.
	f.do("ZADD", f.key("sends:ends"), 1, s.ID)
	o.sweep(time.Minute, nil)
	same(s.ID, again, "k")
	o.attempt(alice)
	o.passed()
	o.sweep(time.Minute, nil)
	same(again.ID, again, "k")
	o.attempt(alice, again.ID)
}

// sendFences: only the send's last attempt is settled.
func sendFences(f *fixture) {
	ctx := context.Background()
	o := f.outbox("a")
	o.asks(crew, true)
	id := o.queue(text("a", "anna", "1"))
	first := o.attempt(alice, id)[0]
	o.settle(true, first, circulate.Settlement{Outcome: circulate.AttemptNotBegun})
	if got := o.is(id, circulate.SendQueued); got.Attempts != 0 {
		f.Errorf("an attempt that did not begin is counted: %d", got.Attempts)
	}
	for _, outcome := range []circulate.SendOutcome{circulate.AttemptAccepted, circulate.AttemptRejected, circulate.AttemptUnknown, circulate.AttemptAgain, circulate.AttemptUnsent, circulate.AttemptNotBegun} {
		o.settle(false, first, circulate.Settlement{Outcome: outcome})
	}
	second := o.attempt(bob, id)[0]
	if second.Fence == first.Fence {
		f.Fatal("two attempts have one fence")
	}
	o.settle(false, first, circulate.Settlement{Outcome: circulate.AttemptRejected})
	o.is(id, circulate.SendAttempting)
	o.settle(true, second, circulate.Settlement{Outcome: circulate.AttemptAccepted, VendorID: "v"})
	o.settle(true, second, circulate.Settlement{Outcome: circulate.AttemptAccepted, VendorID: "v"}) // its reply was lost
	for _, outcome := range []circulate.SendOutcome{circulate.AttemptRejected, circulate.AttemptUnknown, circulate.AttemptAgain, circulate.AttemptUnsent, circulate.AttemptNotBegun} {
		o.settle(false, second, circulate.Settlement{Outcome: outcome})
	}
	o.is(id, circulate.SendAccepted)
	if got := o.told(); len(got) != 1 {
		f.Errorf("events %q", got)
	}
	if _, err := o.sends.Cancel(ctx, id); !errors.Is(err, circulate.ErrSendState) {
		f.Errorf("canceled after it was accepted: %v", err)
	}
	if _, err := o.sends.Resolve(ctx, id, circulate.Resolution{Fence: second.Fence, To: circulate.SendQueued}); !errors.Is(err, circulate.ErrSendState) {
		f.Errorf("an accepted send is sent again: %v", err)
	}
	o.attempt(alice)
}

// sendUnknown: a doubt stays one until somebody decides, and holds up nobody.
func sendUnknown(f *fixture) {
	ctx := context.Background()
	o := f.outbox("a")
	o.asks(crew, true)
	first, second := o.queue(text("a", "anna", "1")), o.queue(text("a", "anna", "2"))
	a := o.attempt(alice, first)[0]
	o.sweep(time.Hour, nil)
	o.sweep(0, []string{alice})
	o.is(first, circulate.SendAttempting)
	o.sweep(0, []string{bob}, first) // alice is dead
	if got := o.is(first, circulate.SendUnknown); got.Fence != a.Fence {
		f.Errorf("unknown as %+v", got)
	}
	b := o.attempt(bob, second)[0]
	o.passed()
	o.sweep(time.Hour, []string{alice, bob}, second) // it has lasted too long
	o.attempt(alice)
	o.passed()
	o.sweep(0, nil)
	o.is(second, circulate.SendUnknown)
	unknown, _, err := o.sends.List(ctx, 0, circulate.GroupUnknown, "a", "", 10)
	if err != nil || len(unknown) != 2 {
		f.Errorf("listed %+v, %v", unknown, err)
	}

	// A late answer ends a doubt.
	for _, outcome := range []circulate.SendOutcome{circulate.AttemptAgain, circulate.AttemptUnsent, circulate.AttemptNotBegun} {
		o.settle(false, b, circulate.Settlement{Outcome: outcome})
	}
	o.is(second, circulate.SendUnknown)
	o.settle(true, b, circulate.Settlement{Outcome: circulate.AttemptAccepted})
	o.is(second, circulate.SendAccepted)

	// Sent again it is the last of its peer, and late answers come too late.
	third := o.queue(text("a", "anna", "3"))
	if _, err := o.sends.Resolve(ctx, first, circulate.Resolution{Fence: "another", To: circulate.SendQueued}); !errors.Is(err, circulate.ErrSendState) {
		f.Errorf("resolved as somebody else saw it: %v", err)
	}
	again, err := o.sends.Resolve(ctx, first, circulate.Resolution{Fence: a.Fence, To: circulate.SendQueued})
	if err != nil || again.State != circulate.SendQueued || again.Attempts != 1 {
		f.Fatalf("resolved to %+v, %v", again, err)
	}
	o.consistent()
	if _, err := o.sends.Resolve(ctx, first, circulate.Resolution{Fence: a.Fence, To: circulate.SendQueued}); !errors.Is(err, circulate.ErrSendState) {
		f.Errorf("resolved twice: %v", err)
	}
	o.settle(false, a, circulate.Settlement{Outcome: circulate.AttemptAccepted})
	c := o.attempt(bob, third)[0]
	o.settle(true, c, circulate.Settlement{Outcome: circulate.AttemptUnknown})
	d := o.attempt(bob, first)[0]
	o.settle(true, d, circulate.Settlement{Outcome: circulate.AttemptRejected, Code: "x"})
	resolved, err := o.sends.Resolve(ctx, third, circulate.Resolution{Fence: c.Fence, To: circulate.SendAccepted, VendorID: "v3", Text: "seen by hand"})
	if err != nil || resolved.State != circulate.SendAccepted || resolved.VendorID != "v3" || resolved.Text != "seen by hand" {
		f.Errorf("resolved to %+v, %v", resolved, err)
	}
	// What was rejected may be sent again.
	if _, err := o.sends.Resolve(ctx, first, circulate.Resolution{Fence: d.Fence, To: circulate.SendQueued}); err != nil {
		f.Error(err)
	}
	o.consistent()
	o.attempt(bob, first)
	if _, err := o.sends.Resolve(ctx, third, circulate.Resolution{Fence: c.Fence, To: circulate.SendRejected}); !errors.Is(err, circulate.ErrSendState) {
		f.Errorf("an accepted send is resolved: %v", err)
	}
	if _, err := o.sends.Resolve(ctx, circulate.NewSendID("a"), circulate.Resolution{To: circulate.SendQueued}); !errors.Is(err, circulate.ErrNoSend) {
		f.Errorf("resolved what is not there: %v", err)
	}
	want := []string{"send.unknown " + first, "send.unknown " + second, "send.accepted " + second, "send.unknown " + third, "send.rejected " + first, "send.accepted " + third}
	if got := o.told(); !slices.Equal(got, want) {
		f.Errorf("events\n%q, want\n%q", got, want)
	}
}

// sendWithFile: an attempt may last longer if its send has a file, and no other one may.
func sendWithFile(f *fixture) {
	o := f.outbox("a")
	plain, file := text("a", "anna", "a file"), text("a", "ben", "")
	file.Data = []byte(`{"file":"f"}`)
	o.queue(plain)
	o.queue(file)
	order := circulate.AttemptOrder{Replica: alice, Step: o.step(), Kinds: []string{chat}, Most: 10, Lasts: time.Minute, WithFile: time.Hour}
	if attempts, _, err := o.sends.Attempt(context.Background(), 0, order); err != nil || len(attempts) != 2 {
		o.Fatal(attempts, err)
	}
	o.sweep(time.Minute, []string{alice})
	for _, id := range []string{plain.ID, file.ID} {
		o.do("ZINCRBY", o.key("sends:ends"), -30*60_000, id)
	}
	o.sweep(time.Minute, []string{alice}, plain.ID)
	o.is(file.ID, circulate.SendAttempting)
}

// sendWithdraws: a step whose reply was lost is undone, even if it has yet to come.
func sendWithdraws(f *fixture) {
	ctx := context.Background()
	o := f.outbox("a")
	first, second := o.queue(text("a", "anna", "1")), o.queue(text("a", "anna", "2"))
	lost, late := "lost", "late"
	take := func(step string, want int) {
		f.Helper()
		attempts, _, err := o.sends.Attempt(ctx, 0, circulate.AttemptOrder{Replica: alice, Step: step, Kinds: []string{chat}, Most: 5, Lasts: time.Minute})
		if err != nil || len(attempts) != want {
			f.Fatalf("attempts %+v, %v; want %d", attempts, err, want)
		}
	}
	take(lost, 1)
	withdraw := func(replica, step string, want int) {
		f.Helper()
		if n, err := o.sends.Withdraw(ctx, 0, replica, step); n != want || err != nil {
			f.Fatalf("withdrew %d, %v; want %d", n, err, want)
		}
		o.consistent()
	}
	withdraw(bob, late, 0)
	o.is(first, circulate.SendAttempting)
	withdraw(alice, late, 0)
	o.is(first, circulate.SendAttempting)
	withdraw(alice, lost, 1)
	withdraw(alice, lost, 0)
	take(late, 0)
	take(lost, 0)
	if got := o.is(first, circulate.SendQueued); got.Attempts != 0 || got.Fence != "" {
		f.Errorf("withdrawn, it is %+v", got)
	}
	a := o.attempt(alice, first)[0]
	withdraw(alice, lost, 0)
	o.accept(a)
	o.attempt(alice, second)
	o.passed()
	o.sweep(time.Hour, nil, second)
	if n := f.number("HLEN", f.key("sends:names")); n != 0 {
		f.Errorf("%d names of steps are remembered", n)
	}
}

func sendCancels(f *fixture) {
	ctx := context.Background()
	o := f.outbox("a")
	o.asks(crew, true)
	first, second, third := o.queue(text("a", "anna", "1")), o.queue(text("a", "anna", "2")), o.queue(text("a", "anna", "3"))
	cancel := func(id string, want error) {
		f.Helper()
		if _, err := o.sends.Cancel(ctx, id); !errors.Is(err, want) {
			f.Errorf("cancel: %v, want %v", err, want)
		}
		o.consistent()
	}
	cancel(second, nil)
	cancel(second, nil)
	cancel(first, nil)
	o.attempt(alice, third)
	cancel(third, circulate.ErrSendState)
	cancel(circulate.NewSendID("a"), circulate.ErrNoSend)
	cancel("no id", circulate.ErrNoSend)
	if got := o.told(); len(got) != 0 {
		f.Errorf("events %q", got)
	}
}

func sendExpires(f *fixture) {
	o := f.outbox("a")
	o.asks(crew, true)
	at := f.now().Add(time.Hour)
	expiring := func(peer string) string {
		s := text("a", peer, "1")
		s.Expires = at
		return o.queue(s)
	}
	first, behind := expiring("anna"), expiring("anna")
	last := o.queue(text("a", "anna", "3"))
	o.sweep(time.Minute, nil)
	o.is(first, circulate.SendQueued)
	o.passed()
	if swept := o.sweep(time.Minute, nil); swept.Expired != 2 {
		f.Errorf("swept %+v, want two expired", swept)
	}
	o.is(first, circulate.SendExpired)
	o.is(behind, circulate.SendExpired)
	o.attempt(alice, last)
	// Nobody has swept, and still nothing is sent too late.
	short := text("a", "ben", "1")
	short.Expires = at
	o.queue(short)
	record := f.text("HGET", f.key("sends"), short.ID)
	f.do("HSET", f.key("sends"), short.ID, strings.Replace(record, fmt.Sprint(at.UnixMilli()), "0000000000001", 1))
	o.attempt(alice)
	o.is(short.ID, circulate.SendExpired)
	if _, _, err := o.sends.Queue(context.Background(), func() circulate.Send {
		s := text("a", "ben", "2")
		s.Expires = f.now().Add(-time.Second)
		return s
	}(), "", circulate.SendBounds{}); !errors.Is(err, circulate.ErrSendExpired) {
		f.Errorf("queued after it expired: %v", err)
	}
	want := []string{"send.expired " + short.ID}
	if got := o.told(); !slices.Equal(got[len(got)-1:], want) || len(got) != 3 {
		f.Errorf("events %q", got)
	}
}

// sendBounds: no more wait than may.
func sendBounds(f *fixture) {
	ctx := context.Background()
	o := f.outbox("a", "b")
	bounds := circulate.SendBounds{Account: 3, All: 3}
	queue := func(account string) (string, error) {
		s := text(account, "anna", "1")
		_, _, err := o.sends.Queue(ctx, s, "", bounds)
		return s.ID, err
	}
	refused := func(account string, all bool) {
		f.Helper()
		_, err := queue(account)
		if busy := (*circulate.SendsBusyError)(nil); !errors.As(err, &busy) || busy.All != all || busy.After <= 0 {
			f.Errorf("queued: %v", err)
		}
		o.consistent()
	}
	first, err := queue("a")
	if err != nil {
		f.Fatal(err)
	}
	a := o.attempt(alice, first)[0]
	o.settle(true, a, circulate.Settlement{Outcome: circulate.AttemptUnknown}) // it counts
	second, _ := queue("a")
	if _, err := queue("a"); err != nil {
		f.Error(err)
	}
	refused("a", false)
	if _, err := queue("b"); err != nil {
		f.Error(err)
	}
	refused("b", true)
	if _, err := o.sends.Cancel(ctx, second); err != nil {
		f.Fatal(err)
	}
	if _, err := queue("b"); err != nil {
		f.Errorf("one was canceled: %v", err)
	}
	if _, _, err := o.sends.Queue(ctx, text("nobody", "anna", "1"), "", bounds); !errors.Is(err, circulate.ErrNotRegistered) {
		f.Errorf("a send of no account: %v", err)
	}
}

// sendEnded: so many sends that have ended are remembered, the latest.
func sendEnded(f *fixture) {
	o := f.outbox("a", "b")
	ctx := context.Background()
	other := o.queue(text("b", "anna", "1"))
	var ids []string
	for i := range circulate.MostEndedSends + 2 {
		ids = append(ids, o.queue(text("a", fmt.Sprint(i), "1")))
	}
	for _, id := range append([]string{other}, ids...) {
		if _, err := o.sends.Cancel(ctx, id); err != nil {
			f.Fatal(err)
		}
	}
	o.consistent()
	for i, id := range ids {
		_, err := o.sends.Look(ctx, id)
		if gone := errors.Is(err, circulate.ErrNoSend); i > 20 && gone || err != nil && !gone { // some may have ended in one millisecond
			f.Errorf("send %d: %v", i, err)
		}
	}
	o.is(other, circulate.SendCanceled)
	ended, next, err := o.sends.List(ctx, 0, circulate.GroupEnded, "a", "", 200)
	if err != nil || len(ended) != 200 || next == "" {
		f.Fatal(len(ended), next, err)
	}
	rest, next, err := o.sends.List(ctx, 0, circulate.GroupEnded, "a", next, 200)
	if err != nil || len(ended)+len(rest) != circulate.MostEndedSends || next != "" {
		f.Fatal(len(rest), next, err)
	}
}

func sendPaused(f *fixture) {
	ctx := context.Background()
	o := f.outbox("a", "b")
	paused, failing := o.queue(text("a", "anna", "1")), o.queue(text("b", "anna", "1"))
	for id, reason := range map[string]string{"a": circulate.ReasonPaused, "b": "auth: 40001"} {
		if n, err := f.ring.Park(ctx, 0, reason, []string{id}); n != 1 || err != nil {
			f.Fatal(n, err)
		}
	}
	o.attempt(alice, failing)
	o.is(paused, circulate.SendQueued)
	if err := f.ring.Account("a").Resume(ctx, circulate.Resumption{}); err != nil {
		f.Fatal(err)
	}
	_, next, err := o.sends.Attempt(ctx, 0, circulate.AttemptOrder{Replica: alice, Step: o.step(), Kinds: []string{chat}, Most: 1, Lasts: time.Minute})
	if left := next.Sub(f.now()); err != nil || left > 6*time.Second {
		f.Errorf("looked at again in %v, %v", left, err)
	}
}

// sendDeregistered: nothing of a deregistered account is sent, and nothing of it is left.
func sendDeregistered(f *fixture) {
	ctx := context.Background()
	o := f.outbox("a", "b")
	o.asks(crew, true)
	f.claim(alice, "a", "b")
	under, waiting, other := o.queue(text("a", "anna", "1")), o.queue(text("a", "anna", "2")), o.queue(text("b", "anna", "1"))
	keyed := text("a", "ben", "1")
	if _, _, err := o.sends.Queue(ctx, keyed, "k", circulate.SendBounds{}); err != nil {
		f.Fatal(err)
	}
	attempts := o.attempt(alice, under, keyed.ID, other)
	for _, a := range attempts {
		if a.ID == keyed.ID {
			o.settle(true, a, circulate.Settlement{Outcome: circulate.AttemptAccepted, VendorID: "v"})
		}
	}
	if n, err := f.ring.Deregister(ctx, 0, []string{"a"}); n != 1 || err != nil {
		f.Fatal(n, err)
	}
	o.consistent()
	o.attempt(bob)
	for _, a := range attempts {
		o.settle(a.ID == other, a, circulate.Settlement{Outcome: circulate.AttemptAccepted})
	}
	f.register("a")
	o.attempt(bob)
	for _, id := range []string{under, waiting, keyed.ID} {
		if _, err := o.sends.Look(ctx, id); !errors.Is(err, circulate.ErrNoSend) {
			f.Errorf("a send of a deregistered account: %v", err)
		}
	}
	o.asks(crew, false)
	if n := f.number("HLEN", f.key("sends:names")); n != 0 {
		f.Errorf("%d names are left", n)
	}
	got := o.told()
	for _, want := range []string{"send.accepted " + keyed.ID, "send.unknown " + under, "send.canceled " + waiting, "send.accepted " + other} {
		if !slices.Contains(got, want) {
			f.Errorf("events %q without %q", got, want)
		}
	}
}

func sendKinds(f *fixture) {
	ctx := context.Background()
	o := f.outbox("a", "b")
	mine, others := o.queue(text("a", "anna", "1")), text("b", "anna", "1")
	others.Kind = "chat2"
	o.queue(others)
	take := func(want string, kinds ...string) {
		f.Helper()
		attempts, _, err := o.sends.Attempt(ctx, 0, circulate.AttemptOrder{Replica: alice, Step: o.step(), Kinds: kinds, Most: 1, Lasts: time.Minute})
		if err != nil || len(attempts) != 1 || attempts[0].ID != want {
			f.Errorf("of %q attempted %+v, %v", kinds, attempts, err)
		}
	}
	o.attempt(alice, mine)
	if attempts, next, err := o.sends.Attempt(ctx, 0, circulate.AttemptOrder{Replica: alice, Step: o.step(), Most: 1, Lasts: time.Minute}); err != nil || len(attempts) != 0 || !next.IsZero() {
		f.Errorf("without a kind: %+v, %v, %v", attempts, next, err)
	}
	take(others.ID, "feed", "chat2")
}

func sendFails(f *fixture) {
	ctx := context.Background()
	o := f.outbox("a", "b")
	o.asks(crew, true)
	byVendor, byUs, early := o.queue(text("a", "anna", "1")), o.queue(text("a", "ben", "1")), o.queue(text("a", "cleo", "1"))
	var earlyAttempt circulate.Attempt
	for _, a := range o.attempt(alice, byVendor, byUs, early) {
		switch a.ID {
		case byVendor:
			o.settle(true, a, circulate.Settlement{Outcome: circulate.AttemptAccepted, VendorID: "v1"})
		case byUs:
			o.settle(true, a, circulate.Settlement{Outcome: circulate.AttemptUnknown})
		case early:
			earlyAttempt = a
		}
	}
	fail := func(account, id, want string) {
		f.Helper()
		got, err := o.sends.Fail(ctx, account, id, "4", "blocked")
		if got != want || (want == "") != errors.Is(err, circulate.ErrNoSend) {
			f.Errorf("failed %q, %v; want %q", got, err, want)
		}
		o.consistent()
	}
	fail("b", "v1", "")
	fail("b", byUs, "")
	fail("a", "v2", "")
	fail("a", "v1", byVendor)
	fail("a", "v1", byVendor)
	fail("a", byUs, byUs)
	fail("a", early, early)
	o.settle(false, earlyAttempt, circulate.Settlement{Outcome: circulate.AttemptAccepted})
	for _, id := range []string{byVendor, byUs, early} {
		if s := o.is(id, circulate.SendFailed); s.Code != "4" || s.Text != "blocked" {
			f.Errorf("failed as %+v", s)
		}
	}
	failed := slices.DeleteFunc(o.told(), func(e string) bool { return !strings.HasPrefix(e, "send.failed") })
	if len(failed) != 3 {
		f.Errorf("events %q", failed)
	}
}

func sendBadInput(f *fixture) {
	ctx := context.Background()
	o := f.outbox("a")
	for name, change := range map[string]func(*circulate.Send){
		"account": func(s *circulate.Send) { s.Account = "" },
		"id":      func(s *circulate.Send) { s.ID = circulate.NewSendID("b") },
		"no id":   func(s *circulate.Send) { s.ID = "" },
		"kind":    func(s *circulate.Send) { s.Kind = "a\tb" },
		"peer":    func(s *circulate.Send) { s.Peer = "a\x00b" },
		"no peer": func(s *circulate.Send) { s.Peer = "" },
		"data":    func(s *circulate.Send) { s.Data = make([]byte, circulate.MaxSendData+1) },
	} {
		s := text("a", "anna", "1")
		change(&s)
		if _, _, err := o.sends.Queue(ctx, s, "", circulate.SendBounds{}); err == nil || circulate.Unknown(err) {
			f.Errorf("%s: %v", name, err)
		}
	}
	for name, order := range map[string]circulate.AttemptOrder{
		"replica": {Replica: "x", Step: "s", Most: 1, Lasts: time.Minute},
		"step":    {Replica: alice, Most: 1, Lasts: time.Minute},
		"most":    {Replica: alice, Step: "s", Lasts: time.Minute},
		"lasts":   {Replica: alice, Step: "s", Most: 1},
	} {
		if _, _, err := o.sends.Attempt(ctx, 0, order); err == nil {
			f.Errorf("attempt: %s is taken", name)
		}
	}
	if _, err := o.sends.Settle(ctx, nil); err == nil {
		f.Error("settled nothing")
	}
	if _, err := o.sends.Resolve(ctx, circulate.NewSendID("a"), circulate.Resolution{To: circulate.SendUnknown}); err == nil {
		f.Error("resolved to be unknown")
	}
}

// sendMistyped spoils one key of the outbox after the other: the shard goes on.
func sendMistyped(f *fixture) {
	o := f.outbox("a")
	for _, name := range []string{"sends", "sends:line", "sends:due", "sends:index", "sends:ends", "sends:names", "windows", "messages"} {
		for _, key := range []string{"sends", "sends:line", "sends:due", "sends:index", "sends:ends", "sends:names", "windows", "messages"} {
			f.do("DEL", f.key(key))
		}
		f.do("SET", f.key(name), "spoilt")
		o.finds("a", circulate.Answerable{Peer: "anna", For: time.Hour})
		f.do("SET", f.key(name), "spoilt")
		id := text("a", "anna", name)
		if _, _, err := o.sends.Queue(context.Background(), id, "k", circulate.SendBounds{}); err != nil {
			f.Fatalf("with %s spoilt: %v", name, err)
		}
		o.accept(o.attempt(alice, id.ID)[0])
	}
}

// fullSends: what is queued can be sent and settled on a Redis at its memory limit, and no
// more is taken over.
func fullSends(f *fullFixture) {
	ctx := context.Background()
	o := f.outbox("a")
	var ids []string
	for i := range 6 {
		ids = append(ids, o.queue(text("a", fmt.Sprint(i), "1")))
	}
	f.full()
	s := text("a", "anna", "1")
	_, _, err := o.sends.Queue(ctx, s, "k", circulate.SendBounds{})
	f.refused("queue", err)
	if _, err := o.sends.Look(ctx, s.ID); !errors.Is(err, circulate.ErrNoSend) {
		f.Errorf("refused, it is there: %v", err)
	}
	o.consistent()
	outcomes := []circulate.SendOutcome{circulate.AttemptAccepted, circulate.AttemptRejected, circulate.AttemptUnknown, circulate.AttemptAgain, circulate.AttemptUnsent}
	for i, a := range o.attempt(alice, ids...) {
		if i < len(outcomes) {
			o.settle(true, a, circulate.Settlement{Outcome: outcomes[i], After: f.now().Add(time.Hour), VendorID: "v"})
		}
	}
	n, err := o.sends.Withdraw(ctx, 0, alice, "step1")
	if err != nil || n != 1 {
		f.Errorf("withdrew %d, %v", n, err)
	}
	f.limit(false)
	o.passed()
	f.full()
	o.sweep(0, nil)
	for _, s := range o.all() {
		if s.State == circulate.SendQueued {
			_, err := o.sends.Cancel(ctx, s.ID)
			f.must("cancel", err)
		}
		if s.State == circulate.SendUnknown {
			_, err := o.sends.Resolve(ctx, s.ID, circulate.Resolution{Fence: s.Fence, To: circulate.SendQueued})
			f.must("resolve", err)
		}
	}
	o.consistent()
	if got, err := f.ring.Deregister(ctx, 0, []string{"a"}); got != 1 || err != nil {
		f.Errorf("deregistered %d, %v", got, err)
	}
	o.consistent()
}
