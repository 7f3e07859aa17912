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

func (f *fixture) upsert(want circulate.Registered, item circulate.Registration) {
	f.Helper()
	outcomes, err := f.ring.Upsert(context.Background(), 0, []circulate.Registration{item})
	if err != nil {
		f.Fatal(err)
	}
	if outcomes[0] != want {
		f.Fatalf("upsert of %q: %c, want %c", item.ID, outcomes[0], want)
	}
}

func registerOnce(f *fixture) {
	items := []circulate.Registration{{ID: "a", Record: []byte("1")}, {ID: "a", Record: []byte("2")}}
	outcomes, err := f.ring.Register(context.Background(), 0, items)
	if err != nil || outcomes[0] != circulate.Created || outcomes[1] != circulate.Exists {
		f.Fatalf("%c, %v", outcomes, err)
	}
	if v := f.look("a"); string(v.Record) != "1" {
		f.Errorf("record %q", v.Record)
	}
	f.conserved()
	f.claim(alice, "a")
	f.upsert(circulate.Unchanged, circulate.Registration{ID: "a", Record: []byte("1")})
	f.placed("a", circulate.Claimed) // the check under way goes on
}

func upsertFences(f *fixture) {
	f.register("a")
	c := f.claim(alice, "a")[0]
	f.ret(circulate.Written, circulate.Return{Claim: c, Cursor: []byte("kept")})
	c = f.claim(alice, "a")[0]
	f.upsert(circulate.Updated, circulate.Registration{ID: "a", Record: []byte("new")})
	f.conserved()
	f.ret(circulate.Fenced, circulate.Return{Claim: c, Messages: []circulate.Message{message("1")}, Cursor: []byte("of the old record")})
	f.placed("a", circulate.Scheduled)
	c = f.claim(alice, "a")[0]
	if string(c.Cursor) != "kept" {
		f.Errorf("cursor %q, want kept", c.Cursor)
	}
	f.upsert(circulate.Updated, circulate.Registration{ID: "a", Record: []byte("other kind"), ForgetCursor: true})
	if c := f.claim(alice, "a")[0]; c.Cursor != nil {
		f.Errorf("cursor %q was to be forgotten", c.Cursor)
	}
	f.conserved()
}

// upsertForgets changes an account's kind. Its next claim must not have a cursor of the
// old kind, wherever that was kept.
func upsertForgets(f *fixture) {
	for _, cursor := range []string{"short", strings.Repeat("l", 45), strings.Repeat("l", 4096)} {
		id := fmt.Sprint("a", len(cursor))
		f.register(id)
		c := f.claim(alice, id)[0]
		f.ret(circulate.Written, circulate.Return{Claim: c, Cursor: []byte(cursor)})
		c = f.claim(alice, id)[0]
		if string(c.Cursor) != cursor {
			f.Fatalf("cursor of %d bytes came back with %d", len(cursor), len(c.Cursor))
		}
		f.upsert(circulate.Updated, circulate.Registration{ID: id, Record: []byte("other kind"), ForgetCursor: true})
		c = f.claim(alice, id)[0]
		if c.Cursor != nil {
			f.Errorf("a cursor of %d bytes was to be forgotten", len(cursor))
		}
		f.ret(circulate.Written, circulate.Return{Claim: c, Due: soon(c)})
		if n := f.number("HLEN", f.key("cursors")); n != 0 {
			f.Errorf("%d long cursors are kept, behind one of %d bytes", n, len(cursor))
		}
	}
	f.conserved()
}

func upsertRevives(f *fixture) {
	f.register("failed", "paused")
	c := f.claim(alice, "failed", "paused")
	f.ret(circulate.Written, circulate.Return{Claim: c[0], Park: "config: no such feed", Failures: 4})
	if _, err := f.ring.Park(context.Background(), 0, circulate.ReasonPaused, []string{"paused"}); err != nil {
		f.Fatal(err)
	}
	for _, id := range []string{"failed", "paused"} {
		f.upsert(circulate.Updated, circulate.Registration{ID: id, Record: []byte("mended")})
	}
	f.placed("failed", circulate.Scheduled)
	f.placed("paused", circulate.Parked)
	if v := f.look("failed"); v.Failures != 0 {
		f.Errorf("%d failures left", v.Failures)
	}
}

