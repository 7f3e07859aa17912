package ringtest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/circulate"
)

func claimInOrder(f *fixture) {
	now, err := f.ring.Now(context.Background(), 0)
	if err != nil {
		f.Fatal(err)
	}
	f.register("b", "c", "a")
	// These are due in the past in another order, as in a schedule that nobody promoted
	// for a while. After ten seconds they would be late, and their intervals would count.
	for i, id := range []string{"c", "a", "b"} {
		f.do("ZADD", f.key("schedule"), now.Add(time.Duration(i-5)*time.Second).UnixMilli(), id)
	}
	first := f.claim(alice, "c", "a")
	if want := now.Add(-5 * time.Second).UnixMilli(); first[0].Due.UnixMilli() != want {
		f.Errorf("due %d, want %d", first[0].Due.UnixMilli(), want)
	}
	f.claim(bob, "b")
	f.conserved()
	if v := f.look("a"); v.Place != circulate.Claimed || v.Replica != alice {
		f.Errorf("a is %s by %q, want claimed by %q", v.Place, v.Replica, alice)
	}
}

// claimStamped: how old a claim is must be measured by one clock, Redis' own.
func claimStamped(f *fixture) {
	before, err := f.ring.Now(context.Background(), 0)
	if err != nil {
		f.Fatal(err)
	}
	f.register("a")
	f.claim(alice, "a")
	after, err := f.ring.Now(context.Background(), 0)
	if err != nil {
		f.Fatal(err)
	}
	stamp := f.oldest()[0].Entry.Stamp
	if stamp.Before(before.Truncate(time.Millisecond)) || stamp.After(after) {
		f.Errorf("stamped %v, claimed between %v and %v", stamp, before, after)
	}
}

func claimPromotesDue(f *fixture) {
	f.register("again", "later")
	c := f.claim(alice, "again", "later")
	f.ret(circulate.Written, circulate.Return{Claim: c[0]})
	f.ret(circulate.Written, circulate.Return{Claim: c[1], Due: soon(c[1])})
	f.placed("again", circulate.Waiting)
	f.placed("later", circulate.Scheduled)
	if b := f.batch(alice, 10); len(b.Claims) != 1 || b.Claims[0].ID != "again" {
		f.Errorf("claimed %+v, want only again", b.Claims)
	}
}

func claimNextDue(f *fixture) {
	if b := f.batch(alice, 10); b.More || !b.NextDue.IsZero() {
		f.Errorf("of an empty shard: %+v", b)
	}
	f.register("a", "b", "c")
	b := f.batch(alice, 2)
	if !b.More {
		f.Error("a full batch must say that there may be more")
	}
	due := b.Now.Add(time.Hour).Truncate(time.Millisecond)
	f.ret(circulate.Written, circulate.Return{Claim: &b.Claims[0], Due: due})
	if b := f.batch(alice, 2); b.More || !b.NextDue.Equal(due) || len(b.Claims) != 1 {
		f.Errorf("next due %v more %v, want %v", b.NextDue, b.More, due)
	}
	if b := f.batch(alice, 2); !b.NextDue.Equal(due) {
		f.Errorf("next due %v of an idle shard, want %v", b.NextDue, due)
	}
}

// claimAhead: what is due soon is taken with what is due, but only where nothing waits, and
// nothing waits that is not due.
func claimAhead(f *fixture) {
	ahead := func(n int, want ...string) circulate.Batch {
		f.Helper()
		b, err := f.ring.ClaimAhead(context.Background(), 0, alice, n, 0, circulate.MaxAhead)
		var got []string
		for i := range b.Claims {
			got = append(got, b.Claims[i].ID)
		}
		if err != nil || !slices.Equal(got, want) {
			f.Errorf("claimed %q, %v, want %q", got, err, want)
		}
		return b
	}
	f.register("a", "b", "c", "d", "e")
	claims := f.claim(alice, "a", "b", "c", "d", "e")
	now := f.batch(alice, 1).Now
	for i, in := range []time.Duration{0, 900 * time.Millisecond, 940 * time.Millisecond, 980 * time.Millisecond, time.Hour} {
		f.ret(circulate.Written, circulate.Return{Claim: claims[i], Due: now.Add(in)})
	}
	f.placed("a", circulate.Waiting)
	ahead(4, "a") // it waits, so that nothing else is promoted
	for _, id := range []string{"b", "c", "d", "e"} {
		f.placed(id, circulate.Scheduled)
	}
	if b := ahead(2, "b", "c"); !b.Claims[0].Due.Equal(now.Add(900*time.Millisecond).Truncate(time.Millisecond)) || !b.More {
		f.Errorf("b is due at %v, %v from now, more: %v", b.Claims[0].Due, b.Claims[0].Due.Sub(now), b.More)
	}
	f.placed("d", circulate.Scheduled)
	if b := ahead(4, "d"); b.More || b.NextDue.Sub(now) < time.Minute {
		f.Errorf("next due %v from now, more: %v", b.NextDue.Sub(now), b.More)
	}
	f.placed("e", circulate.Scheduled)
	f.conserved()
	for _, wrong := range []time.Duration{-time.Millisecond, circulate.MaxAhead + time.Millisecond} {
		if _, err := f.ring.ClaimAhead(context.Background(), 0, alice, 1, 0, wrong); err == nil {
			f.Errorf("claimed %v ahead", wrong)
		}
	}
}

