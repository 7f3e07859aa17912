package ringtest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/testing/redistest"
)

// RunFull tests what the ring promises of a Redis at its memory limit: steps that free,
// move or only read succeed, and steps that add are refused as a whole. Limit has the
// server reach its limit, or lifts it. Nobody else may use the server meanwhile.
func RunFull(t *testing.T, server redistest.Redis, limit func(reached bool)) {
	t.Helper()
	for name, test := range map[string]func(f *fullFixture){
		"claim and return without messages":     fullCycle,
		"return with messages is refused whole": fullReturn,
		"progress":                              fullProgress,
		"release":                               fullRelease,
		"handing over, and passing by":          fullHandOver,
		"requeue":                               fullRequeue,
		"quarantine":                            fullQuarantine,
		"register is refused, deregister works": fullRegistry,
		"park, resume, probe":                   fullPark,
		"look, turn, count":                     fullLook,
		"heartbeat, replicas, retire":           fullReplicas,
		"duty":                                  fullDuty,
		"trim":                                  fullTrim,
		"a consumer group goes on":              fullGroup,
		"an effect is applied":                  fullEffect,
		"limits are left":                       fullLimit,
		"an endpoint is disabled":               fullEndpoint,
		"a message is skipped":                  fullSkip,
		"opening a ring that there is":          fullOpen,
		"a timeline goes on":                    fullTimeline,
		"sends go on":                           fullSends,
		"events of sends are told":              fullSendEvents,
		"files end":                             fullFiles,
		"memory, and trying a write":            fullMemory,
	} {
		t.Run(name, func(t *testing.T) {
			f := &fullFixture{newFixture(t, server), limit}
			defer limit(false)
			test(f)
		})
	}
}

type fullFixture struct {
	*fixture
	limit func(reached bool)
}

// full has the server reach its limit, and makes sure that it refuses writes.
func (f *fullFixture) full() {
	f.Helper()
	f.limit(true)
	_, err := f.ring.Register(context.Background(), 0, []circulate.Registration{{ID: "one more", Record: []byte(`{}`)}})
	if !circulate.Full(err) || circulate.Unknown(err) {
		f.Fatalf("registering where Redis is full: %v", err)
	}
}

func (f *fullFixture) must(what string, err error) {
	f.Helper()
	if err != nil {
		f.Fatalf("%s: %v", what, err)
	}
}

func (f *fullFixture) refused(what string, err error) {
	f.Helper()
	if !circulate.Full(err) || circulate.Unknown(err) || !circulate.Unavailable(err) {
		f.Fatalf("%s: %v; want that Redis is full", what, err)
	}
}

func fullCycle(f *fullFixture) {
	var ids []string
	for i := range 20 {
		ids = append(ids, fmt.Sprintf("a%02d", i))
	}
	f.register(ids...)
	f.full()
	for _, n := range []int{20, 3} { // many are returned in another way than few
		b := f.batch(alice, n)
		if len(b.Claims) != n {
			f.Fatalf("claimed %d, want %d", len(b.Claims), n)
		}
		var items []circulate.Return
		for i := range b.Claims {
			item := circulate.Return{Claim: &b.Claims[i], Cursor: []byte("next"), State: "i60000", Failures: i % 2}
			if i%3 == 0 {
				item.Due = b.Now.Add(time.Hour)
			}
			items = append(items, item)
		}
		outcomes, err := f.ring.Return(context.Background(), 0, items)
		f.must("return", err)
		for i, o := range outcomes {
			if o != circulate.Written {
				f.Errorf("%q: %v", items[i].Claim.ID, o)
			}
		}
		f.conserved()
	}
}

