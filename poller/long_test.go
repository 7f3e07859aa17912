//go:build race

package poller_test

import (
	"testing"

	"github.com/rounds-dev/rounds/testing/processes"
)

// TestLong runs the tests of hours and days in fake time, which are only in binaries without
// the race detector: it finds nothing in them that it does not find in the others, and made
// them half of what this package cost.
func TestLong(t *testing.T) {
	t.Parallel()
	if err := processes.TestWithoutRaceDetector("TestRateIsBackAMinuteAfterAnOutage", "TestFiveDaysOfEveryCadence", "TestEveryAccountIsBackOnItsPhase"); err != nil {
		t.Error(err)
	}
}
