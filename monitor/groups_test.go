package monitor_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/accounts/concern"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/group"
	"github.com/rounds-dev/rounds/monitor"
)

// found puts messages into a shard's stream.
func (w *world) found(shard, n int) {
	w.Helper()
	for i := range n {
		w.Do("XADD", key(w.Ring, shard, "messages"), "*", "account", "a", "kind", "k", "id", fmt.Sprint(i), "type", "t", "time", "", "data", "{}")
	}
}

// expectLengths expects that many messages in each shard's stream.
func (w *world) expectLengths(want ...int64) {
	w.Helper()
	for shard, n := range want {
		if got := w.Do("XLEN", key(w.Ring, shard, "messages")); got != n {
			w.Errorf("shard %d has %v messages, want %d", shard, got, n)
		}
	}
}

// read reads that many messages of a shard for a group, and acknowledges them if asked
// to.
func (w *world) read(shard int, name string, n int, acknowledge bool) {
	w.Helper()
	lease, _, err := group.Of(w.Ring).Member(name, alice, time.Minute).Lease(w.Context(), shard)
	if err != nil {
		w.Fatal(err)
	}
	batch, err := group.Of(w.Ring).Read(w.Context(), lease, n, 1<<20, false)
	if err != nil || len(batch.Messages) != n {
		w.Fatalf("read %d, %v", len(batch.Messages), err)
	}
	for _, m := range batch.Messages {
		if !acknowledge {
			break
		}
		if n, err := group.Of(w.Ring).Acknowledge(w.Context(), shard, name, []string{m.Position}); n != 1 || err != nil {
			w.Fatal(n, err)
		}
	}
}

func (w *world) ensure(name string, shards ...int) {
	w.Helper()
	for _, shard := range shards {
		if _, err := w.Ring.Streams().EnsureGroup(w.Context(), shard, name, circulate.StreamStart); err != nil {
			w.Fatal(err)
		}
	}
}

const groupGauges = `rounds_group_lag rounds_group_near_retention rounds_group_oldest_pending_seconds rounds_group_oldest_unread_seconds rounds_group_pending`

// exposedGroups expects the groups' gauges, each with its values by group.
func (w *world) exposedGroups(want map[string][5]int) {
	w.Helper()
	var text strings.Builder
	names := strings.Fields(groupGauges)
	for i, name := range names {
		if len(want) > 0 {
			fmt.Fprintf(&text, "# TYPE %s gauge\n", name)
		}
		for _, of := range []string{"billing", "crm"} {
			if values, ok := want[of]; ok {
				fmt.Fprintf(&text, "%s{group=%q} %d\n", name, of, values[i])
			}
		}
	}
	w.exposed(text.String(), names...)
}

func TestGroupsShowHowFarTheyAre(t *testing.T) {
	inFakeTime(t, 2, func(w *world) {
		w.ensure("crm", 0, 1)
		w.ensure("billing", 1)
		w.found(0, 3)
		w.found(1, 2)
		w.read(0, "crm", 1, false)
		w.read(0, "crm", 1, true)
		w.read(1, "crm", 2, true)
		stop := w.run(monitor.Config{Retention: 100 * time.Minute, SweepInterval: time.Minute})
		time.Sleep(time.Minute + time.Second)
		// At the last look, a minute after the messages, no group is near its retention.
		w.exposedGroups(map[string][5]int{"crm": {1, 0, 60, 60, 1}, "billing": {2, 0, 0, 60, 0}})
		w.read(1, "billing", 2, true)
		time.Sleep(79 * time.Minute) // past 80 of 100 minutes
		w.exposedGroups(map[string][5]int{"crm": {1, 1, 4800, 4800, 1}, "billing": {0, 0, 0, 0, 0}})
		w.exposed("# TYPE rounds_streams_held_back gauge\nrounds_streams_held_back 0", "rounds_streams_held_back")

		// The warning came first. Then messages stay, which is logged as well.
		time.Sleep(31 * time.Minute)
		w.expectLengths(3, 0)
		w.exposed("# TYPE rounds_streams_held_back gauge\nrounds_streams_held_back 1", "rounds_streams_held_back")
		if removed, err := group.Of(w.Ring).Remove(w.Context(), "crm"); !removed || err != nil {
			w.Fatal(removed, err)
		}
		time.Sleep(10 * time.Minute)
		w.expectLengths(0, 0)
		w.exposedGroups(map[string][5]int{"billing": {0, 0, 0, 0, 0}})
		stop()
	})
}

