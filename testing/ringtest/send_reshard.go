package ringtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rounds-dev/rounds/circulate"
)

// reshardSends moves accounts whose sends are in every state. All of them arrive, in
// their order, with keys and windows. An account waits for an attempt under way.
func reshardSends(fx *fixture) {
	f, ctx := newResharding(fx, fromShards, toShards), context.Background()
	all := ids(12)
	f.registerAll(f.old, all)
	ends := f.now().Add(time.Hour).Truncate(time.Second)
	attempt := func(ring *circulate.Ring, shard int, want ...string) map[string]circulate.Attempt {
		f.Helper()
		attempts, _, err := ring.Sends().Attempt(ctx, shard, circulate.AttemptOrder{
			Replica: alice, Step: fmt.Sprint(want, ring.Shards()), Kinds: []string{chat}, Most: 100, Lasts: time.Minute})
		if err != nil || len(attempts) < len(want) {
			f.Fatalf("attempts %+v, %v; want %q", attempts, err, want)
		}
		of := make(map[string]circulate.Attempt)
		for _, a := range attempts {
			of[a.ID] = a
		}
		return of
	}
	settle := func(ring *circulate.Ring, a circulate.Attempt, want bool, outcome circulate.SendOutcome) {
		f.Helper()
		settled, err := ring.Sends().Settle(ctx, []circulate.Settlement{{ID: a.ID, Fence: a.Fence, Outcome: outcome, VendorID: "v" + a.ID}})
		if err != nil || settled[0] != want {
			f.Fatalf("settled %v, %v; want %v", settled, err, want)
		}
	}
	queue := func(ring *circulate.Ring, s circulate.Send, key string, want bool) {
		f.Helper()
		if got, isNew, err := ring.Sends().Queue(ctx, s, key, circulate.SendBounds{}); err != nil || isNew != want || want && got.ID != s.ID {
			f.Fatalf("queued %s, %v, %v; want new %v", got.ID, isNew, err, want)
		}
	}
	accepted, doubted, under := make(map[string]circulate.Send), make(map[string]circulate.Attempt), make(map[string]circulate.Attempt)
	sends := make(map[string][]circulate.Send) // what waits, by account, in its order
	for _, id := range all {
		first, second := text(id, "ben", "1"), text(id, "cleo", "1")
		queue(f.old, first, "key", true)
		queue(f.old, second, "", true)
		accepted[id], doubted[id] = first, circulate.Attempt{Send: second}
	}
	for shard := range fromShards {
		for id, a := range attempt(f.old, shard) {
			if accepted[a.Account].ID == id {
				settle(f.old, a, true, circulate.AttemptAccepted)
				continue
			}
			settle(f.old, a, true, circulate.AttemptUnknown)
			doubted[a.Account] = a
		}
	}
	for _, id := range all {
		for i := range 12 { // more than nine, so that their places sort as numbers
			s := text(id, "anna", fmt.Sprint(i))
			s.Expires = ends
			queue(f.old, s, "", true)
			sends[id] = append(sends[id], s)
		}
	}
	stays := all[0]
	for id, a := range attempt(f.old, f.old.ShardOf(stays), sends[stays][0].ID) {
		if a.Account == stays {
			under[id] = a
		} else {
			settle(f.old, a, true, circulate.AttemptNotBegun)
		}
	}
	windowed := text(all[1], "dora", "1")
	windowed.Windowed, windowed.Waits = true, true
	queue(f.old, windowed, "", true)
	c := f.claimOf(f.old, alice)
	for _, id := range all {
		m := message("m")
		m.Answerable = &circulate.Answerable{Peer: "eve", For: time.Hour, Count: 3, Token: "t|" + id}
		f.give(f.old, circulate.Written, circulate.Return{Claim: c[id], Due: soon(c[id]), Kind: chat, Messages: []circulate.Message{m}})
	}

	// listed expects that each send is listed once, wherever it is.
	listed := func(ring *circulate.Ring) {
		f.Helper()
		for _, group := range []circulate.SendGroup{circulate.GroupQueued, circulate.GroupAttempting, circulate.GroupUnknown, circulate.GroupEnded} {
			var want []string
			for shard := range ring.Shards() {
				some, _, err := ring.Sends().List(ctx, shard, group, "", "", 1000)
				if err != nil {
					f.Fatal(err)
				}
				for _, s := range some {
					want = append(want, s.ID)
				}
			}
			got := f.walked(ring, group, "", 9)
			if slices.Sort(want); !slices.Equal(slices.Sorted(slices.Values(got)), want) {
				f.Errorf("group %c: listed %q, want %q", group, got, want)
			}
			for _, id := range all[:3] {
				of := slices.DeleteFunc(slices.Clone(got), func(send string) bool { return send[:8] != circulate.NewSendID(id)[:8] })
				if one := f.walked(ring, group, id, 2); !slices.Equal(one, of) {
					f.Errorf("group %c of %s: listed %q, want %q", group, id, one, of)
				}
			}
		}
	}
	listed(f.old)
	ring := f.begin()
	if err := moveAll(ring); err != nil {
		f.Fatal(err)
	}
	listed(ring)
	if left, err := ring.Mover().Remaining(ctx, f.old.ShardOf(stays)); err != nil || left.Accounts != 1 {
		f.Fatalf("left is %+v, %v; want one, whose attempt is under way", left, err)
	}
	// A late answer finds a send that has moved, whatever ring asks.
	settle(ring, doubted[all[2]], true, circulate.AttemptAccepted)
	if _, err := f.old.Sends().Settle(ctx, []circulate.Settlement{{ID: doubted[all[3]].ID, Fence: doubted[all[3]].Fence, Outcome: circulate.AttemptAccepted}}); !errors.Is(err, circulate.ErrResharding) {
		f.Errorf("settled by a ring from before: %v", err)
	}
	queue(ring, text(all[4], "ben", "1"), "key", false)
	if s, err := ring.Sends().Standing(ctx, all[5], circulate.SendQuery{Peers: 9, Latest: 99}); err != nil || s.Unknown != 1 || s.Windows != 1 || len(s.Latest) < 12 {
		f.Errorf("the sends of an account that has moved: %+v, %v", s, err)
	}
	// Nothing is attempted while accounts leave, so that they can.
	late := text(stays, "fay", "1")
	queue(ring, late, "", true)
	f.do("SET", f.oldKey(stays, "leaving"), f.now().Add(5*time.Second).UnixMilli())
	if got := attempt(ring, f.old.ShardOf(stays)); len(got) > 0 {
		f.Errorf("attempted while accounts leave: %+v", got)
	}
	if _, err := ring.Sends().Cancel(ctx, late.ID); err != nil {
		f.Error(err)
	}
	for _, a := range under {
		settle(f.old, a, true, circulate.AttemptAccepted)
	}
	sends[stays] = sends[stays][1:]
	after := f.finish(ring)
	f.lawful(after, len(all))
	listed(after)

	o := after.Sends()
	is := func(id string, want circulate.SendState) {
		f.Helper()
		if s, err := o.Look(ctx, id); err != nil || s.State != want {
			f.Errorf("send %s is %s, %v; want %s", id, s.State, err, want)
		}
	}
	for i, id := range all {
		is(accepted[id].ID, circulate.SendAccepted)
		want := circulate.SendUnknown
		if i == 2 {
			want = circulate.SendAccepted
		}
		is(doubted[id].ID, want)
		queue(after, text(id, "ben", "1"), "key", false)
		if w, known, err := o.Window(ctx, id, "eve"); err != nil || !known || w.Left != 3 || w.Token != "t|"+id {
			f.Errorf("the window of %s is %+v, %v, %v", id, w, known, err)
		}
		if got, err := o.Fail(ctx, id, "v"+accepted[id].ID, "4", "blocked"); got != accepted[id].ID || err != nil {
			f.Errorf("found by the vendor's id: %q, %v", got, err)
		}
	}
	is(windowed.ID, circulate.SendQueued)
	for round := range 12 {
		for shard := range after.Shards() {
			for _, a := range attempt(after, shard) {
				if want := sends[a.Account]; a.ID != want[0].ID || !a.Expires.Equal(ends) {
					f.Fatalf("round %d: of %s, %s comes before %s", round, a.Account, a.ID, want[0].ID)
				}
				sends[a.Account] = sends[a.Account][1:]
				settle(after, a, true, circulate.AttemptAccepted)
			}
		}
	}
	for id, left := range sends {
		if len(left) > 0 {
			f.Errorf("%d sends of %s never came", len(left), id)
		}
	}
}

