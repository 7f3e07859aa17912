package accounts

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rounds-dev/rounds/testing/redistest"
)

// A walk that stored each hundred accounts of which it changes none took ten seconds to find two hundred
// of 300,000.
func TestStepWalkPassesOverWhatIsNotSelected(t *testing.T) {
	r, _ := newRegistry(t, redistest.Embedded(t), 1)
	const all, chosen = bulkStep*(stepBlocks+4) + 50, bulkStep*(stepBlocks+2) + 7
	var text strings.Builder
	for i := range all {
		team := "other"
		if i == chosen {
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
	for behind := ""; ; {
		p, last, err := w.Next(t.Context(), 0, behind)
		if err != nil {
			t.Fatal(err)
		}
		took = append(took, fmt.Sprintf("%d seen, %d selected, up to %q", p.Seen, p.Matched, last))
		if behind = last; last == "" {
			break
		}
	}
	want := []string{`2000 seen, 0 selected, up to "a-01999"`, `300 seen, 1 selected, up to "a-02299"`, `150 seen, 0 selected, up to "a-02449"`, `0 seen, 0 selected, up to ""`}
	if !slices.Equal(took, want) {
		t.Errorf("the steps are %q, want %q", took, want)
	}
}