func deregisterLeavesNothing(f *fixture) {
	ctx := context.Background()
	f.register("claimed", "parked", "scheduled", "waiting")
	c := f.claim(alice, "claimed", "parked", "scheduled", "waiting")
	f.ret(circulate.Written, circulate.Return{Claim: c[1], Park: "gone"})
	f.ret(circulate.Written, circulate.Return{Claim: c[2], Due: soon(c[2]), Cursor: []byte(strings.Repeat("long", 20)), Failures: 1, State: "s", Mark: 't', Error: "timeout"})
	f.ret(circulate.Written, circulate.Return{Claim: c[3], Cursor: []byte("short")})
	if err := f.ring.Account("claimed").Nudge(ctx, circulate.Nudge{Hint: []byte("h"), Lives: time.Hour}); err != nil {
		f.Fatal(err)
	}
	if n, err := f.ring.Deregister(ctx, 0, []string{"scheduled", "waiting", "claimed", "parked", "never"}); n != 4 || err != nil {
		f.Fatal(n, err)
	}
	f.ret(circulate.Fenced, circulate.Return{Claim: c[0], Messages: []circulate.Message{message("1")}})
	if b := f.batch(bob, 10); len(b.Claims) != 0 {
		f.Errorf("claimed %+v", b.Claims)
	}
	for _, name := range []string{"tickets", "accounts", "schedule", "message_queue", "processing_list", "cursors", "failures", "states", "strikes", "nudges", "parked", "park_reasons", "errors"} {
		if f.number("EXISTS", f.key(name)) != 0 {
			f.Errorf("something is left in %s", name)
		}
	}
	// A void entry that a monitor requeues leaves no strike behind either.
	f.register("a")
	f.claim(alice, "a")
	h := f.oldest()[0]
	if _, err := f.ring.Deregister(ctx, 0, []string{"a"}); err != nil {
		f.Fatal(err)
	}
	f.requeue(circulate.Moved, h)
	f.batch(bob, 10)
	if f.number("EXISTS", f.key("strikes")) != 0 {
		f.Error("a strike is left of an account that is gone")
	}
}

func reregisterDoesNotRevive(f *fixture) {
	f.register("a")
	c := f.claim(alice, "a")[0]
	h := f.oldest()[0]
	if _, err := f.ring.Deregister(context.Background(), 0, []string{"a"}); err != nil {
		f.Fatal(err)
	}
	f.register("a")
	f.ret(circulate.Fenced, circulate.Return{Claim: c, Cursor: []byte("of the old one")})
	f.first(h)
	b := f.batch(bob, 10)
	if len(b.Claims) != 1 || b.Void != 1 || b.Claims[0].Cursor != nil {
		f.Errorf("claimed %+v, dropped %d", b.Claims, b.Void)
	}
	f.conserved()
}

func pauseAndResume(f *fixture) {
	ctx := context.Background()
	f.register("a")
	c := f.claim(alice, "a")[0]
	if n, err := f.ring.Park(ctx, 0, circulate.ReasonPaused, []string{"a", "never"}); n != 1 || err != nil {
		f.Fatal(n, err)
	}
	f.placed("a", circulate.Parked)
	f.ret(circulate.Fenced, circulate.Return{Claim: c})
	f.placed("a", circulate.Parked)
	if b := f.batch(bob, 10); len(b.Claims) != 0 {
		f.Errorf("claimed %+v", b.Claims)
	}
	if err := f.ring.Account("a").Resume(ctx, circulate.Resumption{}); err != nil {
		f.Fatal(err)
	}
	f.placed("a", circulate.Scheduled)
	if err := f.ring.Account("a").Resume(ctx, circulate.Resumption{}); err != nil {
		f.Errorf("resumed twice: %v", err)
	}
	f.claim(bob, "a")
	if err := f.ring.Account("a").Resume(ctx, circulate.Resumption{}); err != nil {
		f.Errorf("resumed while claimed: %v", err)
	}
	f.placed("a", circulate.Claimed)
	if err := f.ring.Account("never").Resume(ctx, circulate.Resumption{}); !errors.Is(err, circulate.ErrNotRegistered) {
		f.Errorf("resume: %v", err)
	}
}

