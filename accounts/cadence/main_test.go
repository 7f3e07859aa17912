package cadence_test

import (
	"os"
	"testing"

	"github.com/rounds-dev/rounds/testing/processes"
)

// The oracle computes in one goroutine, for long, so it runs without the race detector.
func TestMain(m *testing.M) { os.Exit(processes.Apart(m, "TestCronByOracle").Run()) }
