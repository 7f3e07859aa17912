package ringtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/group"
)

func groupStates(f *fixture) {
	ctx := context.Background()
	if _, err := f.ring.Streams().GroupState(ctx, 0, crew); !errors.Is(err, circulate.ErrNoGroup) {
		f.Errorf("of a shard without a stream: %v", err)
	}
	f.group(circulate.StreamStart)
	l := f.lease(alice)
	state := func(lag, pending int, last string) circulate.GroupState {
		f.Helper()
		s, err := f.ring.Streams().GroupState(ctx, 0, crew)
		if err != nil || s.Lag != lag || s.Pending != pending || s.Last != last || s.Holder != alice {
			f.Errorf("%+v, %v; want lag %d, pending %d", s, err, lag, pending)
		}
		return s
	}
	state(0, 0, circulate.StreamStart)
	now, err := f.ring.Now(ctx, 0)
	if err != nil {
		f.Fatal(err)
	}
	old := fmt.Sprintf("%d-0", now.Add(-time.Hour).UnixMilli())
	f.do("XADD", f.key("messages"), old, "account", "a", "id", "1")
	second := f.add("a/2")[0]
	if s := state(2, 0, circulate.StreamStart); s.OldestUnread < time.Hour || s.OldestUnread > time.Hour+time.Minute || s.OldestPending != 0 {
		f.Errorf("unread for %v, pending for %v", s.OldestUnread, s.OldestPending)
	}
	f.read(l, "a/1", "a/2")
	if s := state(0, 2, second); s.OldestUnread != 0 || s.OldestPending < time.Hour {
		f.Errorf("unread for %v, pending for %v", s.OldestUnread, s.OldestPending)
	}
	third := f.add("a/3")[0]
	state(1, 2, second)
	if shards, err := group.Of(f.ring).States(ctx, nil); err != nil || len(shards) != 1 || shards[0][crew].Lag != 1 {
		f.Errorf("groups %+v, %v; want a lag of 1", shards, err)
	}
	f.read(l, "a/3")
	if acknowledged, err := group.Of(f.ring).Acknowledge(ctx, 0, crew, []string{third}); err != nil || acknowledged != 1 {
		f.Fatalf("acknowledged %d, %v", acknowledged, err)
	}
	state(0, 2, third)
	if _, err := group.Of(f.ring).Bury(ctx, l, group.Pending{Position: old, Deliveries: 1}, "bad"); err != nil {
		f.Fatal(err)
	}
	if s := state(0, 1, third); s.Dead != 1 {
		f.Errorf("%d dead", s.Dead)
	}
	// Of a group that has read some, what is left is counted, on any server.
	for i := range 40 {
		f.add(fmt.Sprintf("b/%d", i))
	}
	state(40, 1, third)
	batch, err := group.Of(f.ring).Read(ctx, l, 10, 1<<20, false)
	if err != nil || len(batch.Messages) != 10 {
		f.Fatalf("read %d, %v", len(batch.Messages), err)
	}
	state(30, 11, batch.Messages[9].Position)
	if survey, err := group.Of(f.ring).Survey(ctx, 0, crew); err != nil || survey.Lag != 30 {
		f.Errorf("survey: %+v, %v; want lag 30", survey, err)
	}
	for _, m := range batch.Messages {
		if _, err := group.Of(f.ring).Acknowledge(ctx, 0, crew, []string{m.Position}); err != nil {
			f.Fatal(err)
		}
	}
	if shards, err := group.Of(f.ring).States(ctx, nil); err != nil || len(shards) != 1 || len(shards[0]) != 1 || shards[0][crew].Pending != 1 {
		f.Errorf("groups %+v, %v", shards, err)
	}
	if shards, err := group.Of(f.ring).States(ctx, func(name string) bool { return name != crew }); err != nil || len(shards[0]) != 0 {
		f.Errorf("groups of other names %+v, %v", shards, err)
	}
	if counts, err := group.Of(f.ring).DeadCounts(ctx); err != nil || !slices.Equal(counts, []int{1}) {
		f.Errorf("dead letters %v, %v", counts, err)
	}
	for _, want := range []bool{true, false} {
		if removed, err := group.Of(f.ring).Remove(ctx, crew); removed != want || err != nil {
			f.Errorf("removed %v, %v", removed, err)
		}
	}
	if _, err := group.Of(f.ring).Read(ctx, f.lease(alice), 1, 1, false); !errors.Is(err, circulate.ErrNoGroup) {
		f.Errorf("read of a removed group: %v", err)
	}
	if _, err := f.ring.Streams().GroupState(ctx, 0, crew); !errors.Is(err, circulate.ErrNoGroup) {
		f.Errorf("state of a removed group: %v", err)
	}
}

