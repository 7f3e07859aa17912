package ringtest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/circulate"
)

// claimKinds claims up to n accounts as a replica that checks the given kinds, and expects the
// ids in that order. It returns the claims and the batch.
func (f *fixture) claimKinds(replica string, n int, kinds []string, want ...string) ([]*circulate.Claim, circulate.Batch) {
	f.Helper()
	b, err := f.ring.Claim(context.Background(), 0, replica, n, 0, kinds...)
	if err != nil {
		f.Fatal(err)
	}
	claims := make([]*circulate.Claim, len(b.Claims))
	got := make([]string, 0, len(want))
	for i := range b.Claims {
		claims[i] = &b.Claims[i]
		got = append(got, b.Claims[i].ID)
	}
	if !slices.Equal(got, want) {
		f.Fatalf("%s claimed %q of the kinds %q, want %q", replica, got, kinds, want)
	}
	return claims, b
}

// handOver hands claims over for a kind, and expects that want of them were held.
func (f *fixture) handOver(want int, kind string, claims ...*circulate.Claim) {
	f.Helper()
	var all []circulate.HandOver
	for _, c := range claims {
		all = append(all, circulate.HandOver{Claim: c, Kind: kind})
	}
	if n, err := f.ring.Kinds().HandOver(context.Background(), 0, all); err != nil || n != want {
		f.Fatalf("handed over %d, want %d: %v", n, want, err)
	}
}

var (
	feeds = []string{"feed", "http"}
	mails = []string{"mail"}
)

// kindsPassedBy hands over an account that a replica cannot check. From then on only replicas
// that check its kind get it, wherever it is put meanwhile.
func kindsPassedBy(f *fixture) {
	f.register("f", "m")
	c, _ := f.claimKinds(alice, 10, feeds, "f", "m")
	f.handOver(1, "mail", c[1])
	f.conserved()
	f.ret(circulate.Fenced, circulate.Return{Claim: c[1]})
	f.ret(circulate.Written, circulate.Return{Claim: c[0]})
	for i := range 3 {
		c, b := f.claimKinds(alice, 10, feeds, "f")
		if b.Void != 0 || b.Passed != 0 || b.More {
			f.Errorf("%d void, %d passed by, more: %v", b.Void, b.Passed, b.More)
		}
		r := circulate.Return{Claim: c[0]}
		if i == 2 {
			r.Due = soon(c[0])
		}
		f.ret(circulate.Written, r)
	}
	// The replica of its kind makes it due at once, releases it, or dies with it. Each time
	// the account has a fresh ticket, and the other replica passes it by.
	put := []func(c *circulate.Claim){
		func(c *circulate.Claim) { f.ret(circulate.Written, circulate.Return{Claim: c}) },
		func(c *circulate.Claim) {
			if n, err := f.ring.Release(context.Background(), 0, []*circulate.Claim{c}); n != 1 || err != nil {
				f.Fatal(n, err)
			}
		},
		func(c *circulate.Claim) { f.requeue(circulate.Moved, f.oldest()[0]) },
		func(c *circulate.Claim) {
			f.ret(circulate.Written, circulate.Return{Claim: c, Due: soon(c)})
			if err := f.ring.Account("m").Nudge(context.Background(), circulate.Nudge{}); err != nil {
				f.Fatal(err)
			}
		},
	}
	for i, put := range put {
		c, _ := f.claimKinds(bob, 10, mails, "m")
		if len(c[0].ID) == 0 || c[0].Due.IsZero() {
			f.Errorf("claim %d: %+v", i, c[0])
		}
		put(c[0])
		if _, b := f.claimKinds(alice, 10, feeds); b.Passed != 1 {
			f.Errorf("after step %d %d were passed by", i, b.Passed)
		}
		f.conserved()
	}
	// So it does when the account becomes due.
	c, _ = f.claimKinds(bob, 10, mails, "m")
	f.ret(circulate.Written, circulate.Return{Claim: c[0], Due: soon(c[0]), Rule: circulate.RuleRegistered})
	f.do("ZADD", f.key("schedule"), f.now().Add(-time.Second).UnixMilli(), "m")
	if _, b := f.claimKinds(alice, 10, feeds); b.Passed != 1 {
		f.Errorf("%d were passed by when the account became due", b.Passed)
	}
	// A replica that names no kinds gets accounts of any kind.
	f.claimKinds(alice, 10, nil, "m")
	f.conserved()
}