func metaAgrees(f *fixture) {
	ctx := context.Background()
	open := func(shards int) (*circulate.Ring, error) {
		return circulate.Open(ctx, f.server, circulate.Options{Namespace: f.ns, Shards: shards})
	}
	if r, err := open(0); err != nil || r.Shards() != 1 {
		f.Errorf("joining: %v", err)
	}
	if _, err := open(2); !errors.Is(err, circulate.ErrMismatch) {
		f.Errorf("with other shards: %v", err)
	}
	if err := f.ring.Check(ctx); err != nil {
		f.Errorf("check: %v", err)
	}
	if r, err := circulate.Open(ctx, f.server, circulate.Options{Namespace: f.ns, Existing: true}); err != nil || r.Check(ctx) != nil {
		f.Errorf("joining one that exists: %v", err)
	}
	other := f.ns + "-other"
	_, err := circulate.Open(ctx, f.server, circulate.Options{Namespace: other, Existing: true})
	if want := fmt.Sprintf("there is no namespace %q in Redis at ", other); !errors.Is(err, circulate.ErrNoNamespace) || !strings.Contains(err.Error(), want) {
		f.Errorf("joining one that nobody has made: %v, want %s", err, want)
	}
	if made, err := circulate.Made(ctx, f.server, other); made || err != nil {
		f.Errorf("it was made all the same: %v, %v", made, err)
	}
	f.do("HSET", f.ns+":meta", "format", 99)
	if _, err := open(0); !errors.Is(err, circulate.ErrMismatch) {
		f.Errorf("with another format: %v", err)
	}
	if err := f.ring.Check(ctx); !errors.Is(err, circulate.ErrMismatch) {
		f.Errorf("check: %v", err)
	}
	f.do("HSET", f.ns+":meta", "format", "x")
	if _, err := open(0); err == nil {
		f.Error("a format that is no number was accepted")
	}
	for _, bad := range []circulate.Options{{Namespace: "a b"}, {Namespace: "{x}"}, {Shards: -1}, {Shards: circulate.MaxShards + 1}} {
		if _, err := circulate.Open(ctx, f.server, bad); err == nil {
			f.Errorf("%+v was accepted", bad)
		}
	}
}

func badInput(f *fixture) {
	ctx := context.Background()
	for _, id := range []string{"", strings.Repeat("x", 257), "a\nb", "a\x00", string([]byte{0xff}), "a\u0085b"} {
		if _, err := f.ring.Register(ctx, 0, []circulate.Registration{{ID: id}}); err == nil {
			f.Errorf("id %q was accepted", id)
		}
	}
	odd := []string{"a|b", "ü/é 中文", "{x}", strings.Repeat("x", 256), "-1", "0", "00000000000001"}
	f.register(odd...)
	slices.Sort(odd)
	f.claim(alice, odd...)
	f.conserved()
	for _, replica := range []string{"", "short", "toolong00000", "with|pipe0", "with space"} {
		if _, err := f.ring.Claim(ctx, 0, replica, 1, 0); err == nil {
			f.Errorf("replica %q was accepted", replica)
		}
		if _, err := f.ring.Heartbeat(ctx, replica, nil, time.Minute); err == nil {
			f.Errorf("replica %q was accepted", replica)
		}
	}
	for _, n := range []int{0, -1, circulate.MaxBatch + 1} {
		if _, err := f.ring.Claim(ctx, 0, alice, n, 0); err == nil {
			f.Errorf("a claim of %d was accepted", n)
		}
	}
}

func replicas(f *fixture) {
	ctx := context.Background()
	for _, r := range []string{alice, bob} {
		if _, err := f.ring.Heartbeat(ctx, r, fmt.Appendf(nil, `{"host":%q}`, r), time.Minute); err != nil {
			f.Fatal(err)
		}
	}
	f.do("ZADD", f.ns+":replicas", 1, "forgotten0")
	f.do("HSET", "{"+f.ns+":replicas}:reports", "forgotten0", "{}")
	alive, err := f.ring.Heartbeat(ctx, bob, []byte("{}"), time.Minute)
	if err != nil || !slices.Equal(alive, []string{alice, bob}) {
		f.Fatal(alive, err)
	}
	if err := f.ring.Retire(ctx, alice); err != nil {
		f.Fatal(err)
	}
	all, now, err := f.ring.Replicas(ctx)
	if err != nil || len(all) != 1 || all[0].Name != bob || string(all[0].Report) != "{}" || now.Sub(all[0].Beat) > time.Minute {
		f.Errorf("%+v, %v, %v", all, now, err)
	}
	if n := f.number("HLEN", "{"+f.ns+":replicas}:reports"); n != 1 {
		f.Errorf("%d reports are kept, want 1", n)
	}
}