// The monitor reports why a group lags: nobody is there, or its consumers put messages off.
func TestAGroupThatLagsSaysWhy(t *testing.T) {
	inFakeTime(t, 1, func(w *world) {
		w.ensure("crm", 0)
		w.found(0, 3)
		member := group.Of(w.Ring).Member("crm", alice, time.Minute)
		joins := func(is group.Condition) {
			t.Helper()
			for range 10 {
				if _, err := member.Join(w.Context(), is); err != nil {
					t.Fatal(err)
				}
				time.Sleep(10 * time.Second)
			}
		}
		told := func(want concern.Group) {
			t.Helper()
			all, _ := w.watched()
			if got := all.Groups.All[0]; got.Alone != want.Alone || got.Deferred != want.Deferred || got.Messages != 3 {
				t.Errorf("told %+v, want %+v", got, want)
			}
		}
		stop := w.run(monitor.Config{CountInterval: 10 * time.Second})
		defer stop()
		joins(group.Condition{Deferred: "no table"})
		told(concern.Group{}) // it has not waited for long
		joins(group.Condition{Deferred: "no table"})
		told(concern.Group{Deferred: "no table"})
		joins(group.Condition{})
		told(concern.Group{})
		time.Sleep(2 * time.Minute)
		told(concern.Group{Alone: true})
	})
}

// Since when a group lags is one moment, by Redis' clock, whoever is on duty and however far the
// group reads meanwhile. It is told within seconds, and is over when the group has caught up.
func TestSinceWhenAGroupLagsStays(t *testing.T) {
	inFakeTime(t, 1, func(w *world) {
		w.found(0, 1) // long before there is a group
		time.Sleep(time.Hour)
		stop := w.run(monitor.Config{})
		time.Sleep(5 * time.Minute)
		w.ensure("crm", 0)
		made := time.Now()
		lags := func() concern.Group {
			t.Helper()
			told, _ := w.watched()
			if len(told.Groups.All) != 1 {
				t.Fatalf("told %+v", told.Groups)
			}
			return told.Groups.All[0]
		}
		time.Sleep(21 * time.Second)
		first := lags()
		if before := made.Sub(first.Since); !first.Lags() || before > 10*time.Second || before < -10*time.Second || first.Seen.Before(made.Add(-10*time.Second)) {
			t.Errorf("made %v, lags %+v", made, first)
		}
		w.found(0, 5)
		time.Sleep(3 * time.Minute)
		w.read(0, "crm", 1, true)
		time.Sleep(21 * time.Second)
		stop()
		w.NewMetrics()
		stop = w.run(monitor.Config{})
		defer stop()
		time.Sleep(time.Minute)
		if g := lags(); !g.Lags() || !g.Since.Equal(first.Since) || !g.Seen.Equal(first.Seen) || g.Messages != 5 {
			t.Errorf("then %+v, before %+v", g, first)
		}
		w.read(0, "crm", 5, true)
		time.Sleep(21 * time.Second)
		if g := lags(); !g.Since.IsZero() || g.Messages != 0 {
			t.Errorf("%+v", g)
		}
		w.found(0, 1)
		came := time.Now()
		time.Sleep(2*time.Minute + 21*time.Second)
		if g := lags(); !g.Since.Equal(came.Add(2 * time.Minute)) {
			t.Errorf("it came %v, %+v", came, g)
		}
	})
}

func TestTheLongestStreamsAreCut(t *testing.T) {
	inFakeTime(t, 4, func(w *world) {
		for shard, n := range []int{5, 100, 40, 0} {
			w.found(shard, n)
		}
		stop := w.run(monitor.Config{Kept: 200, TrimInterval: time.Minute, CountInterval: 30 * time.Second})
		time.Sleep(90 * time.Second)
		w.expectLengths(5, 100, 40, 0)
		stop()
		w.NewMetrics()

		w.ensure("crm", 2)
		w.read(2, "crm", 8, true)
		stop = w.run(monitor.Config{Kept: 45, TrimInterval: time.Minute, CountInterval: 30 * time.Second})
		time.Sleep(45 * time.Second)
		w.expectLengths(5, 20, 32, 0) // of the third, all that the group has not read
		w.exposed("# TYPE rounds_messages_trimmed_total counter\nrounds_messages_trimmed_total 88\n"+
			"# TYPE rounds_streams_held_back gauge\nrounds_streams_held_back 1", "rounds_messages_trimmed_total", "rounds_streams_held_back")
		near := func(want int) {
			w.Helper()
			w.exposed(fmt.Sprintf("# TYPE rounds_group_near_retention gauge\nrounds_group_near_retention{group=%q} %d", "crm", want), "rounds_group_near_retention")
		}
		near(0)
		w.found(2, 4) // now 80 % of what is kept
		time.Sleep(time.Minute)
		near(1)
		w.read(2, "crm", 36, true)
		time.Sleep(time.Minute)
		w.expectLengths(5, 20, 20, 0)
		near(0)
		stop()
	})
}

func TestKeptIsJudged(t *testing.T) {
	if _, err := monitor.New(nil, monitor.Config{Kept: -1}, monitor.Options{}); err == nil || !strings.Contains(err.Error(), "kept: must not be negative") {
		t.Errorf("got %v", err)
	}
}
