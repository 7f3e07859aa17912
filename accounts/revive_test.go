package accounts

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/testing/redistest"
)

func TestDecodeRevival(t *testing.T) {
	many := `["a"` + strings.Repeat(`,"a"`, MaxReviveIDs) + `]`
	for text, want := range map[string]string{ // faults, by field
		`{"ids":["a","b"]}`:                                "",
		`{"reason":"auth","kind":"feed","rate":0.5}`:       "",
		`{"kind":"feed","dry_run":true,"rate":null}`:       "",
		`{"reason":"auth","cursor":"x"}`:                   "",
		`{}`:                                               "ids",
		`{"rate":10}`:                                      "ids",
		`{"reason":""}`:                                    "ids",
		`{"ids":[]}`:                                       "ids",
		`{"ids":["a"],"kind":"feed"}`:                      "ids",
		`{"ids":["a"],"cursor":"x"}`:                       "cursor",
		`{"ids":"a"}`:                                      "ids",
		`{"ids":["a",null]}`:                               "ids",
		`{"ids":["a","","\u0000"]}`:                        "ids[1] ids[2]",
		`{"ids":` + many + `}`:                             "ids",
		`{"reason":"auth","rate":0}`:                       "rate",
		`{"reason":"auth","rate":-1}`:                      "rate",
		`{"reason":"auth","rate":10001}`:                   "rate",
		`{"reason":"auth","rate":1e999}`:                   "rate",
		`{"reason":"auth","rate":0.0001}`:                  "rate",
		`{"reason":"auth","rate":"10"}`:                    "rate",
		`{"reason":7,"dry_run":1,"rate":0,"colour":"red"}`: "colour dry_run rate reason ids",
		`[]`: "record",
		`{`:  "record",
		``:   "record",
	} {
		_, err := DecodeRevival([]byte(text))
		var faults Faults
		if err != nil && !errors.As(err, &faults) {
			t.Fatalf("%s: %v", text, err)
		}
		var fields []string
		for _, f := range faults {
			fields = append(fields, f.Field)
		}
		if got := strings.Join(fields, " "); got != want {
			t.Errorf("%.60s: faults in %q, want %q", text, got, want)
		}
	}
	_, err := DecodeRevival([]byte(`{"reason":"auth","rate":0}`))
	if err == nil || err.Error() != "rate: must be more than 0: 0.001 to 10000 accounts a second" {
		t.Error(err)
	}
}

// dues returns the due times of scheduled accounts, in their order.
func dues(t *testing.T, ring *circulate.Ring, ids []string) []time.Time {
	t.Helper()
	shards := make(map[int][]string)
	for _, id := range ids {
		shards[ring.ShardOf(id)] = append(shards[ring.ShardOf(id)], id)
	}
	var all []time.Time
	for shard := range shards {
		for batch := range slices.Chunk(shards[shard], circulate.MaxBatch) {
			views, err := ring.Look(context.Background(), shard, batch)
			if err != nil || len(views) != len(batch) {
				t.Fatal(len(views), err)
			}
			for i := range views {
				if views[i].Place == circulate.Scheduled {
					all = append(all, views[i].Due)
				}
			}
		}
	}
	slices.SortFunc(all, time.Time.Compare)
	return all
}