func claimDropsVoid(f *fixture) {
	f.register("a")
	old := f.claim(alice, "a")[0]
	stale := f.oldest()[0]
	f.ret(circulate.Written, circulate.Return{Claim: old, Due: soon(old)})
	f.do("LPUSH", f.key("message_queue"), stale.Entry.String())
	f.do("LPUSH", f.key("message_queue"), fmt.Sprintf("%014d|%013d|%s|nobody", 1, 1, alice))
	b := f.batch(alice, 10)
	if len(b.Claims) != 0 || b.Void != 2 {
		f.Errorf("claimed %d and dropped %d, want 0 and 2", len(b.Claims), b.Void)
	}
	f.placed("a", circulate.Scheduled)
	if n := f.number("LLEN", f.key("processing_list")); n != 0 {
		f.Errorf("%d entries left in processing_list", n)
	}
}

func claimTakesOneCopy(f *fixture) {
	f.register("a", "b")
	c := f.claim(alice, "a", "b")
	f.requeue(circulate.Moved, f.oldest()[0])
	entry := f.strings("LRANGE", f.key("message_queue"), 0, -1)[0]
	f.do("LPUSH", f.key("message_queue"), entry, entry)
	b := f.batch(bob, 10)
	if len(b.Claims) != 1 || b.Void != 2 {
		f.Fatalf("claimed %d and dropped %d, want 1 and 2", len(b.Claims), b.Void)
	}
	f.conserved()
	f.ret(circulate.Fenced, circulate.Return{Claim: c[0]})
	f.ret(circulate.Written, circulate.Return{Claim: &b.Claims[0]})
	f.conserved()
}

func claimSetsGarbageAside(f *fixture) {
	f.register("a")
	garbage := []string{"x", "", "00000000000001-0000000000001-aaaaaaaaaa-id", string([]byte{0xff, 0xfe}), fmt.Sprintf("%0200d", 0)}
	for _, text := range garbage {
		f.do("RPUSH", f.key("message_queue"), text)
	}
	b := f.batch(alice, 10)
	if len(b.Claims) != 1 || b.Malformed != len(garbage) {
		f.Errorf("claimed %d and set %d aside, want 1 and %d", len(b.Claims), b.Malformed, len(garbage))
	}
	aside := f.strings("LRANGE", f.key("set_aside"), 0, -1)
	for _, text := range garbage {
		if !slices.Contains(aside, text) {
			f.Errorf("%q was not kept", text)
		}
	}
	if f.ring.SetAside() != int64(len(garbage)) {
		f.Errorf("%d counted, want %d", f.ring.SetAside(), len(garbage))
	}
	f.conserved()
}

// setAsideBounded has each step set more aside than is kept. The newest are kept.
func setAsideBounded(f *fixture) {
	ctx := context.Background()
	const most = 1000
	garbage := func(key, what string, n int) {
		args := []any{f.key(key)}
		for i := range n {
			args = append(args, fmt.Sprintf("%s %d", what, i))
		}
		f.do("LPUSH", args...)
	}
	for what, set := range map[string]func() (newest string){
		"claim": func() string {
			garbage("message_queue", "claim", most+5)
			for range 2 {
				f.batch(alice, most)
			}
			return fmt.Sprint("claim ", most+4)
		},
		"requeue": func() string {
			garbage("processing_list", "requeue", 5)
			for _, h := range f.oldest() {
				f.requeue(circulate.SetAsideEntry, h)
			}
			return "requeue 4"
		},
		"repair": func() string {
			for i := range 5 {
				f.do("ZADD", f.key("schedule"), 1, fmt.Sprint("ghost ", i))
			}
			found, err := f.ring.AuditShard(ctx, 0, circulate.AuditOptions{Repair: true})
			if err != nil || len(found.Findings) != 5 {
				f.Fatalf("%+v, %v", found, err)
			}
			return "not registered: ghost "
		},
	} {
		f.do("DEL", f.key("set_aside"))
		garbage("set_aside", "before", most)
		newest := set()
		aside := f.strings("LRANGE", f.key("set_aside"), 0, -1)
		if len(aside) != most || !strings.HasPrefix(aside[0], newest) {
			f.Errorf("by a %s: %d texts are set aside, the newest %q; want %d and %q", what, len(aside), aside[0], most, newest)
		}
	}
}