func handOverLost(f *fixture) {
	f.register("a", "b")
	c, _ := f.claimKinds(alice, 10, feeds, "a", "b")
	f.requeue(circulate.Moved, f.oldest()[0])
	f.handOver(1, "mail", c...)
	f.conserved()
	f.handOver(0, "mail", c...)
	f.conserved()
	for _, kind := range []string{"", "a\tb", strings.Repeat("k", 65)} {
		if _, err := f.ring.Kinds().HandOver(context.Background(), 0, []circulate.HandOver{{Claim: c[0], Kind: kind}}); err == nil {
			f.Errorf("handed over for the kind %q", kind)
		}
	}
	// A replica whose only kind is one by which no account can wait gets no accounts that wait
	// by other kinds.
	f.claimKinds(alice, 10, []string{"a\tb"}, "a")
}

// kindsInOrder lets accounts of three priorities wait. An urgent account goes before accounts
// that have waited up to a minute longer, but not before those that have waited still longer.
func kindsInOrder(f *fixture) {
	f.registerIn(circulate.Low, "low", "low, long ago")
	f.registerIn(circulate.Normal, "normal", "normal, long ago")
	f.registerIn(circulate.Urgent, "urgent")
	now, err := f.ring.Now(context.Background(), 0)
	if err != nil {
		f.Fatal(err)
	}
	claimed := make(map[string]*circulate.Claim)
	for _, c := range f.batch(alice, 10).Claims {
		claimed[c.ID] = &c
	}
	for id, ago := range map[string]time.Duration{"low": 0, "low, long ago": 3 * time.Minute, "normal": 30 * time.Second, "normal, long ago": 90 * time.Second, "urgent": 0} {
		claimed[id].Due = now.Add(-ago)
		f.handOver(1, "mail", claimed[id])
	}
	f.claimKinds(bob, 10, mails, "low, long ago", "normal, long ago", "urgent", "normal", "low")
	f.conserved()
}

// kindsShare has more accounts in the lanes and waiting by two kinds than can be claimed.
// Neither the lanes nor one of the kinds must wait until another is empty.
func kindsShare(f *fixture) {
	const each = 40
	var ids []string
	for i := range each {
		ids = append(ids, fmt.Sprintf("mail%02d", i), fmt.Sprintf("chat%02d", i))
	}
	f.register(ids...)
	for _, c := range f.batch(alice, 2*each).Claims {
		f.handOver(1, c.ID[:4], &c)
	}
	ids = ids[:0]
	for i := range each {
		ids = append(ids, fmt.Sprintf("feed%02d", i))
	}
	f.register(ids...)
	taken := make(map[string]int)
	for range 4 {
		b, err := f.ring.Claim(context.Background(), 0, bob, 10, 0, "mail", "chat", "feed")
		if err != nil || len(b.Claims) != 10 || !b.More {
			f.Fatal(b, err)
		}
		of := make(map[string]int)
		for _, c := range b.Claims {
			of[c.ID[:4]]++
			taken[c.ID[:4]]++
		}
		if of["feed"] != 5 {
			f.Errorf("of ten %v were taken, want half from the lanes", of)
		}
	}
	if taken["mail"]+taken["chat"] != 20 {
		f.Errorf("%v were taken", taken)
	}
	// Even with claims of one account, none of the three waits until another is empty.
	for range 50 {
		b, err := f.ring.Claim(context.Background(), 0, bob, 1, 0, "mail", "chat", "feed")
		if err != nil || len(b.Claims) != 1 {
			f.Fatal(b, err)
		}
		taken[b.Claims[0].ID[:4]]++
	}
	if rest := f.batch(bob, 1000).Claims; len(rest) != 3*each-90 || taken["feed"] == 20 || taken["mail"] == 0 || taken["chat"] == 0 {
		f.Errorf("%d were left of %v", len(rest), taken)
	}
	f.conserved()
}