// Accounts parked for the reason come back at the rate, from all shards, in as many calls
// as it takes. All others stay parked, above all paused ones.
func TestRevive(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server redistest.Redis) {
		ctx := context.Background()
		r, ring := newRegistry(t, server, 4)
		var ids []string
		for i := range 40 {
			id := fmt.Sprintf("id/%02d", i)
			kind, reason := "plain", "auth: refused"
			switch {
			case i%4 == 1:
				reason = "gone: x"
			case i%4 == 2:
				kind = "web"
			case i%8 == 3:
				reason = circulate.ReasonPaused
			}
			ids = append(ids, id)
			park(t, r, ring, id, kind, reason)
		}
		revive := func(v Revival, revived, skipped int) Revived {
			t.Helper()
			done, err := r.Revive(ctx, v)
			if err != nil || done.Revived != revived || done.Skipped != skipped || done.NotFound != 0 || done.Next != "" {
				t.Fatalf("%+v: %+v, %v; want %d revived, %d skipped", v, done, err, revived, skipped)
			}
			return done
		}
		before, err := ring.Now(ctx, 0)
		if err != nil {
			t.Fatal(err)
		}
		revive(Revival{Reason: "auth", DryRun: true}, 25, 0)
		if n := len(dues(t, ring, ids)); n != 0 {
			t.Fatalf("a dry run revived %d", n)
		}
		done := revive(Revival{Reason: "auth", Kind: "plain", Rate: 0.5}, 15, 0)
		due := dues(t, ring, ids)
		after, err := ring.Now(ctx, 0)
		if err != nil || len(due) != 15 {
			t.Fatal(due, err)
		}
		if first := due[0]; first.Before(before.Truncate(time.Millisecond)) || first.After(after) {
			t.Errorf("the first is due at %v, now is %v to %v", first, before, after)
		}
		// The first was due when the walk began, so it may have been written later.
		if last := due[14]; !last.Equal(done.LastDue.Truncate(time.Millisecond)) || last.Sub(due[1]) != 26*time.Second {
			t.Errorf("the last is due at %v, told is %v; the second at %v", last, done.LastDue, due[1])
		}
		for i := 2; i < len(due); i++ {
			if d := due[i].Sub(due[i-1]); d != 2*time.Second {
				t.Errorf("%v between the ones due %d and %d", d, i-1, i)
			}
		}
		revive(Revival{Kind: "plain"}, 10, 5)
		revive(Revival{Reason: "p"}, 0, 5)
		revive(Revival{Reason: "auth"}, 10, 0)
		revive(Revival{Reason: "auth"}, 0, 0)
		revive(Revival{Reason: "paused", Kind: "web"}, 0, 0)
		revive(Revival{Reason: "paused", Kind: "plain"}, 5, 0)
		if n := len(dues(t, ring, ids)); n != 40 {
			t.Errorf("%d circulate", n)
		}
		if _, err := r.Revive(ctx, Revival{}); err == nil {
			t.Error("a revival of all there are was accepted")
		}
	})
}

// Accounts that are named come back in the order of their names, each once.
func TestReviveNamed(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server redistest.Redis) {
		ctx := context.Background()
		r, ring := newRegistry(t, server, 4)
		ids := []string{"f", "b", "d", "a", "paused"}
		for _, id := range ids {
			park(t, r, ring, id, "plain", map[bool]string{true: circulate.ReasonPaused, false: "gone: x"}[id == "paused"])
		}
		if _, err := r.Create(ctx, Account{ID: "c", Kind: "plain"}); err != nil {
			t.Fatal(err)
		}
		named := append([]string{"c", "none", "f"}, ids...)
		want := Revived{Revived: 5, Skipped: 1, NotFound: 1}
		for _, dry := range []bool{true, false} {
			done, err := r.Revive(ctx, Revival{IDs: named, Rate: 0.1, DryRun: dry})
			if last := done.LastDue; err != nil || last.IsZero() {
				t.Fatal(done, err)
			}
			if done.LastDue = (time.Time{}); done != want {
				t.Errorf("dry run %t: %+v, want %+v", dry, done, want)
			}
		}
		var order []time.Time
		for _, id := range ids {
			v, err := r.Get(ctx, id)
			if err != nil || v.State.Place != circulate.Scheduled {
				t.Fatal(v, err)
			}
			order = append(order, v.State.Due)
		}
		for i := 1; i < len(order); i++ {
			if d := order[i].Sub(order[i-1]); d != 10*time.Second {
				t.Errorf("%v between %s and %s", d, ids[i-1], ids[i])
			}
		}
	})
}

