package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// A search is one goroutine, and takes ten times as long with the race detector. So a
// test binary with the detector builds and runs one without.
func TestMain(m *testing.M) {
	if !raceDetector {
		os.Exit(m.Run())
	}
	if err := runWithoutRaceDetector(); err != nil {
		fmt.Fprintln(os.Stderr, "without the race detector:", err)
		os.Exit(1)
	}
}

func runWithoutRaceDetector() error {
	dir, err := os.MkdirTemp("", "explore")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	path := filepath.Join(dir, "explore.test")
	build := exec.Command("go", "test", "-c", "-vet=off", "-o", path, ".")
	test := exec.Command(path, os.Args[1:]...)
	for _, cmd := range []*exec.Cmd{build, test} {
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		if err := cmd.Run(); err != nil {
			return err
		}
	}
	return nil
}
