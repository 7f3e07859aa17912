package accounts

import (
	"bytes"
	"errors"
	"testing"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/testing/redistest"
)

// While the number of shards changes, every account is reached; whoever does not
// know of the change says that it may have missed some.
func TestBulkWhileTheNumberOfShardsChanges(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server redistest.Redis) {
		ctx := t.Context()
		before, old := newRegistry(t, server, 2)
		fillBulk(t, before, 300)
		if _, err := old.Reshard(ctx, 3); err != nil {
			t.Fatal(err)
		}
		ring, err := circulate.Open(ctx, server, circulate.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := ring.Receive(ctx); err != nil {
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
			if e, err := r.Export(ctx, Selector{}, new(bytes.Buffer)); err != nil || e.Accounts != 300 {
				t.Errorf("export: %+v, %v", e, err)
			}
			if _, err := before.Bulk(ctx, Bulk{Action: PauseAll, All: true, DryRun: true}, noReport); !errors.Is(err, circulate.ErrResharding) {
				t.Errorf("by the number of before: %v", err)
			}
			if _, err := before.Export(ctx, Selector{}, new(bytes.Buffer)); !errors.Is(err, circulate.ErrResharding) {
				t.Errorf("export by the number of before: %v", err)
			}
			if moved, _, err := ring.Move(ctx, 0); err != nil || moved == 0 {
				t.Fatalf("%d moved, %v", moved, err)
			}
		}
	})
}
