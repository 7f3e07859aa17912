package circulate_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/connect"
	"github.com/rounds-dev/rounds/circulate/group"
	"github.com/rounds-dev/rounds/testing/redistest"
)

// TestShardMovesWhileAccountsGoRound moves the slot of a shard from master to
// master, key by key, under claims and returns.
func TestShardMovesWhileAccountsGoRound(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 0)
	server := cluster.Connect(t)
	ring := openRing(t, server, 4)
	nodes := make(map[string]bool)
	for shard := range ring.Shards() {
		nodes[ring.Node(shard)] = true
	}
	if len(nodes) < 2 {
		t.Fatalf("all shards are on %v: the test shows nothing", nodes)
	}
	tr := startTraffic(t, ring)
	slot := connect.Slot("{rounds:0}")
	for range 2 {
		for _, to := range cluster.Masters {
			if cluster.Owner(t, slot) == to {
				continue
			}
			tr.goesOn(t)
			m := cluster.Migrate(t, slot, to)
			for m.MoveKeys(t, 1) > 0 {
				<-time.After(5 * time.Millisecond) // some traffic during every state
			}
			m.Finish(t)
			tr.goesOn(t)
			if got := ring.Node(0); got != to.Addr() {
				t.Errorf("the shard is on %s, want %s", got, to.Addr())
			}
		}
	}
	tr.stop()
	if tr.unknown > 0 {
		t.Errorf("%d outcomes unknown, though no connection was cut", tr.unknown)
	}
	tr.settle(t, server, false)
}

// TestStepsOfAShardThatHasJustMovedGoRight has each kind of call be the first after the
// move.
func TestStepsOfAShardThatHasJustMovedGoRight(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 0)
	server := cluster.Connect(t)
	ring := openRing(t, server, 1)
	register(t, ring, "a")
	slot := connect.Slot("{rounds:0}")
	i := 0
	move := func() {
		t.Helper()
		owner := slices.Index(cluster.Masters, cluster.Owner(t, slot))
		cluster.Migrate(t, slot, cluster.Masters[(owner+1)%3]).Finish(t)
		i++
	}
	var entry circulate.ClaimedEntry
	for name, step := range map[string]func(ctx context.Context) error{
		"script":   func(ctx context.Context) error { _, err := ring.Claim(ctx, 0, alice, 1, 0); return err },
		"command":  func(ctx context.Context) error { _, err := ring.Streams().Last(ctx, 0); return err },
		"pipeline": func(ctx context.Context) error { _, _, err := ring.Oldest(ctx, 0, 1, 1); return err },
		"multi":    func(ctx context.Context) error { _, err := ring.Count(ctx, 0); return err },
		"batches":  func(ctx context.Context) error { _, err := ring.CountAll(ctx); return err },
		"requeue":  func(ctx context.Context) error { _, _, err := ring.Requeue(ctx, 0, entry); return err },
	} {
		if name == "requeue" {
			entries, _, err := ring.Oldest(t.Context(), 0, 0, 1)
			if err != nil {
				t.Fatal(err)
			}
			if len(entries) == 0 {
				if _, err = ring.Claim(t.Context(), 0, alice, 1, 0); err != nil {
					t.Fatal(err)
				}
				if entries, _, err = ring.Oldest(t.Context(), 0, 0, 1); err != nil || len(entries) != 1 {
					t.Fatal(entries, err)
				}
			}
			entry = entries[0]
		}
		move()
		if err := step(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if i != 6 {
		t.Errorf("moved %d times", i)
	}
	expectLaw(t, server, ring, 1)
}

// TestKilledMasterOfAClusterIsFollowedByItsReplica loses what the replica had not
// received, but the law still holds.
func TestKilledMasterOfAClusterIsFollowedByItsReplica(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 1, redistest.WithQuickFailover())
	server := cluster.Connect(t)
	ring := openRing(t, server, 4)
	tr := startTraffic(t, ring)
	tr.goesOn(t)
	killed := cluster.Owner(t, connect.Slot("{rounds:0}"))
	killed.Kill()
	promoted := cluster.Promoted(t, killed)
	tr.goesOn(t)
	if got := ring.Node(0); got != promoted.Addr() {
		t.Errorf("the shard is on %s, want %s", got, promoted.Addr())
	}
	tr.settle(t, server, true)
}

// TestMessagesOfSeveralShardsAreAwaitedOnACluster uses a cluster, where no single command
// concerns two shards.
func TestMessagesOfSeveralShardsAreAwaitedOnACluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 0)
	ring := openRing(t, cluster.Connect(t), 8)
	after := make(map[int]string)
	shard := 0
	for i := range ring.Shards() {
		if ring.Node(i) == ring.Node(0) {
			after[i] = circulate.StreamStart
			shard = i
		}
	}
	if len(after) < 2 {
		t.Fatal("shard 0 is alone on its node: the test shows nothing")
	}
	if ready, err := group.Of(ring).Await(t.Context(), after, 20*time.Millisecond); err != nil || len(ready) != 0 {
		t.Errorf("of empty streams: %v, %v", ready, err)
	}
	id := ""
	for i := 0; ring.ShardOf(id) != shard || id == ""; i++ {
		id = fmt.Sprint("account", i)
	}
	register(t, ring, id)
	b, err := ring.Claim(t.Context(), shard, alice, 1, 0)
	if err != nil || len(b.Claims) != 1 {
		t.Fatal(b, err)
	}
	waiting := make(chan string, 1)
	go func() {
		ready, err := group.Of(ring).Await(t.Context(), after, 10*time.Second)
		waiting <- fmt.Sprint(ready, err)
	}()
	if _, err := ring.Return(t.Context(), shard, []circulate.Return{{Claim: &b.Claims[0], Messages: []circulate.Message{{ID: "1"}}}}); err != nil {
		t.Fatal(err)
	}
	if got, want := <-waiting, fmt.Sprint([]int{shard}, nil); got != want {
		t.Errorf("woken by %s, want %s", got, want)
	}
	slot := connect.Slot(fmt.Sprintf("{rounds:%d}", shard))
	owner := slices.Index(cluster.Masters, cluster.Owner(t, slot))
	cluster.Migrate(t, slot, cluster.Masters[(owner+1)%3]).Finish(t)
	for i := range after {
		after[i] = "999999999999999-0"
	}
	if ready, err := group.Of(ring).Await(t.Context(), after, 10*time.Second); err != nil || len(ready) != 1 || ready[0] != shard {
		t.Errorf("of one that has moved away: %v, %v", ready, err)
	}
	if ring.Node(shard) == ring.Node(0) && shard != 0 {
		t.Error("the move was not noticed")
	}
}