func claimTellsChanges(f *fixture) {
	ctx := context.Background()
	f.register("a", "b")
	records := circulate.NewRecords(f.ring, 100, 1<<20, time.Hour, func(_ string, text []byte) string { return string(text) })
	turn := func() string {
		b, err := f.ring.Claim(ctx, 0, alice, 10, records.Known(0))
		if err != nil {
			f.Fatal(err)
		}
		got, err := records.Resolve(ctx, 0, &b)
		if err != nil {
			f.Fatal(err)
		}
		seen := ""
		for i := range b.Claims {
			if b.Claims[i].ID == "a" {
				seen = got[i]
			}
			f.ret(circulate.Written, circulate.Return{Claim: &b.Claims[i]})
		}
		return seen
	}
	if got := turn(); got != `{"id":"a"}` {
		f.Fatalf("record %q", got)
	}
	// The clock was an hour ahead when another record changed, and went back.
	now, err := f.ring.Now(ctx, 0)
	if err != nil {
		f.Fatal(err)
	}
	f.do("ZADD", f.key("changes"), now.Add(time.Hour).UnixMicro(), "b")
	turn()
	f.upsert(circulate.Updated, circulate.Registration{ID: "a", Record: []byte("after the clock went back")})
	if got := turn(); got != "after the clock went back" {
		f.Errorf("record %q", got)
	}
	f.upsert(circulate.Updated, circulate.Registration{ID: "a", Record: []byte(`{"id":"a"}`)})
	turn()
	// This bypasses the ring: what is known is not read again.
	f.do("HSET", f.key("accounts"), "a", "unseen")
	if got := turn(); got != `{"id":"a"}` {
		f.Errorf("record %q was read again", got)
	}
	for i := range 3 {
		want := fmt.Sprintf(`{"v":%d}`, i)
		if _, err := f.ring.Upsert(ctx, 0, []circulate.Registration{{ID: "a", Record: []byte(want)}}); err != nil {
			f.Fatal(err)
		}
		if got := turn(); got != want {
			f.Errorf("record %q, want %q", got, want)
		}
	}
	// It was gone and is back, with more changes in between than are kept.
	if _, err := f.ring.Deregister(ctx, 0, []string{"a"}); err != nil {
		f.Fatal(err)
	}
	for i := range 1100 {
		f.do("ZADD", f.key("changes"), 2_000_000_000_000_000+i, fmt.Sprint("other", i))
	}
	f.do("ZREMRANGEBYRANK", f.key("changes"), 0, -1025)
	f.register("a")
	if got := turn(); got != `{"id":"a"}` {
		f.Errorf("record %q after it was registered again", got)
	}
}

// kindsOneByOne has accounts wait by two kinds while others wait in a lane, and claims one at a
// time. A claim takes no more than it was asked for, whatever kinds the replica checks, and each
// kind comes first at some time.
func kindsOneByOne(f *fixture) {
	const each = 40
	var ids []string
	for i := range each {
		ids = append(ids, fmt.Sprintf("mail%02d", i), fmt.Sprintf("chat%02d", i))
	}
	f.register(ids...)
	for _, c := range f.batch(alice, 2*each).Claims {
		f.handOver(1, c.ID[:4], &c)
	}
	f.register("feed1", "feed2")
	for i := range each / 2 {
		b, err := f.ring.Claim(context.Background(), 0, bob, 1, 0)
		if err != nil || len(b.Claims) != 1 {
			f.Fatalf("claim %d of one account of any kind: %d claims, %v", i, len(b.Claims), err)
		}
		if n := f.number("LLEN", f.key("processing_list")); n != i+1 {
			f.Fatalf("%d accounts are taken after %d claims of one", n, i+1)
		}
	}
	first := make(map[string]bool)
	for range 5000 { // Redis' clock, in ms, tells which kind comes first
		b, err := f.ring.Claim(context.Background(), 0, bob, 1, 0, "mail", "chat")
		if err != nil || len(b.Claims) != 1 {
			f.Fatal(b, err)
		}
		kind := b.Claims[0].ID[:4]
		f.handOver(1, kind, &b.Claims[0])
		if first[kind] = true; len(first) == 2 {
			break
		}
	}
	if !first["mail"] || !first["chat"] {
		f.Errorf("only %v came first", first)
	}
	f.conserved()
}

// claimWhileLeft: nothing is taken for a moment where accounts go to other shards. A mover that
// has stopped, or a clock that went back, blocks that for ten seconds at most.
func claimWhileLeft(f *fixture) {
	f.register("a")
	f.do("SET", f.key("leaving"), f.now().Add(time.Hour).UnixMilli())
	f.ret(circulate.Written, circulate.Return{Claim: f.claim(alice, "a")[0]})
	till := f.now().Add(9 * time.Second)
	f.do("SET", f.key("leaving"), till.UnixMilli())
	if b := f.batch(alice, 1); len(b.Claims) != 0 || b.NextDue.UnixMilli() != till.UnixMilli() {
		f.Errorf("claimed %+v, next %v, want none until %v", b.Claims, b.NextDue, till)
	}
	f.do("SET", f.key("leaving"), f.now().Add(-time.Second).UnixMilli())
	f.claim(alice, "a")
}
