package accounts

import (
	"bytes"
	"errors"
	"testing"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/testing/faketime"
	"github.com/rounds-dev/rounds/testing/redistest"
)

// While the number of shards changes, a bulk reaches every account. A process that does not
// know of the change reports that it may have missed some.
func TestBulkWhileTheNumberOfShardsChanges(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server redistest.Redis) {
		ctx := t.Context()
		before, old := newRegistry(t, server, 2)
		fillBulk(t, before, 300)
		if _, err := old.Mover().Begin(ctx, 3); err != nil {
			t.Fatal(err)
		}
		ring, err := circulate.Open(ctx, server, circulate.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := ring.Mover().Receive(ctx); err != nil {
			t.Fatal(err)
		}
		r := NewRegistry(ring, testKinds{})
		for range 2 { // before and after accounts move
			if done, err := r.Bulk(ctx, Bulk{Action: PauseAll, All: true}, noReport); err != nil || done.Seen != 300 {
				t.Errorf("pause: %+v, %v", done, err)
			}
			if n := countOf(t, r, Selector{States: []string{StatePaused}}); n != 300 {
				t.Errorf("%d are paused", n)
			}
			if done, err := r.Bulk(ctx, Bulk{Action: ResumeAll, All: true}, noReport); err != nil || done.Changed != 300 {
				t.Errorf("resume: %+v, %v", done, err)
			}
			if e, err := r.export(ctx, Selector{}, new(bytes.Buffer)); err != nil || e.Accounts != 300 {
				t.Errorf("export: %+v, %v", e, err)
			}
			for who, r := range map[string]*Registry{"all": r, "bound": r.Bound(map[string]string{"team": "1"})} {
				if s, err := r.Stats(ctx); err != nil || s.Shards != 3 {
					t.Errorf("%s: %d shards, %v, want those that accounts go to", who, s.Shards, err)
				}
			}
			if _, err := before.Bulk(ctx, Bulk{Action: PauseAll, All: true, DryRun: true}, noReport); !errors.Is(err, circulate.ErrResharding) {
				t.Errorf("by the number of before: %v", err)
			}
			if _, err := before.export(ctx, Selector{}, new(bytes.Buffer)); !errors.Is(err, circulate.ErrResharding) {
				t.Errorf("export by the number of before: %v", err)
			}
			if moved, _, err := ring.Mover().Move(ctx, 0); err != nil || moved == 0 {
				t.Fatalf("%d moved, %v", moved, err)
			}
		}
	})
}

// Accounts whose mover stopped in the middle of a move are in every list. A process that does
// not know of the change reports that some may be missing.
func TestListsWhileTheNumberOfShardsChanges(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server redistest.Redis) {
		ctx := t.Context()
		before, old := newRegistry(t, server, 2)
		fillBulk(t, before, 600)
		if _, err := before.Bulk(ctx, Bulk{Action: PauseAll, All: true}, noReport); err != nil {
			t.Fatal(err)
		}
		if _, err := old.Mover().Begin(ctx, 3); err != nil {
			t.Fatal(err)
		}
		faulty := &faketime.Faulty{Server: server}
		ring, err := circulate.Open(ctx, faulty, circulate.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := ring.Mover().Receive(ctx); err != nil {
			t.Fatal(err)
		}
		for name, list := range map[string]func(r *Registry) (int, error){
			"list": func(r *Registry) (int, error) {
				seen := make(map[string]bool)
				for q := (Query{}); ; {
					page, err := r.List(ctx, q)
					for _, v := range page.Views {
						seen[v.ID] = true
					}
					if q.Cursor = page.Next; q.Cursor == "" || err != nil {
						return len(seen), err
					}
				}
			},
			"parked": func(r *Registry) (int, error) {
				seen := make(map[string]bool)
				for q := (ParkedQuery{}); ; {
					page, err := r.Parked(ctx, q)
					for _, a := range page.Accounts {
						seen[a.ID] = true
					}
					if q.Cursor = page.Next; q.Cursor == "" || err != nil {
						return len(seen), err
					}
				}
			},
			"revive": func(r *Registry) (int, error) {
				done, err := r.Revive(ctx, Revival{Reason: circulate.ReasonPaused, DryRun: true})
				return done.Revived, err
			},
		} {
			scripts := 0
			faulty.Set(func(s faketime.Step) faketime.Fate {
				if s.At == faketime.Call && s.Command == "EVALSHA" {
					scripts++
				}
				if scripts == 3 { // leave and depart have run, so departed accounts do not arrive
					return faketime.NotDone
				}
				return faketime.Healthy
			})
			if _, _, err := ring.Mover().Move(ctx, 0); err == nil {
				t.Fatalf("%s: nobody is on the way", name)
			}
			faulty.Set(nil)
			if left, err := ring.Mover().Remaining(ctx, 0); err != nil || left.Transit == 0 {
				t.Fatalf("%s: nobody is on the way: %+v, %v", name, left, err)
			}
			if n, err := list(NewRegistry(ring, testKinds{})); err != nil || n != 600 {
				t.Errorf("%s: %d accounts, %v", name, n, err)
			}
			if n, err := list(before); !errors.Is(err, circulate.ErrResharding) {
				t.Errorf("%s by the number of before: %d, %v", name, n, err)
			}
		}
	})
}
