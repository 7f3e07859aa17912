package job

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/rounds-dev/rounds/testing/processes"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(processes.Apart(m, "TestKilledAnywhere"))
}
