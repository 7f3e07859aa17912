package ringtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rounds-dev/rounds/circulate"
)

// Most tests use this change: the numbers have a common divisor, and neither divides the
// other.
const (
	fromShards = 4
	toShards   = 6
)

// resharding is a namespace whose number of shards changes.
type resharding struct {
	*fixture
	old      *circulate.Ring // opened before the change
	from, to int
}

func newResharding(f *fixture, from, to int) *resharding {
	f.Helper()
	f.ns += ".r"
	return &resharding{f, f.open(f.server, from), from, to}
}

func (f *fixture) open(server circulate.Server, shards int) *circulate.Ring {
	f.Helper()
	ring, err := circulate.Open(context.Background(), server, circulate.Options{Namespace: f.ns, Shards: shards})
	if err != nil {
		f.Fatal(err)
	}
	return ring
}

// begin begins the change and returns a ring that knows of it.
func (f *resharding) begin() *circulate.Ring {
	f.Helper()
	if _, err := f.old.Mover().Begin(context.Background(), f.to); err != nil {
		f.Fatal(err)
	}
	ring := f.open(f.server, 0)
	if err := ring.Mover().Receive(context.Background()); err != nil {
		f.Fatal(err)
	}
	return ring
}

// oldKey and newKey are keys of the shard that has, or will have, an account.
func (f *resharding) oldKey(id, name string) string {
	return fmt.Sprintf("{%s:%d}:%s", f.ns, f.old.ShardOf(id), name)
}

func (f *resharding) register(ring *circulate.Ring, items ...circulate.Registration) {
	f.Helper()
	for _, it := range items {
		outcomes, err := ring.Register(context.Background(), ring.ShardOf(it.ID), []circulate.Registration{it})
		if err != nil || outcomes[0] != circulate.Created {
			f.Fatalf("register %q: %c, %v", it.ID, outcomes, err)
		}
	}
}

func ids(n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("account-%03d", i)
	}
	return all
}

func (f *resharding) registerAll(ring *circulate.Ring, ids []string) {
	f.Helper()
	for _, id := range ids {
		f.register(ring, circulate.Registration{ID: id, Record: []byte("record of " + id)})
	}
}

// moveAll moves what can be moved.
func moveAll(ring *circulate.Ring) error {
	ctx := context.Background()
	for _, source := range ring.Mover().Sequence() {
		for {
			moved, left, err := ring.Mover().Move(ctx, source)
			if err != nil {
				return err
			}
			if moved == 0 || left == 0 {
				break
			}
		}
	}
	return nil
}

// confirmAll confirms what has arrived, as if that were long ago.
func (f *resharding) confirmAll(ring *circulate.Ring) {
	f.Helper()
	for source := range f.from {
		key := fmt.Sprintf("{%s:%d}:departed", f.ns, source)
		pairs := f.strings("HGETALL", key)
		for i := 0; i+1 < len(pairs); i += 2 {
			f.do("HSET", key, pairs[i], "0000000000001"+pairs[i+1][13:])
		}
		if err := ring.Mover().Confirm(context.Background(), source); err != nil {
			f.Fatal(err)
		}
	}
}

// finish takes the change to its end and returns the ring after it.
func (f *resharding) finish(ring *circulate.Ring) *circulate.Ring {
	f.Helper()
	ctx := context.Background()
	if err := moveAll(ring); err != nil {
		f.Fatal(err)
	}
	f.confirmAll(ring)
	if done, err := ring.Mover().FinishMove(ctx); err != nil || !done {
		f.Fatalf("moved: %v, %v", done, err)
	}
	if done, err := ring.Mover().Drained(ctx, true); err != nil || !done {
		f.Fatalf("drained: %v, %v", done, err)
	}
	after := f.open(f.server, 0)
	if after.Shards() != f.to || after.Sources() != 0 || after.Generation() != 1 {
		f.Fatalf("%d shards, %d of them old, generation %d", after.Shards(), after.Sources(), after.Generation())
	}
	return after
}