// A revival that one call cannot finish goes on in the next, at the same rate.
func TestReviveGoesOn(t *testing.T) {
	ctx := context.Background()
	r, ring := newRegistry(t, redistest.Embedded(t), 2)
	const many, budget = 700, 2 * lookCount
	var ids [2][]string
	for i := range many {
		id := fmt.Sprint(i)
		ids[ring.ShardOf(id)] = append(ids[ring.ShardOf(id)], id)
	}
	for shard := range ids {
		for batch := range slices.Chunk(ids[shard], circulate.MaxBatch) {
			items := make([]circulate.Registration, len(batch))
			for i, id := range batch {
				items[i] = circulate.Registration{ID: id, Record: []byte(`{"kind":"plain"}`)}
			}
			if _, err := ring.Register(ctx, shard, items); err != nil {
				t.Fatal(err)
			}
			if _, err := ring.Park(ctx, shard, "gone: x", batch); err != nil {
				t.Fatal(err)
			}
		}
	}
	v := Revival{Reason: "gone", Rate: 10}
	sum, calls := 0, 0
	var last time.Time
	for calls == 0 || v.Cursor != "" {
		done, err := r.revive(ctx, v, budget)
		if err != nil || !done.LastDue.After(last) {
			t.Fatal(done, err)
		}
		calls++
		sum, v.Cursor, last = sum+done.Revived, done.Next, done.LastDue
		// Accounts parked from now on are not selected, or a walk might never end.
		if _, err := ring.Park(ctx, 1, "gone: again", ids[1][:5]); err != nil {
			t.Fatal(err)
		}
	}
	if calls != 2 || sum < many-5 || sum > many {
		t.Errorf("%d revived in %d calls", sum, calls)
	}
	due := dues(t, ring, append(ids[0], ids[1]...))
	if spread := due[len(due)-1].Sub(due[0]); len(due) < many-5 || spread < 69*time.Second || spread > 70*time.Second {
		t.Errorf("%d are due over %v", len(due), spread)
	}
	for _, cursor := range []string{"x", SealCursor(CursorRevival, nil), SealCursor(CursorRevival, []byte{2, 2, 3, 0, 0}), listCursor{}.String(2), SealCursor(CursorParked, parkedPlace{}.append(nil, 2))} {
		if _, err := r.Revive(ctx, Revival{Reason: "x", Cursor: cursor}); !errors.Is(err, ErrCursor) {
			t.Errorf("cursor %q: %v", cursor, err)
		}
	}
}

// Accounts are revived, by selector and by name, while others deregister and pause them. A
// deregistered account stays away, and a paused one stays paused unless it was named.
func TestReviveRaces(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server redistest.Redis) {
		ctx := context.Background()
		r, ring := newRegistry(t, server, 4)
		var gone, pausing, rest []string
		for i := range 120 {
			id := fmt.Sprint(i)
			park(t, r, ring, id, "plain", "gone: x")
			switch i % 3 {
			case 0:
				gone = append(gone, id)
			case 1:
				pausing = append(pausing, id)
			default:
				rest = append(rest, id)
			}
		}
		var wg sync.WaitGroup
		try := func(do func() error) {
			wg.Go(func() {
				if err := do(); err != nil {
					t.Error(err)
				}
			})
		}
		revived := make([]Revived, 3)
		for i, v := range []Revival{{Reason: "gone", Rate: 1000}, {Kind: "plain"}, {IDs: gone}} {
			try(func() (err error) {
				revived[i], err = r.Revive(ctx, v)
				return err
			})
		}
		try(func() error {
			for _, id := range gone {
				if err := r.Delete(ctx, id); err != nil {
					return err
				}
			}
			return nil
		})
		try(func() error {
			for _, id := range pausing {
				if _, err := r.Pause(ctx, id); err != nil {
					return err
				}
			}
			return nil
		})
		wg.Wait()
		for _, id := range gone {
			if _, err := r.Get(ctx, id); !errors.Is(err, ErrNotFound) {
				t.Errorf("%s: %v", id, err)
			}
		}
		for _, id := range pausing {
			if v, err := r.Get(ctx, id); err != nil || v.State.Reason != circulate.ReasonPaused {
				t.Errorf("%s: %+v, %v", id, v.State, err)
			}
		}
		for _, id := range rest {
			if v, err := r.Get(ctx, id); err != nil || v.State.Place != circulate.Scheduled {
				t.Errorf("%s: %+v, %v", id, v.State, err)
			}
		}
		sum := 0
		for _, done := range revived {
			sum += done.Revived
		}
		if sum < len(rest) || sum > 120 {
			t.Errorf("%+v: %d revived", revived, sum)
		}
		s, err := r.Stats(ctx)
		if err != nil || s.Registered != 80 || s.Parked != 40 || s.Scheduled != 40 {
			t.Errorf("%+v, %v", s, err)
		}
	})
}
