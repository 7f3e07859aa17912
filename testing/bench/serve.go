package main

import (
	"fmt"
	"os"
	"syscall"

	"github.com/rounds-dev/rounds/cmd/rounds/settings"
)

// serviceSettings returns the settings that the service reads from variables, and what looks
// these up.
func serviceSettings(variables map[string]string) (settings.Settings, settings.Lookup, error) {
	lookup := func(name string) (string, bool) {
		value, ok := variables[name]
		return value, ok
	}
	s, err := settings.Read(lookup, nil)
	return s, lookup, err
}

// fitFiles returns how many of so many things a process may have, which may open as many files as
// most makes things of, and says so if those are fewer.
func fitFiles(wanted int, things string, most func(files int) int) (int, error) {
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		return 0, err
	}
	n := most(int(min(files.Max, 1<<30)))
	if wanted <= n {
		return wanted, nil
	}
	fmt.Fprintf(os.Stderr, "bench: a process may have %d files here: %d %s instead of %d\n", files.Max, n, things, wanted)
	return n, nil
}