// lawful expects the law to hold in every shard, and the accounts to be these.
func (f *resharding) lawful(ring *circulate.Ring, want int) {
	f.Helper()
	audited, err := ring.Audit(context.Background(), circulate.AuditOptions{Records: true})
	if err != nil || len(audited.Findings) > 0 || audited.Accounts != want {
		f.Fatalf("audit: %+v, want %d accounts; %v", audited, want, err)
	}
}

func (f *resharding) see(ring *circulate.Ring, id string) circulate.View {
	f.Helper()
	views, err := ring.Look(context.Background(), ring.ShardOf(id), []string{id})
	if err != nil || len(views) != 1 {
		f.Fatalf("%q: %v, %v", id, views, err)
	}
	return views[0]
}

// claimOf claims everything that is due in a ring.
func (f *resharding) claimOf(ring *circulate.Ring, replica string) map[string]*circulate.Claim {
	f.Helper()
	claims := make(map[string]*circulate.Claim)
	for shard := range ring.Shards() {
		b, err := ring.Claim(context.Background(), shard, replica, 100, 0)
		if err != nil {
			f.Fatal(err)
		}
		for i := range b.Claims {
			if claims[b.Claims[i].ID] != nil {
				f.Fatalf("%q was claimed twice", b.Claims[i].ID)
			}
			claims[b.Claims[i].ID] = &b.Claims[i]
		}
	}
	return claims
}

func (f *resharding) give(ring *circulate.Ring, want circulate.Outcome, item circulate.Return) {
	f.Helper()
	outcomes, err := ring.Return(context.Background(), item.Claim.Shard, []circulate.Return{item})
	if err != nil || outcomes[0] != want {
		f.Fatalf("return of %q: %v, %v, want %v", item.Claim.ID, outcomes, err, want)
	}
}

