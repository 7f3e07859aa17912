package service

import (
	"io/fs"
	"strconv"
	"strings"
)

// keptConnections returns how many connections a client may keep, of those that a setting allows:
// at most half of the files that the process may have open. The other half is for calls under
// way, for Redis and for those who call us. Files is 0 if that is not known.
func keptConnections(allowed, files int) int {
	if files > 0 {
		allowed = min(allowed, files/2)
	}
	return max(1, allowed)
}

// openFiles returns how many files the process may have open; 0: that is not known, or there is
// no limit. Root has /proc.
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
		// The soft limit, and then the hard one, which the runtime has raised it to.
		if fields := strings.Fields(rest); len(fields) > 0 {
			n, err := strconv.Atoi(fields[0])
			if err == nil {
				return n
			}
		}
	}
	return 0
}