// kindsRecalled recalls accounts that wait by a kind, so that they wait for any replica again.
func kindsRecalled(f *fixture) {
	ctx := context.Background()
	f.register("a", "b", "c", "d", "gone")
	c, _ := f.claimKinds(alice, 10, feeds, "a", "b", "c", "d", "gone")
	f.handOver(4, "mail", c[0], c[1], c[2], c[4])
	f.handOver(1, "chat", c[3])
	if _, err := f.ring.Deregister(ctx, 0, []string{"gone"}); err != nil {
		f.Fatal(err)
	}
	f.claimKinds(alice, 10, feeds)
	kinds, err := f.ring.Kinds().Waiting(ctx, 0)
	if err != nil || !slices.Equal(kinds, []string{"chat", "mail"}) {
		f.Errorf("the kinds %q are waited by, %v", kinds, err)
	}
	recall := func(kind string, n, want int) {
		f.Helper()
		if got, err := f.ring.Kinds().Recall(ctx, 0, kind, n); err != nil || got != want {
			f.Errorf("recalled %d of the kind %q, want %d: %v", got, kind, want, err)
		}
		f.conserved()
	}
	recall("mail", 2, 2)
	f.claimKinds(alice, 10, feeds, "b", "a")
	recall("mail", 10, 2)
	recall("mail", 10, 0)
	f.claimKinds(alice, 10, feeds, "c")
	recall("", 10, 1)
	f.claimKinds(alice, 10, feeds, "d")
	f.conserved()
}

// kindsOfChanged changes the records of two accounts: one waits by its kind, the other is
// claimed.
func kindsOfChanged(f *fixture) {
	f.register("a", "b")
	c, _ := f.claimKinds(alice, 10, feeds, "a", "b")
	f.handOver(2, "mail", c...)
	c, _ = f.claimKinds(bob, 1, mails, "a")
	for _, id := range []string{"a", "b"} {
		f.upsert(circulate.Updated, circulate.Registration{ID: id, Record: []byte("now a feed")})
	}
	f.ret(circulate.Fenced, circulate.Return{Claim: c[0]})
	f.claimKinds(alice, 10, feeds, "a", "b")
	if _, b := f.claimKinds(bob, 10, mails); b.Void != 1 {
		f.Errorf("%d were void", b.Void)
	}
	f.conserved()
}

// handOverWakes listens for wake-ups while accounts are handed over.
func handOverWakes(f *fixture) {
	ctx, cancel := context.WithCancel(context.Background())
	heard, ready, done := make(chan circulate.Woken, 100), make(chan struct{}), make(chan error, 1)
	go func() {
		done <- f.ring.Subscribe(ctx, func() { close(ready) }, func(w circulate.Woken) { heard <- w })
	}()
	<-ready
	expect := func(what string, wakes int) {
		f.Helper()
		if err := f.ring.Wake(ctx, 0); err != nil {
			f.Fatal(err)
		}
		n := 0
		for w := range heard {
			if w.Due.UnixMilli() == 0 {
				break
			}
			n++
		}
		if n != wakes {
			f.Errorf("%s: woken %d times, want %d", what, n, wakes)
		}
	}
	f.register("a", "b", "c")
	c, _ := f.claimKinds(alice, 10, feeds, "a", "b", "c")
	expect("registered", 1)
	f.handOver(1, "mail", c[0])
	expect("the first of a kind", 1)
	f.handOver(1, "mail", c[1])
	expect("the second", 0)
	f.handOver(1, "chat", c[2])
	expect("the first of another kind", 1)
	mine, _ := f.claimKinds(bob, 1, []string{"chat"}, "c")
	f.ret(circulate.Written, circulate.Return{Claim: mine[0]})
	expect("returned", 0)
	f.claimKinds(alice, 10, feeds)
	expect("passed by", 1)
	cancel()
	if err := <-done; err != nil {
		f.Errorf("listening ended with %v", err)
	}
}

// kindsAudited expects an audit to notice faults among the accounts that wait by kind.
func kindsAudited(f *fixture) {
	f.register("a", "b", "c")
	c, _ := f.claimKinds(alice, 10, feeds, "a", "b", "c")
	f.handOver(3, "mail", c...)
	f.audit(false)
	members := f.strings("ZRANGE", f.key("message_queue:by_kind"), 0, -1)
	f.do("ZREM", f.key("message_queue:by_kind"), members[0])
	f.do("ZADD", f.key("schedule"), 1, "b")
	f.audit(false, "doubled b", "lost a")
	f.audit(true, "doubled b", "lost a")
	f.audit(false)
	f.conserved()
}