// reshardKeepsAll moves accounts of every kind and expects each to be unchanged.
func reshardKeepsAll(fx *fixture) {
	f, ctx := newResharding(fx, fromShards, toShards), context.Background()
	long := bytes.Repeat([]byte{0, '|', 0xff, ':'}, 50)
	f.registerAll(f.old, []string{"failing", "long", "short", "hinted", "parked", "claimed", "waiting", "fresh"})
	f.register(f.old, circulate.Registration{ID: "urgent", Priority: circulate.Urgent}, circulate.Registration{ID: "later", Due: time.Now().Add(time.Hour)})
	c := f.claimOf(f.old, alice)
	f.give(f.old, circulate.Written, circulate.Return{Claim: c["failing"], Due: soon(c["failing"]), Failures: 3, State: "kept by its cadence", Error: "refused: ü", Mark: 'f', Rule: 'b'})
	f.give(f.old, circulate.Written, circulate.Return{Claim: c["long"], Due: soon(c["long"]), Cursor: long, Mark: circulate.MarkOK, Messages: []circulate.Message{message("m1")}})
	f.give(f.old, circulate.Written, circulate.Return{Claim: c["short"], Due: soon(c["short"]), Cursor: []byte{0, '-', 0xfe}})
	f.give(f.old, circulate.Written, circulate.Return{Claim: c["hinted"], Due: soon(c["hinted"])})
	f.give(f.old, circulate.Written, circulate.Return{Claim: c["parked"], Park: "gone: 410", Failures: 16})
	f.give(f.old, circulate.Written, circulate.Return{Claim: c["waiting"], Cursor: []byte("w")})
	f.give(f.old, circulate.Written, circulate.Return{Claim: c["urgent"]})
	f.give(f.old, circulate.Written, circulate.Return{Claim: c["fresh"]})
	if err := f.old.Account("hinted").Nudge(ctx, circulate.Nudge{Within: time.Minute, Hint: []byte("token"), Lives: time.Hour}); err != nil {
		f.Fatal(err)
	}
	all := []string{"failing", "long", "short", "hinted", "parked", "claimed", "waiting", "fresh", "urgent", "later"}
	before := make(map[string]circulate.View)
	for _, id := range all {
		before[id] = f.see(f.old, id)
	}

	ring := f.begin()
	if err := moveAll(ring); err != nil {
		f.Fatal(err)
	}
	f.lawful(ring, len(all))
	if left, err := ring.Mover().Remaining(ctx, f.old.ShardOf("claimed")); err != nil || left.Accounts != 1 {
		f.Errorf("of claimed accounts are left: %+v, %v", left, err)
	}
	if done, err := ring.Mover().FinishMove(ctx); done || err != nil {
		f.Errorf("moved while one is claimed: %v", err)
	}
	f.give(f.old, circulate.Written, circulate.Return{Claim: c["claimed"], Due: soon(c["claimed"]), Cursor: []byte("of the old shard"), Messages: []circulate.Message{message("m2")}})
	after := f.finish(ring)
	f.lawful(after, len(all))

	for _, id := range all {
		was, is := before[id], f.see(after, id)
		if id == "claimed" || id == "waiting" || id == "fresh" || id == "urgent" {
			was.Place, was.Due, was.Since, was.Replica = is.Place, is.Due, is.Since, is.Replica
		}
		was.Now = is.Now
		if fmt.Sprintf("%+v", is) != fmt.Sprintf("%+v", was) {
			f.Errorf("%q is\n%+v, was\n%+v", id, is, was)
		}
	}
	cursors := map[string][]byte{"long": long, "short": {0, '-', 0xfe}, "hinted": nil, "failing": nil, "claimed": []byte("of the old shard"), "waiting": []byte("w")}
	for id := range cursors {
		if err := after.Account(id).Nudge(ctx, circulate.Nudge{}); err != nil {
			f.Fatal(err)
		}
	}
	claims := f.claimOf(after, bob)
	for id, cursor := range cursors {
		c := claims[id]
		if c == nil || !bytes.Equal(c.Cursor, cursor) || c.Failures != before[id].Failures {
			f.Fatalf("%q was claimed as %+v, want the cursor %q", id, c, cursor)
		}
	}
	if claims["failing"].State != "kept by its cadence" || string(claims["hinted"].Hint) != "token" {
		f.Errorf("state %q, hint %q", claims["failing"].State, claims["hinted"].Hint)
	}
}

// reshardFencesTheOld expects a process whose ring was opened before the change to be
// told so.
func reshardFencesTheOld(fx *fixture) {
	f, ctx := newResharding(fx, fromShards, toShards), context.Background()
	f.registerAll(f.old, ids(20))
	ring := f.begin()
	f.register(f.old, circulate.Registration{ID: "late", Record: []byte("1")}) // its shard is not being left yet
	if err := moveAll(ring); err != nil {
		f.Fatal(err)
	}
	const id = "account-007"
	shard := f.old.ShardOf(id)
	for name, step := range map[string]func() error{
		"register": func() error {
			_, err := f.old.Register(ctx, f.old.ShardOf("new"), []circulate.Registration{{ID: "new"}})
			return err
		},
		"upsert": func() error {
			_, err := f.old.Upsert(ctx, shard, []circulate.Registration{{ID: id, Record: []byte("2")}})
			return err
		},
		"look":       func() error { _, err := f.old.Look(ctx, shard, []string{id}); return err },
		"deregister": func() error { _, err := f.old.Deregister(ctx, shard, []string{id}); return err },
		"park":       func() error { _, err := f.old.Park(ctx, shard, circulate.ReasonPaused, []string{id}); return err },
		"resume":     func() error { return f.old.Account(id).Resume(ctx, circulate.Resumption{}) },
		"nudge":      func() error { return f.old.Account(id).Nudge(ctx, circulate.Nudge{}) },
		"turn":       func() error { _, err := f.old.Account(id).QueuePosition(ctx); return err },
	} {
		if err := step(); !errors.Is(err, circulate.ErrResharding) {
			f.Errorf("%s: %v, want %v", name, err, circulate.ErrResharding)
		}
	}
	if changed, err := f.old.Changed(ctx); err != nil || !changed {
		f.Errorf("changed: %v, %v", changed, err)
	}
	f.lawful(ring, 21)
	after := f.finish(ring)
	f.lawful(after, 21)
	if _, err := f.old.Register(ctx, f.old.ShardOf("new"), []circulate.Registration{{ID: "new"}}); !errors.Is(err, circulate.ErrResharding) {
		f.Errorf("register after the end: %v", err)
	}
	if changed, err := ring.Changed(ctx); err != nil || !changed {
		f.Errorf("changed at the end: %v, %v", changed, err)
	}
	f.register(ring, circulate.Registration{ID: "new"}) // the new shards are the same for it
	f.lawful(after, 22)
}

