package accounts

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rounds-dev/rounds/testing/redistest"
)

// A walk that stored each hundred accounts of which it changes none took ten seconds to find two hundred
// of 300,000.
func TestStepWalkPassesOverWhatIsNotSelected(t *testing.T) {
	r, _ := newRegistry(t, redistest.Embedded(t), 1)
	const all, first, dense = stepLooks + 900, 310, stepLooks + 200 // dense are 250 selected ones on end
	var text strings.Builder
	for i := range all {
		team := "other"
		if i == first || i == first+1000 || i >= dense && i < dense+250 {
			team = "press"
		}
		fmt.Fprintf(&text, `{"id":"a-%05d","kind":"plain","config":{},"labels":{"team":%q}}`+"\n", i, team)
	}
	if s, err := r.Import(t.Context(), strings.NewReader(text.String()), func(b BadLine) error { return b.Faults }); err != nil || s.Created != all {
		t.Fatalf("%+v, %v", s, err)
	}
	w, err := r.StepWalk(Bulk{Action: PauseAll, Selector: Selector{Labels: map[string]string{"team": "press"}}})
	if err != nil {
		t.Fatal(err)
	}
	var took []string
	seen, matched := 0, 0
	ids := make(map[string]bool)
	for behind := ""; ; {
		p, last, err := w.Next(t.Context(), 0, behind)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range p.Changes {
			ids[c.ID] = true
		}
		seen, matched = seen+p.Seen, matched+p.Matched
		took = append(took, fmt.Sprintf("%d selected, up to %q", p.Matched, last))
		if len(p.Changes) > bulkStep {
			t.Errorf("a step changes %d accounts", len(p.Changes))
		}
		if behind = last; last == "" {
			break
		}
	}
	if seen != all || matched != 252 || len(ids) != 252 {
		t.Errorf("%d of %d are seen, %d are selected, %d changed", seen, all, matched, len(ids))
	}
	if len(took) > 8 {
		t.Errorf("the steps are %q", took)
	}
}
