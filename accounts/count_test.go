package accounts

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/testing/faketime"
	"github.com/rounds-dev/rounds/testing/redistest"
)

func TestCount(t *testing.T) {
	r, ring := newRegistry(t, redistest.Embedded(t), 4)
	const n = 600
	fillBulk(t, r, n)
	if _, err := ring.Park(t.Context(), ring.ShardOf("a-0"), "auth: 401", []string{"a-0"}); err != nil {
		t.Fatal(err)
	}
	press := r.Bound(map[string]string{"team": "1"})
	for _, c := range []struct {
		name   string
		of     *Registry
		s      Selector
		budget int
		want   Counted
	}{
		{"all", r, Selector{}, 1, Counted{Count: n, Complete: true}},
		{"parked", r, Selector{States: []string{"parked"}}, 1, Counted{Count: 1, Complete: true}},
		{"active", r, Selector{States: []string{"active"}}, 1, Counted{Count: n - 1, Complete: true}},
		{"scheduled", r, Selector{States: []string{"scheduled"}}, 1, Counted{Count: n - 1, Complete: true}},
		{"of a kind", r, Selector{Kinds: []string{"web"}}, n, Counted{Count: n / 2, Complete: true}},
		{"two states", r, Selector{States: []string{"parked", "active"}}, n, Counted{Count: n, Complete: true}},
		{"by ids", r, Selector{IDs: []string{"a-0", "b-2", "none", "a-0"}}, 4, Counted{Count: 2, Complete: true}},
		{"bound", press, Selector{}, n, Counted{Count: n / 10, Complete: true}},
	} {
		if got, err := c.of.CountWithin(t.Context(), c.s, c.budget); err != nil || got != c.want {
			t.Errorf("%s: %+v, %v, want %+v", c.name, got, err, c.want)
		}
	}
	got, err := r.CountWithin(t.Context(), Selector{Kinds: []string{"web"}}, 300)
	if err != nil || got.Complete || got.Count < 100 || got.Count > 200 || got.Estimate < n/2-60 || got.Estimate > n/2+60 {
		t.Errorf("within a budget: %+v, %v", got, err)
	}
	// A bound caller learns nothing about the number of other accounts.
	if got, err := press.CountWithin(t.Context(), Selector{}, 300); err != nil || got.Complete || got.Estimate != 0 {
		t.Errorf("bound, within a budget: %+v, %v", got, err)
	}
	var faults Faults
	if _, err := r.count(t.Context(), Selector{States: []string{"x"}}); !errors.As(err, &faults) {
		t.Errorf("got %v", err)
	}
}

// A selector with ids finds exactly these, in every walk, and they need not be there.
func TestSelectingByIDs(t *testing.T) {
	r, _ := newRegistry(t, redistest.Embedded(t), 4)
	fillBulk(t, r, 40)
	some := Selector{IDs: []string{"a-0", "a-1", "b-2", "none"}}
	if got := countOf(t, r, some); got != 3 {
		t.Errorf("%d are listed", got)
	}
	page, err := r.List(t.Context(), Query{Limit: 2, Selector: some})
	if err != nil || len(page.Views) != 2 || page.Next == "" {
		t.Errorf("the first page: %+v, %v", page, err)
	}
	some.Kinds = []string{"plain"}
	if got := countOf(t, r, some); got != 2 {
		t.Errorf("%d of a kind are listed", got)
	}
	if did := mustBulk(t, r, Bulk{Action: PauseAll, Selector: some}); did != (Progress{Seen: 3 + 1, Matched: 2, Changed: 2}) {
		t.Errorf("paused: %+v", did)
	}
	if did := mustBulk(t, r, Bulk{Action: DeleteAll, Selector: Selector{IDs: []string{"a-1"}}}); did.Changed != 1 {
		t.Errorf("deleted: %+v", did)
	}
	if got := countOf(t, r, Selector{}); got != 39 {
		t.Errorf("%d are left", got)
	}
}

// Nudged accounts become due one after the other, at the rate, and none later than it was.
func TestNudgingMany(t *testing.T) {
	faketime.Run(t, 4, func(w *faketime.World) {
		ctx, t := w.T.Context(), w.T
		r := NewRegistry(w.Ring, testKinds{})
		for i := range 20 {
			a := Account{ID: fmt.Sprintf("a-%d", i), Kind: "plain", Cadence: "every 1h"}
			if _, err := r.Create(ctx, a); err != nil {
				t.Fatal(err)
			}
		}
		// Each is due in an hour, one in a second, and one is parked.
		for i := range 20 {
			id := fmt.Sprintf("a-%d", i)
			if _, err := r.Pause(ctx, id); err != nil {
				t.Fatal(err)
			}
			due := time.Now().Add(time.Hour)
			if i == 1 {
				due = time.Now().Add(time.Second)
			}
			if i > 0 {
				if _, err := w.Ring.ResumeAll(ctx, w.Ring.ShardOf(id), []circulate.Resumption{{ID: id, Due: due}}); err != nil {
					t.Fatal(err)
				}
			}
		}
		nudge := Bulk{Action: NudgeAll, All: true, Rate: 0.5, DryRun: true}
		want := Progress{Seen: 20, Matched: 20, Changed: 19, Unchanged: 1}
		if did := mustBulk(t, r, nudge); did != want {
			t.Errorf("dry: %+v", did)
		}
		nudge.DryRun = false
		if did := mustBulk(t, r, nudge); did != want {
			t.Errorf("nudged: %+v", did)
		}
		var due []time.Duration
		for i := 1; i < 20; i++ {
			v, err := r.Get(ctx, fmt.Sprintf("a-%d", i))
			if err != nil {
				t.Fatal(err)
			}
			if i == 1 {
				if time.Until(v.State.Due) > time.Second {
					t.Errorf("a-1 is due in %v", time.Until(v.State.Due))
				}
				continue
			}
			due = append(due, time.Until(v.State.Due).Round(time.Second))
		}
		slices.Sort(due)
		if gaps := slices.Compact(slices.Clone(due)); len(gaps) != len(due) || due[len(due)-1] > 36*time.Second || due[len(due)-1] < 34*time.Second {
			t.Errorf("due in %v", due)
		}
	})
}

func TestANudgeOfManyThatStops(t *testing.T) {
	r, _ := newRegistry(t, redistest.Embedded(t), 4)
	fillBulk(t, r, 40)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if did, err := r.Bulk(ctx, Bulk{Action: NudgeAll, All: true}, noReport); err == nil || did.Changed != 0 {
		t.Errorf("%+v, %v", did, err)
	}
	for _, b := range []Bulk{{Action: NudgeAll, All: true, Rate: -1}, {Action: NudgeAll, All: true, Rate: 1e9}, {Action: PauseAll, All: true, Rate: 1}} {
		var faults Faults
		if !errors.As(b.Validate(), &faults) || faults[0].Field != "rate" {
			t.Errorf("%+v: %v", b, b.Validate())
		}
	}
}
