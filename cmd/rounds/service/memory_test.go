package service

import (
	"log/slog"
	"strings"
	"testing"
	"testing/fstest"
)

// tree returns a file system with files of these paths and texts.
func tree(files map[string]string) fstest.MapFS {
	found := fstest.MapFS{}
	for path, text := range files {
		found[path] = &fstest.MapFile{Data: []byte(text)}
	}
	return found
}

func TestAllowedMemory(t *testing.T) {
	const unlimited = "9223372036854771712\n"
	for name, c := range map[string]struct {
		files map[string]string
		want  int64
	}{
		"no control groups":     {nil, 0},
		"version 2":             {map[string]string{"proc/self/cgroup": "0::/system.slice/rounds.service\n", "sys/fs/cgroup/system.slice/rounds.service/memory.max": "2147483648\n"}, 2 << 30},
		"no limit":              {map[string]string{"proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/memory.max": "max\n"}, 0},
		"a limit above":         {map[string]string{"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/memory.max": "max\n", "sys/fs/cgroup/a/memory.max": "1048576\n"}, 1 << 20},
		"a lower limit above":   {map[string]string{"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/memory.max": "4194304\n", "sys/fs/cgroup/a/memory.max": "1048576\n"}, 1 << 20},
		"a container":           {map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "1048576\n"}, 1 << 20},
		"a path of the host":    {map[string]string{"proc/self/cgroup": "0::/docker/0f\n", "sys/fs/cgroup/memory.max": "1048576\n"}, 1 << 20},
		"a way out of the tree": {map[string]string{"proc/self/cgroup": "0::/../../a\n", "sys/fs/cgroup/a/memory.max": "1048576\n"}, 1 << 20},
		"version 1": {map[string]string{"proc/self/cgroup": "12:pids:/p\n7:cpu,memory:/a\n0::/u\n",
			"sys/fs/cgroup/memory/a/memory.limit_in_bytes": "1048576\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": unlimited}, 1 << 20},
		"version 1, no limit": {map[string]string{"proc/self/cgroup": "7:memory:/a\n", "sys/fs/cgroup/memory/a/memory.limit_in_bytes": unlimited}, 0},
		"garbage":             {map[string]string{"proc/self/cgroup": "x\n0::/a\n", "sys/fs/cgroup/a/memory.max": "-7\n"}, 0},
	} {
		if got := allowedMemory(tree(c.files)); got != c.want {
			t.Errorf("%s: got %d, want %d", name, got, c.want)
		}
	}
}

func TestMemoryLimit(t *testing.T) {
	root := tree(map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "1000000000\n"})
	for name, c := range map[string]struct {
		value string
		want  int64
	}{
		"none":        {"", 900_000_000},
		"an own wish": {"500MiB", 0},
	} {
		lookup := func(name string) (string, bool) { return c.value, name == "GOMEMLIMIT" && c.value != "" }
		var log strings.Builder
		var got int64
		limitMemory(lookup, root, slog.New(slog.NewTextHandler(&log, nil)), func(n int64) int64 { got = n; return 0 })
		if got != c.want || strings.Contains(log.String(), "limit=900000000") != (c.want != 0) {
			t.Errorf("%s: set to %d, said %s", name, got, log.String())
		}
	}
}