// sendArchived restores the sends of a backup. What was under an attempt is unknown.
func sendArchived(f *fixture) {
	ctx := context.Background()
	o := f.outbox("a", "b", "c")
	o.finds("a", circulate.Answerable{Peer: "anna", For: time.Hour, Count: 3, Token: "t"})
	under, second := o.queue(text("a", "anna", "1")), o.queue(text("a", "anna", "2"))
	keyed := text("b", "ben", "1")
	if _, _, err := o.sends.Queue(ctx, keyed, "k", circulate.SendBounds{}); err != nil {
		f.Fatal(err)
	}
	var fenced circulate.Attempt
	for _, a := range o.attempt(alice, under, keyed.ID) {
		if a.ID == keyed.ID {
			o.settle(true, a, circulate.Settlement{Outcome: circulate.AttemptAccepted, VendorID: "v"})
		} else {
			fenced = a
		}
	}
	accounts, next, err := f.ring.Archive().Accounts(ctx, 0, "", 10)
	if err != nil || next != circulate.ScanDone || len(accounts) != 3 {
		f.Fatal(accounts, next, err)
	}
	if err := f.ring.Archive().Sends(ctx, 0, accounts); err != nil {
		f.Fatal(err)
	}
	for _, a := range accounts {
		if (a.Sends == "") != (a.ID == "c") {
			f.Errorf("the sends of %s: %q", a.ID, a.Sends)
		}
		if err := circulate.CheckSends(a.Sends); err != nil {
			f.Errorf("the sends of %s: %v", a.ID, err)
		}
		for _, cut := range []int{1, len(a.Sends) / 2} {
			if a.Sends != "" && circulate.CheckSends(a.Sends[:len(a.Sends)-cut]) == nil {
				f.Errorf("the sends of %s, without %d bytes, pass", a.ID, cut)
			}
		}
	}
	if n, err := f.ring.Deregister(ctx, 0, []string{"a", "b", "c"}); n != 3 || err != nil {
		f.Fatal(n, err)
	}
	if err := f.ring.Archive().LoadSends(ctx, 0, accounts); !errors.Is(err, circulate.ErrNotRegistered) {
		f.Errorf("sends of no account: %v", err)
	}
	if n, err := f.ring.Archive().Load(ctx, 0, accounts); n != 3 || err != nil {
		f.Fatal(n, err)
	}
	for range 2 {
		if err := f.ring.Archive().LoadSends(ctx, 0, accounts); err != nil {
			f.Fatal(err)
		}
		o.consistent()
	}
	o.is(under, circulate.SendUnknown)
	o.is(keyed.ID, circulate.SendAccepted)
	again := text("b", "ben", "1")
	if got, isNew, err := o.sends.Queue(ctx, again, "k", circulate.SendBounds{}); isNew || got.ID != keyed.ID || err != nil {
		f.Errorf("the same key: %s, %v, %v", got.ID, isNew, err)
	}
	if id, err := o.sends.Fail(ctx, "b", "v", "", ""); id != keyed.ID || err != nil {
		f.Errorf("by the vendor's id: %q, %v", id, err)
	}
	o.window("a", "anna", 3, "t")
	o.attempt(bob, second)
	o.settle(true, fenced, circulate.Settlement{Outcome: circulate.AttemptAccepted})
}
