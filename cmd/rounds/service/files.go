package service

import (
	"io/fs"
	"strconv"
	"strings"
)

// keptConnections returns how many connections a client may keep open: the setting's number, but at
// most half of the files that the process may have open. The other half is for running calls, for
// Redis and for our callers. files is 0 if the limit is unknown.
func keptConnections(allowed, files int) int {
	if files > 0 {
		allowed = min(allowed, files/2)
	}
	return max(1, allowed)
}

// openFiles returns how many files the process may have open; 0: that is unknown, or there is no
// limit. root has /proc.
func openFiles(root fs.FS) int {
	limits, err := fs.ReadFile(root, "proc/self/limits")
	if err != nil {
		return 0 // not Linux
	}
	for line := range strings.Lines(string(limits)) {
		rest, ok := strings.CutPrefix(line, "Max open files")
		if !ok {
			continue
		}
		// The soft limit comes first, then the hard one, to which the runtime has raised the soft one.
		if fields := strings.Fields(rest); len(fields) > 0 {
			n, err := strconv.Atoi(fields[0])
			if err == nil {
				return n
			}
		}
	}
	return 0
}
