package command

import (
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/accounts/problem"
	"github.com/rounds-dev/rounds/cmd/rounds/api"
)

func TestWhatParksIsSaid(t *testing.T) {
	for want, step := range map[string]problem.NextStep{
		"parks after 16 in a row, at 3 now":          {Code: problem.StepParks, After: 16, Least: 3, Worst: 3},
		"parks after 3 refusals over at least 10m0s": {Code: problem.StepParks, After: 3, Over: 600},
		"backs off, up to 30s":                       {Code: problem.StepBacksOff, Most: 30},
	} {
		if got := nextOf([]problem.NextStep{step}, time.Time{}); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// A check that was due before the answer is due now, not at a time in the past.
func TestWhatIsDueIsDueNow(t *testing.T) {
	now := time.Date(2026, 11, 25, 21, 17, 5, 0, time.Local)
	later := now.Add(25 * time.Second)
	for want, first := range map[string]time.Time{
		"checked again":                        {},
		"checked again now":                    now.Add(-5 * time.Second),
		"checked again at " + clockTime(later): later,
	} {
		if got := nextOf([]problem.NextStep{{Code: problem.StepChecked, First: first}}, now); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// An endpoint whose breaker is open is tried when that is over, not before.
func TestTheNextTryIsAfterTheBreaker(t *testing.T) {
	until := time.Now().Add(time.Hour).Truncate(time.Second)
	got := answersOf(&api.WebhookStanding{NextTry: time.Now().Add(-time.Minute), Breaker: "open", BreakerUntil: until})
	if want := "\t" + clockTime(until) + "\topen until " + clockTime(until); !strings.HasSuffix(got, want) {
		t.Errorf("got %q, want %q at its end", got, want)
	}
}

// The state of an endpoint that is not reached says why.
func TestAnEndpointThatIsNotReachedSaysWhy(t *testing.T) {
	w := api.Webhook{Standing: &api.WebhookStanding{LastOutcome: "unreachable", LastError: "no connection to the host: connection refused"}}
	if got := standing(w); got != "enabled, fails: no connection to the host: connection refused" {
		t.Error(got)
	}
	w.Standing.LastError = ""
	if got := standing(w); got != "enabled" {
		t.Error(got)
	}
}