func groupMembers(f *fixture) {
	ctx := context.Background()
	join := func(g, consumer string, want ...string) {
		f.Helper()
		alive, err := group.Of(f.ring).Member(g, consumer, time.Minute).Join(ctx, group.Condition{})
		if slices.Sort(alive); err != nil || !slices.Equal(alive, want) {
			f.Errorf("alive are %q, %v; want %q", alive, err, want)
		}
	}
	join(crew, alice, alice)
	join("audit", bob, bob)
	join(crew, bob, alice, bob)
	if consumers, err := group.Of(f.ring).Consumers(ctx, crew, time.Minute); err != nil || len(consumers) != 2 {
		f.Errorf("consumers %q, %v", consumers, err)
	}
	// What others must know of a consumer is as it was said last, and in no other group.
	for _, is := range []group.Condition{{Declined: []int{3, 0}, Deferred: "no table, 5,7 later:é"}, {Declined: []int{1}}, {Deferred: "away"}, {}} {
		if _, err := group.Of(f.ring).Member(crew, alice, time.Minute).Join(ctx, is); err != nil {
			f.Fatal(err)
		}
		all, err := group.Of(f.ring).Conditions(ctx, crew)
		if got := all[alice]; err != nil || !slices.Equal(got.Declined, is.Declined) || got.Deferred != is.Deferred || all[bob].Deferred != "" {
			f.Errorf("conditions %+v, %v; want %+v", all, err, is)
		}
		present, err := group.Of(f.ring).Present(ctx, crew, time.Minute)
		if err != nil || len(present) != 2 || !slices.ContainsFunc(present, func(c group.Consumer) bool { return c.Name == alice && c.Deferred == is.Deferred }) {
			f.Errorf("present are %+v, %v; want %+v", present, err, is)
		}
	}
	if err := group.Of(f.ring).Member(crew, alice, 0).Quit(ctx); err != nil {
		f.Fatal(err)
	}
	join(crew, bob, bob)
}

func groupAwaits(f *fixture) {
	ctx := context.Background()
	after := map[int]string{0: circulate.StreamStart}
	if ready, err := group.Of(f.ring).Await(ctx, after, 2*time.Millisecond); err != nil || len(ready) != 0 {
		f.Errorf("of an empty stream: %v, %v", ready, err)
	}
	waiting := make(chan string, 1)
	go func() {
		ready, err := group.Of(f.ring).Await(ctx, after, 10*time.Second)
		waiting <- fmt.Sprint(ready, err)
	}()
	position := f.add("a/1")[0]
	if got := <-waiting; got != "[0] <nil>" {
		f.Errorf("woken by %s", got)
	}
	if ready, err := group.Of(f.ring).Await(ctx, map[int]string{0: position}, time.Millisecond); err != nil || len(ready) != 0 {
		f.Errorf("after the last: %v, %v", ready, err)
	}
	if _, several := f.server.(nodes); (f.ring.Node(0) != "") != several {
		f.Errorf("node %q", f.ring.Node(0))
	}
}
