package command

import (
	"testing"

	"github.com/rounds-dev/rounds/accounts/problem"
)

func TestWhatParksIsSaid(t *testing.T) {
	for want, step := range map[string]problem.NextStep{
		"parks after 16 in a row, at 3 now":          {Code: problem.StepParks, After: 16, Least: 3, Worst: 3},
		"parks after 3 refusals over at least 10m0s": {Code: problem.StepParks, After: 3, Over: 600},
		"backs off, up to 30s":                       {Code: problem.StepBacksOff, Most: 30},
	} {
		if got := nextOf([]problem.NextStep{step}); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