func fullReturn(f *fullFixture) {
	f.register("a", "b", "c", "d", "e", "f", "g", "h", "i")
	for _, n := range []int{8, 1} {
		f.limit(false)
		b := f.batch(alice, n)
		var items []circulate.Return
		for i := range b.Claims {
			items = append(items, circulate.Return{Claim: &b.Claims[i], Due: b.Now.Add(time.Hour), Cursor: []byte("7")})
		}
		items[n-1].Messages = []circulate.Message{message("1")}
		f.full()
		_, err := f.ring.Return(context.Background(), 0, items)
		f.refused("return", err)
		for i := range items {
			f.placed(items[i].Claim.ID, circulate.Claimed)
		}
		items[n-1].Messages, items[n-1].Cursor = nil, nil
		outcomes, err := f.ring.Return(context.Background(), 0, items)
		f.must("return without messages", err)
		if outcomes[n-1] != circulate.Written {
			f.Errorf("of what was refused: %v", outcomes[n-1])
		}
	}
	if got := f.messages(); len(got) > 0 {
		f.Errorf("written: %v", got)
	}
	f.conserved()
}

func fullProgress(f *fullFixture) {
	ctx := context.Background()
	f.register("a")
	claim := f.claim(alice, "a")[0]
	f.full()
	f.refused("progress with messages", f.ring.Progress(ctx, claim, circulate.Page{Messages: []circulate.Message{message("1")}, Cursor: []byte("1")}))
	f.must("progress of an empty page", f.ring.Progress(ctx, claim, circulate.Page{Cursor: []byte("2")}))
	f.ret(circulate.Written, circulate.Return{Claim: claim, Due: soon(claim)})
	if again := f.look("a"); again.Place != circulate.Scheduled || len(f.messages()) > 0 {
		f.Errorf("%+v, %v", again, f.messages())
	}
}

func fullRelease(f *fullFixture) {
	f.register("a", "b")
	claims := f.claim(alice, "a", "b")
	f.full()
	n, err := f.ring.Release(context.Background(), 0, claims[:1])
	if err != nil || n != 1 {
		f.Errorf("released %d, %v", n, err)
	}
	if n, err = f.ring.ReleaseEntries(context.Background(), 0, f.oldest()); err != nil || n != 1 {
		f.Errorf("released %d that were claimed unknown, %v", n, err)
	}
	f.conserved()
	f.claim(bob, "b", "a")
}

func fullRequeue(f *fullFixture) {
	f.register("a", "b")
	claims := f.claim(alice, "a", "b")
	f.full()
	entries := f.oldest()
	f.requeue(circulate.Moved, entries[0])
	f.requeue(circulate.Compensated, entries[0]) // another monitor saw it too
	f.conserved()
	f.ret(circulate.Fenced, circulate.Return{Claim: claims[0]})
	f.ret(circulate.Written, circulate.Return{Claim: claims[1]})
	f.requeue(circulate.Compensated, entries[1])
	if v := f.look("a"); v.Strikes != 1 {
		f.Errorf("a has %d strikes, want 1", v.Strikes)
	}
	f.claim(bob, "a", "b")
	f.conserved()
}

func fullQuarantine(f *fullFixture) {
	f.register("a")
	f.claim(alice, "a")
	f.full()
	entries := f.oldest()
	f.requeue(circulate.Moved, entries[0])
	parked, err := f.ring.Quarantine(context.Background(), 0, entries[0], 1, "quarantine: it kills")
	if err != nil || !parked {
		f.Errorf("quarantine: %v, %v", parked, err)
	}
	f.placed("a", circulate.Parked)
}

func fullRegistry(f *fullFixture) {
	ctx := context.Background()
	f.register("a", "b", "c")
	f.claim(alice, "a")
	f.full()
	_, err := f.ring.Upsert(ctx, 0, []circulate.Registration{{ID: "a", Record: []byte(`{"id":"a","more":1}`)}})
	f.refused("upsert", err)
	f.refused("nudge", f.ring.Account("b").Nudge(ctx, circulate.Nudge{}))
	outcomes, err := f.ring.Upsert(ctx, 0, []circulate.Registration{{ID: "b", Record: []byte(`{"id":"b"}`)}})
	if err != nil || outcomes[0] != circulate.Unchanged {
		f.Errorf("upsert of the same: %v, %v", outcomes, err)
	}
	n, err := f.ring.Deregister(ctx, 0, []string{"a", "b"})
	if err != nil || n != 2 {
		f.Errorf("deregistered %d, %v", n, err)
	}
	if n := f.number("HLEN", f.key("tickets")); n != 1 {
		f.Errorf("%d accounts are left, want 1", n)
	}
}

