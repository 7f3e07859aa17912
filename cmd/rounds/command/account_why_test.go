package command

import (
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/cmd/rounds/api"
)

// Of a way out that is down, or pauses, why says since when, and by what failure.
func TestWhyNamesAWayThatIsDown(t *testing.T) {
	since := time.Date(2026, 11, 22, 14, 12, 0, 0, time.UTC)
	for want, down := range map[string]*api.Down{
		"way out  berlin\n": nil,
		"way out  berlin, down since " + clockTime(since) + " (proxy): checks and sends wait for a probe\n": {State: "down", Since: since, Cause: "proxy"},
		"way out  berlin, paused since " + clockTime(since) + ": checks and sends wait for a probe\n":       {State: "paused", Since: since},
	} {
		var out strings.Builder
		if err := printSchedule(&out, api.Schedule{Way: "berlin", WayDown: down}); err != nil || !strings.Contains(out.String(), want) {
			t.Errorf("%v: got %q, want %q", err, out.String(), want)
		}
	}
}
