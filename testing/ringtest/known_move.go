package ringtest

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/rounds-dev/rounds/circulate"
)

// turn claims an account of a ring, returns it with messages, and returns what memory said.
func (f *resharding) turn(ring *circulate.Ring, id string, messages ...circulate.Message) circulate.Judged {
	f.Helper()
	shard := ring.ShardOf(id)
	b, err := ring.Claim(context.Background(), shard, alice, 100, 0)
	if err != nil {
		f.Fatal(err)
	}
	var judged circulate.Judged
	for i := range b.Claims {
		c := &b.Claims[i]
		items := []circulate.Return{{Claim: c, Due: c.Due}}
		if c.ID == id {
			items[0].Messages, items[0].Remember = messages, remembering
		}
		if outcomes, err := ring.Return(context.Background(), shard, items); err != nil || outcomes[0] != circulate.Written {
			f.Fatalf("return of %q: %v, %v", c.ID, outcomes, err)
		}
		if c.ID == id {
			judged = items[0].Judged
		}
	}
	return judged
}

// reshardCarriesMemory moves accounts that remember, and others, to other shards. There
// they know what they knew, for as long, and nothing stays behind. A new shard that lost
// its last writes gets the memory once more.
func reshardCarriesMemory(fx *fixture) {
	f := newResharding(fx, fromShards, toShards)
	all := ids(12)
	f.registerAll(f.old, all)
	page := func(id string) []circulate.Message {
		return []circulate.Message{message(id), withContent(id+"-2", "content of "+id), withoutID("other of " + id)}
	}
	for i, id := range all {
		if i%3 > 0 {
			f.turn(f.old, id, page(id)...)
		}
	}
	many := make([]circulate.Message, 1700)
	for i := range many {
		many[i] = message(fmt.Sprint("many ", i))
	}
	f.turn(f.old, all[1], many...)
	before := f.number("PTTL", f.oldKey(all[1], "known:"+all[1]))
	ring := f.begin()
	if err := moveAll(ring); err != nil {
		f.Fatal(err)
	}
	if left := f.strings("KEYS", strings.NewReplacer("[", "?", "]", "?").Replace("{"+f.ns+":*}:known*:*")); slices.ContainsFunc(left, func(key string) bool { return !strings.Contains(key, ":g1:") }) {
		f.Errorf("left behind: %q", left)
	}
	// A new shard loses everything that it got, and the copies arrive again.
	lost := all[1]
	tag := ring.Tag(ring.ShardOf(lost))
	for _, key := range f.strings("KEYS", strings.NewReplacer("[", "?", "]", "?").Replace(tag)+"*") {
		if !strings.HasSuffix(key, ":messages") {
			f.do("DEL", key)
		}
	}
	if err := ring.Mover().Receive(context.Background()); err != nil {
		f.Fatal(err)
	}
	f.confirmAll(ring)
	f.confirmAll(ring)
	for source := range f.from {
		if n := f.number("HLEN", fmt.Sprintf("{%s:%d}:known_away", f.ns, source)); n != 0 {
			f.Errorf("shard %d: %d batches of memory are left", source, n)
		}
	}
	after := f.finish(ring)
	if ms := f.number("PTTL", after.Tag(after.ShardOf(lost))+":known:"+lost); ms <= 0 || ms > before {
		f.Errorf("forgotten in %d ms, before the move in %d", ms, before)
	}
	for i, id := range all {
		want := 3
		if i%3 == 0 {
			want = 0
		}
		if j := f.turn(after, id, page(id)...); j.Repeated != want {
			f.Errorf("%s: %d repetitions, want %d", id, j.Repeated, want)
		}
	}
	if j := f.turn(after, lost, many...); j.Repeated != len(many) {
		f.Errorf("%d of %d are known", j.Repeated, len(many))
	}
	f.lawful(after, len(all))
}

// auditFindsMemory has accounts that remember, and memory whose account is gone.
func auditFindsMemory(f *fixture) {
	f.resting("a", "z:known")
	f.pages("return", remembering, "a", []circulate.Message{message("1")})
	f.pages("return", remembering, "z:known", []circulate.Message{message("1")})
	f.audit(true)
	f.do("SADD", f.key("known:ghost"), "1000000000000000001")
	f.do("SADD", f.key("known_before:ghost:2"), "1000000000000000001")
	f.do("SET", f.key("knowns:x"), "no key of this program")
	f.audit(false, "unowned ghost", "unowned ghost:2")
	f.audit(true, "unowned ghost", "unowned ghost:2")
	f.audit(true)
	if len(f.known("a")) != 1 || len(f.known("z:known")) != 1 || len(f.known("ghost")) != 0 || len(f.known("ghost:2")) != 0 {
		f.Error("the audit dropped the wrong ones")
	}
	f.do("DEL", f.key("knowns:x"))
}

// archiveHasMemory loads accounts into another namespace. There they know what they knew.
func archiveHasMemory(f *fixture) {
	ctx := context.Background()
	archive := f.ring.Archive()
	f.resting("a", "b")
	if there, err := archive.Remembering(ctx); there || err != nil {
		f.Errorf("got %v, %v", there, err)
	}
	f.pages("return", remembering, "a", []circulate.Message{message("1"), withContent("2", "x"), withoutID("y")})
	if there, err := archive.Remembering(ctx); !there || err != nil {
		f.Errorf("got %v, %v", there, err)
	}
	dumped, _, err := archive.Accounts(ctx, 0, "", 100)
	if err != nil || len(dumped) != 2 {
		f.Fatalf("got %+v, %v", dumped, err)
	}
	f.ns += ".restored"
	f.ring = f.open(f.server, 1)
	for _, bad := range []func(*circulate.Archived){
		func(a *circulate.Archived) { a.Known = "x" },
		func(a *circulate.Archived) { a.Known, a.KnownFor = "1000000000000000001", "" },
		func(a *circulate.Archived) { a.KnownBefore, a.KnownBeforeFor = "1000000000000000001", "-1" },
	} {
		one := dumped[0]
		bad(&one)
		if _, err := f.ring.Archive().Load(ctx, 0, []circulate.Archived{one}); err == nil {
			f.Errorf("loaded %+v", one)
		}
	}
	if n, err := f.ring.Archive().Load(ctx, 0, dumped); n != 2 || err != nil {
		f.Fatalf("loaded %d, %v", n, err)
	}
	if ms := f.number("PTTL", f.key("known:a")); ms <= 3_600_000 || ms > 7_200_000 {
		f.Errorf("forgotten in %d ms", ms)
	}
	if j := f.pages("return", remembering, "a", []circulate.Message{message("1"), withoutID("x"), withoutID("y"), message("3")}); j[0].Repeated != 3 {
		f.Errorf("got %+v", j)
	}
	if len(f.known("b")) != 0 {
		f.Errorf("b remembers %q", f.known("b"))
	}
}
