package datadir

import (
	"os"
	"testing"

	"github.com/rounds-dev/rounds/testing/processes"
)

// Tests that begin hundreds of directories, or read thousands of entries, run without the race
// detector, which sees the same steps in the others.
func TestMain(m *testing.M) {
	os.Exit(processes.Apart(m, "TestLogCutAtAnyByte", "TestPowerFailure", "TestIdleGroup", "TestStreamsAreReadOnce").Run())
}