func fullPark(f *fullFixture) {
	ctx := context.Background()
	f.register("a", "b", "c")
	claims := f.claim(alice, "a")
	f.register("late")
	f.do("ZADD", f.key("schedule"), 1, "late")
	f.full()
	n, err := f.ring.Park(ctx, 0, circulate.ReasonPaused, []string{"a", "b"})
	if err != nil || n != 2 {
		f.Fatalf("parked %d, %v", n, err)
	}
	f.placed("a", circulate.Parked)
	f.ret(circulate.Fenced, circulate.Return{Claim: claims[0]})
	page, _, err := f.ring.ParkedPage(ctx, 0, circulate.ParkedAccount{}, 10)
	if err != nil || len(page) != 2 {
		f.Errorf("parked: %v, %v", page, err)
	}
	f.must("resume", f.ring.Account("a").Resume(ctx, circulate.Resumption{}))
	f.placed("a", circulate.Scheduled)
	if n, err := f.ring.NudgeOverdue(ctx, 0, []string{"late"}); n != 1 || err != nil {
		f.Errorf("nudged %d that are overdue, %v", n, err)
	}
	outcomes, err := f.ring.Probe(ctx, 0, []circulate.Resumption{{ID: "b"}})
	if err != nil || outcomes[0] != circulate.BackAgain {
		f.Errorf("probe: %v, %v", outcomes, err)
	}
	f.placed("b", circulate.Scheduled)
}

func fullLook(f *fullFixture) {
	ctx := context.Background()
	f.register("a", "b")
	f.claim(alice, "a")
	f.full()
	f.placed("a", circulate.Claimed)
	views, _, err := f.ring.LookBrief(ctx, 0, []string{"a", "b"})
	if err != nil || len(views) != 2 {
		f.Errorf("lookbrief: %v, %v", views, err)
	}
	// Claiming a has promoted b, which waits.
	turn, err := f.ring.Account("b").QueuePosition(ctx)
	if err != nil || turn.Normal != 1 || turn.Lane != circulate.Normal {
		f.Errorf("turn: %+v, %v", turn, err)
	}
	if count := f.counted(); count.Registered != 2 || count.Claimed != 1 {
		f.Errorf("count: %+v", count)
	}
	if _, err := f.ring.Streams().Last(ctx, 0); err != nil {
		f.Errorf("last message: %v", err)
	}
}

func fullReplicas(f *fullFixture) {
	ctx := context.Background()
	f.full()
	alive, err := f.ring.Heartbeat(ctx, alice, []byte("{}"), time.Minute)
	if err != nil || len(alive) != 1 {
		f.Errorf("alive: %v, %v", alive, err)
	}
	replicas, _, err := f.ring.Replicas(ctx)
	if err != nil || len(replicas) != 1 || string(replicas[0].Report) != "{}" {
		f.Errorf("replicas: %v, %v", replicas, err)
	}
	f.must("retire", f.ring.Retire(ctx, alice))
	if replicas, _, err = f.ring.Replicas(ctx); err != nil || len(replicas) != 0 {
		f.Errorf("replicas after one retired: %v, %v", replicas, err)
	}
}

func fullDuty(f *fullFixture) {
	f.full()
	for _, step := range []struct {
		who  string
		ttl  time.Duration
		mine bool
	}{{alice, time.Minute, true}, {alice, time.Minute, true}, {bob, time.Minute, false}, {alice, 0, false}, {bob, time.Minute, true}} {
		mine, err := f.ring.OnDuty(context.Background(), step.who, step.ttl)
		if err != nil || mine != step.mine {
			f.Errorf("%+v: %v, %v", step, mine, err)
		}
	}
}

func fullTrim(f *fullFixture) {
	ctx := context.Background()
	f.add("a/1", "a/2", "a/3")
	f.full()
	dropped, held, err := f.ring.Streams().TrimTo(ctx, 0, 2)
	if err != nil || dropped != 1 || held {
		f.Errorf("to a number: dropped %d, %v, %v", dropped, held, err)
	}
	if dropped, held, err = f.ring.Streams().Trim(ctx, 0, time.Now().Add(time.Hour)); err != nil || dropped != 2 || held {
		f.Errorf("by age: dropped %d, %v, %v", dropped, held, err)
	}
}