// reshardSteps checks that the steps that take an id find accounts wherever they are.
func reshardSteps(fx *fixture) {
	f, ctx := newResharding(fx, fromShards, toShards), context.Background()
	all := ids(30)
	f.registerAll(f.old, all)
	ring := f.begin()
	source := f.old.ShardOf(all[0])
	if _, _, err := ring.Mover().Move(ctx, source); err != nil { // some are in new shards now, some are not
		f.Fatal(err)
	}
	f.onTheirWay(source)
	var own []string
	for _, id := range all {
		if f.old.ShardOf(id) == source {
			own = append(own, id)
		}
	}
	views, err := ring.Look(ctx, source, own)
	if err != nil || !slices.EqualFunc(views, own, func(v circulate.View, id string) bool { return v.ID == id }) {
		f.Errorf("%v, %v, want %q", views, err, own)
	}
	for _, id := range all {
		if got := f.see(ring, id); string(got.Record) != "record of "+id {
			f.Errorf("%q: record %q", id, got.Record)
		}
		if o, err := ring.Register(ctx, ring.ShardOf(id), []circulate.Registration{{ID: id}}); err != nil || o[0] != circulate.Exists {
			f.Errorf("registered %q again: %c, %v", id, o, err)
		}
		if err := ring.Account(id).Nudge(ctx, circulate.Nudge{}); err != nil {
			f.Errorf("nudge %q: %v", id, err)
		}
		if n, err := ring.Park(ctx, ring.ShardOf(id), circulate.ReasonPaused, []string{id}); err != nil || n != 1 {
			f.Errorf("park %q: %d, %v", id, n, err)
		}
		if err := ring.Account(id).Nudge(ctx, circulate.Nudge{}); !errors.Is(err, circulate.ErrParked) {
			f.Errorf("nudge %q, parked: %v", id, err)
		}
		if err := ring.Account(id).Resume(ctx, circulate.Resumption{}); err != nil {
			f.Errorf("resume %q: %v", id, err)
		}
	}
	f.lawful(ring, len(all))
	o, err := ring.Upsert(ctx, ring.ShardOf("new"), []circulate.Registration{{ID: "new"}})
	if err != nil || o[0] != circulate.Created {
		f.Errorf("upsert: %c, %v", o, err)
	}
	for _, id := range append(slices.Clone(all), "new") {
		if n, err := ring.Deregister(ctx, ring.ShardOf(id), []string{id}); err != nil || n != 1 {
			f.Errorf("deregister %q: %d, %v", id, n, err)
		}
		if err := ring.Account(id).Nudge(ctx, circulate.Nudge{}); !errors.Is(err, circulate.ErrNotRegistered) {
			f.Errorf("nudge %q, gone: %v", id, err)
		}
	}
	f.lawful(f.finish(ring), 0)
}

// onTheirWay turns what has arrived from a shard into what is on its way, as a mover
// leaves it that stops before it settles.
func (f *resharding) onTheirWay(source int) {
	f.Helper()
	key := fmt.Sprintf("{%s:%d}:", f.ns, source)
	pairs := f.strings("HGETALL", key+"departed")
	for i := 0; i+1 < len(pairs); i += 2 {
		f.do("HSET", key+"departures", pairs[i], pairs[i+1][14:])
	}
	f.do("DEL", key+"departed")
}