func kindsTold(f *fixture) {
	ctx := context.Background()
	f.register("a", "b", "c")
	c, _ := f.claimKinds(alice, 10, feeds, "a", "b", "c")
	now, err := f.ring.Now(ctx, 0)
	if err != nil {
		f.Fatal(err)
	}
	for i := range c {
		c[i].Due = now.Add(-time.Duration(5-i) * time.Hour)
	}
	f.handOver(2, "mail", c[0], c[1])
	f.handOver(1, "chat", c[2])
	count := f.counted()
	if count.ByKind != 3 || count.Waiting != 3 || count.Claimed != 0 || count.Overdue < 5*time.Hour || count.Overdue > 6*time.Hour {
		f.Errorf("counted %+v", count)
	}
	position, err := f.ring.Account("b").QueuePosition(ctx)
	if err != nil || position.Kind != "mail" || position.Ahead != 1 || !position.Since.Equal(time.UnixMilli(c[1].Due.UnixMilli())) {
		f.Errorf("position %+v, %v", position, err)
	}
	if position, err = f.ring.Account("c").QueuePosition(ctx); err != nil || position.Kind != "chat" || position.Ahead != 0 {
		f.Errorf("position %+v, %v", position, err)
	}
	if v := f.look("b"); v.Place != circulate.Waiting {
		f.Errorf("b is %s", v.Place)
	}
	if ttl := f.number("PTTL", f.key("kinds")); ttl <= 0 || ttl > int(circulate.KindsKept.Milliseconds()) {
		f.Errorf("the kinds are forgotten in %d ms", ttl)
	}
}

// kindsMove changes the number of shards while accounts wait by their kinds.
func kindsMove(fx *fixture) {
	f, ctx := newResharding(fx, fromShards, toShards), context.Background()
	all := ids(40)
	f.registerAll(f.old, all)
	for _, c := range f.claimOf(f.old, alice) {
		if _, err := f.old.Kinds().HandOver(ctx, c.Shard, []circulate.HandOver{{Claim: c, Kind: "mail"}}); err != nil {
			f.Fatal(err)
		}
	}
	after := f.finish(f.begin())
	f.lawful(after, len(all))
	if claims := f.claimOf(after, bob); len(claims) != len(all) {
		f.Errorf("%d of %d can be claimed", len(claims), len(all))
	}
}

// kindsGarbage puts a text that is no entry among those that wait by kind.
func kindsGarbage(f *fixture) {
	f.register("a")
	c, _ := f.claimKinds(alice, 10, feeds, "a")
	f.handOver(1, "mail", c...)
	f.do("ZADD", f.key("message_queue:by_kind"), 0, "mail\tgarbage", 0, "mail\t", 0, "garbage without a kind")
	f.audit(false, "garbage mail\tgarbage", "garbage mail\t", "garbage garbage without a kind")
	_, b := f.claimKinds(bob, 10, mails, "a")
	if b.Malformed != 2 {
		f.Errorf("%d were malformed", b.Malformed)
	}
	if n, err := f.ring.Kinds().Recall(context.Background(), 0, "", 10); err != nil || n != 1 {
		f.Errorf("recalled %d, %v", n, err)
	}
	if aside := f.number("LLEN", f.key("set_aside")); aside != 3 {
		f.Errorf("%d were set aside", aside)
	}
	f.conserved()
}

func fullHandOver(f *fullFixture) {
	ctx := context.Background()
	f.register("a", "b")
	c, _ := f.claimKinds(alice, 10, feeds, "a", "b")
	f.handOver(1, "mail", c[0])
	f.full()
	f.handOver(1, "mail", c[1])
	c, _ = f.claimKinds(bob, 10, mails, "a", "b")
	f.ret(circulate.Written, circulate.Return{Claim: c[0]})
	if _, b := f.claimKinds(alice, 10, feeds); b.Passed != 1 {
		f.Errorf("%d were passed by", b.Passed)
	}
	n, err := f.ring.Kinds().Recall(ctx, 0, "mail", 10)
	f.must("recall", err)
	if n != 1 {
		f.Errorf("recalled %d", n)
	}
	f.conserved()
}
