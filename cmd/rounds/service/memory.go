package service

import (
	"io/fs"
	"log/slog"
	"math"
	"os"
	"path"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/rounds-dev/rounds/cmd/rounds/settings"
)

// memoryShare is the percentage of its control group's limit that the process uses. The
// rest is for memory that the runtime does not count.
const memoryShare = 90

// LimitMemory makes the runtime collect garbage before the process reaches the limit of
// its control group, beyond which it would be killed. GOMEMLIMIT, which the runtime
// reads itself, overrides it.
func LimitMemory(lookup settings.Lookup, log *slog.Logger) {
	limitMemory(lookup, os.DirFS("/"), log, debug.SetMemoryLimit)
}

func limitMemory(lookup settings.Lookup, root fs.FS, log *slog.Logger, set func(int64) int64) {
	if value, ok := lookup("GOMEMLIMIT"); ok && value != "" {
		return
	}
	if allowed := allowedMemory(root); allowed > 0 {
		limit := allowed / 100 * memoryShare
		set(limit)
		log.Info("memory is limited", "allowed", allowed, "limit", limit)
	}
}

// allowedMemory returns the lowest limit, in bytes, of the process' control group and
// the groups above it, or 0 if it finds none. root has /proc and /sys.
func allowedMemory(root fs.FS) int64 {
	groups, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return 0 // not Linux
	}
	least := int64(math.MaxInt64)
	for line := range strings.Lines(string(groups)) {
		// hierarchy:controllers:path; version 2 has the hierarchy 0 and no controllers.
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(parts) != 3 {
			continue
		}
		top, file := "sys/fs/cgroup", "memory.max"
		if parts[1] != "" {
			if !hasController(parts[1], "memory") {
				continue
			}
			top, file = "sys/fs/cgroup/memory", "memory.limit_in_bytes"
		}
		least = min(least, leastOf(root, top, parts[2], file))
	}
	// Without a limit, version 1 has the largest number of whole pages.
	if least >= math.MaxInt64&^(1<<20-1) {
		return 0
	}
	return least
}

func hasController(list, name string) bool {
	for controller := range strings.SplitSeq(list, ",") {
		if controller == name {
			return true
		}
	}
	return false
}

// leastOf returns the least limit of a group and all groups above it, or math.MaxInt64 if
// none has one. Inside a container the path may be the host's and not exist. Then only the
// top has a limit.
func leastOf(root fs.FS, top, group, file string) int64 {
	least := int64(math.MaxInt64)
	for at := path.Clean("/" + group); ; at = path.Dir(at) {
		text, err := fs.ReadFile(root, path.Join(top, at, file))
		if err == nil {
			// "max" is not a number and means no limit.
			if n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil && n > 0 {
				least = min(least, n)
			}
		}
		if at == "/" {
			return least
		}
	}
}
