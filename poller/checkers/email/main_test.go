package email

import (
	"os"
	"testing"

	"github.com/rounds-dev/rounds/testing/processes"
)

// Bounds are tried with large mails, which one goroutine reads, so without the race detector.
func TestMain(m *testing.M) { os.Exit(processes.Apart(m, "TestBounds").Run()) }
