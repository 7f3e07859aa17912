package main

import (
	"fmt"
	"os"
	"testing"

	"github.com/rounds-dev/rounds/testing/processes"
)

// A search is one goroutine, and takes ten times as long with the race detector. So a
// test binary with the detector builds and runs one without.
func TestMain(m *testing.M) {
	if !processes.RaceDetector {
		os.Exit(m.Run())
	}
	if err := processes.TestWithoutRaceDetector(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