// attendance reports a process while it attends. It reports once that the process has
// left, and tells one of several callers that it is forgotten.
func attendance(f *fixture) {
	ctx := context.Background()
	roster := f.ring.Roster()
	api, poller := circulate.Process{Name: alice, Roles: "api,monitor"}, circulate.Process{Name: bob, Roles: "poller"}
	f.do("ZADD", "{"+f.ns+":replicas}:processes", 1, "poller|forgotten0")
	for _, p := range []circulate.Process{api, poller, api} {
		if known, err := roster.Attend(ctx, p, nil); known || err != nil {
			f.Fatal(known, err)
		}
	}
	now, err := f.ring.Now(ctx, 0)
	if err != nil {
		f.Fatal(err)
	}
	there, left, err := roster.Look(ctx)
	if err != nil || len(there) != 2 || len(left) != 0 || now.Sub(there[api]).Abs() > time.Minute || now.Sub(there[poller]).Abs() > time.Minute {
		f.Fatal(there, left, err)
	}
	for range 2 { // the second time it is not there any more
		if err := roster.Depart(ctx, api); err != nil {
			f.Fatal(err)
		}
	}
	there, left, err = roster.Look(ctx)
	if err != nil || len(there) != 1 || !slices.Equal(left, []circulate.Process{api}) {
		f.Error(there, left, err)
	}
	if _, left, err = roster.Look(ctx); err != nil || len(left) != 0 {
		f.Error("told twice", left, err)
	}
	first, err := roster.Forget(ctx, poller)
	second, errAgain := roster.Forget(ctx, poller)
	if !first || second || err != nil || errAgain != nil {
		f.Error(first, second, err, errAgain)
	}
}

// members returns what processes report of themselves, for ten minutes after they went
// silent, and nothing once they have left.
func members(f *fixture) {
	ctx := context.Background()
	roster := f.ring.Roster()
	attend := func(p circulate.Process, about string, want bool) {
		f.Helper()
		if known, err := roster.Attend(ctx, p, []byte(about)); known != want || err != nil {
			f.Fatal(p, known, err)
		}
	}
	expect := func(want ...string) {
		f.Helper()
		all, now, err := roster.Members(ctx)
		if err != nil {
			f.Fatal(err)
		}
		var got []string
		for _, m := range all {
			got = append(got, fmt.Sprintf("%s %s %s %d", m.Name, m.Roles, m.About, int(now.Sub(m.Said).Minutes())))
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			f.Errorf("got %q, want %q", got, want)
		}
	}
	expect()
	api, poller := circulate.Process{Name: alice, Roles: "api,monitor"}, circulate.Process{Name: bob, Roles: "poller"}
	attend(api, "", false)
	attend(api, "v1", true)
	attend(api, "", true)
	attend(poller, "v2", true)
	expect(alice+" api,monitor v1 0", bob+" poller v2 0")
	attend(poller, "v3", true)

	// A process that monitors found silent is seen for ten minutes, and then forgotten.
	tag := "{" + f.ns + ":replicas}:"
	now, err := f.ring.Now(ctx, 0)
	if err != nil {
		f.Fatal(err)
	}
	ago := func(d time.Duration) int64 { return now.Add(-d).UnixMilli() }
	f.do("ZADD", tag+"processes:seen", ago(9*time.Minute), "poller|"+bob)
	f.do("ZADD", tag+"processes:seen", ago(11*time.Minute), "poller|ghost")
	f.do("HSET", tag+"processes:about", "poller|ghost", "v1")
	if told, err := roster.Forget(ctx, poller); !told || err != nil {
		f.Error(told, err)
	}
	f.do("ZADD", tag+"processes", ago(time.Minute), "delivery|old")
	expect(alice+" api,monitor v1 0", bob+" poller v3 9", "old delivery  1") // an old version says nothing of itself
	attend(api, "", true)
	if n, m := f.number("HLEN", tag+"processes:about"), f.number("ZCARD", tag+"processes:seen"); n != 2 || m != 2 {
		f.Errorf("%d and %d are kept", n, m)
	}
	if err := roster.Depart(ctx, api); err != nil {
		f.Fatal(err)
	}
	expect(bob+" poller v3 9", "old delivery  1")
}
