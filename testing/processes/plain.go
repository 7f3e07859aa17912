package processes

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// TestWithoutRaceDetector builds the tests of the package in the working directory without
// the race detector, and runs them with this process' arguments. TestMain calls it where the
// detector finds little and costs much. The error says that tests failed.
func TestWithoutRaceDetector() error { return plain("run") }

// plain is TestWithoutRaceDetector of named tests: to run, or to skip. Without names it runs all.
func plain(choice string, names ...string) error {
	dir, err := os.MkdirTemp("", "plain")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	path := filepath.Join(dir, "plain.test")
	build := Go(context.Background(), "test", "-c", "-vet=off", "-ldflags=-w", "-o", path, ".")
	args := os.Args[1:]
	if len(names) > 0 {
		args = append(slices.Clone(args), "-test."+choice+"="+pattern(names))
	}
	test := exec.Command(path, args...)
	for _, cmd := range []*exec.Cmd{build, test} {
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("without the race detector: %w", err)
		}
	}
	return missing(path, names)
}

// missing returns an error for names that no test of a binary has.
func missing(path string, names []string) error {
	list, err := exec.Command(path, "-test.list=.").Output()
	if err != nil {
		return fmt.Errorf("the list of tests: %w", err)
	}
	tests := strings.Fields(string(list))
	for _, name := range names {
		if name, _, _ := strings.Cut(name, "/"); !slices.Contains(tests, name) {
			return fmt.Errorf("there is no test %s", name)
		}
	}
	return nil
}
