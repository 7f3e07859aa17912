package circulate_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/rounds-dev/rounds/testing/processes"
)

// The suite on the embedded Redis runs without the race detector, with all rules kept and with
// each one broken. The detector watches the same callers on a real server and on a cluster, and
// the embedded server in its own tests and in the tests of all loops.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(processes.Apart(m, "TestRing/embedded", "TestRing/cluster", "TestMutantsAreFound", "TestAMonthOfWindows"))
}
