package accounts

import (
	"slices"
	"testing"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/connect"
	"github.com/rounds-dev/rounds/testing/faketime"
)

// An account that is parked between the look and the pause retains its reason: resuming
// the paused accounts must not bring it back.
func TestBulkPauseKeepsAReasonThatCameInBetween(t *testing.T) {
	faketime.Redis(t, func(t *testing.T, server *connect.Embedded) {
		r, ring := newRegistry(t, server, 1)
		fillBulk(t, r, 6)
		between := &faketime.Faulty{Server: server}
		slow, _ := newRegistry(t, between, 1)
		parked := false
		between.Set(func(s faketime.Step) faketime.Fate {
			if s.At == faketime.Call && !parked && slices.Contains(s.Args, any(circulate.ReasonPaused)) {
				parked = true
				if n, err := ring.Park(t.Context(), 0, "gone: no such account", []string{"a-0"}); n != 1 || err != nil {
					t.Error(n, err)
				}
			}
			return faketime.Healthy
		})
		if got, want := mustBulk(t, slow, Bulk{Action: PauseAll, All: true}), (Progress{Seen: 6, Matched: 6, Changed: 5, Unchanged: 1}); got != want || !parked {
			t.Errorf("%+v, want %+v", got, want)
		}
		views, err := ring.Look(t.Context(), 0, []string{"a-0", "a-1"})
		if err != nil || len(views) != 2 {
			t.Fatal(views, err)
		}
		for _, v := range views {
			want := map[string]string{"a-0": "gone: no such account"}[v.ID]
			if v.Place != circulate.Parked || want != "" && v.Reason != want {
				t.Errorf("%q is %s: %q", v.ID, v.Place, v.Reason)
			}
		}
		// A reason that the selector names counts as seen.
		mustBulk(t, r, Bulk{Action: PauseAll, Selector: Selector{Reasons: []string{"gone"}}})
		if got := mustBulk(t, r, Bulk{Action: ResumeAll, All: true}); got.Changed != 6 {
			t.Errorf("%+v", got)
		}
	})
}
