package main

import (
	"debug/buildinfo"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
)

// machine describes where a run was made.
type machine struct {
	CPU    string `json:"cpu,omitempty"`
	Cores  int    `json:"cores"`
	Memory int    `json:"memory_mib,omitempty"`
	OS     string `json:"os"`
	Go     string `json:"go"`
	Redis  string `json:"redis"`
}

// thisMachine returns what can be known of the machine. What cannot be known is empty.
func thisMachine(redisPath string) machine {
	m := machine{Cores: runtime.NumCPU(), OS: runtime.GOOS + "/" + runtime.GOARCH, Go: runtime.Version(),
		CPU: fieldOf("/proc/cpuinfo", "model name")}
	kib, _, _ := strings.Cut(fieldOf("/proc/meminfo", "MemTotal"), " ")
	if n, err := strconv.Atoi(kib); err == nil {
		m.Memory = n >> 10
	}
	m.Redis = printed(redisPath, "--version")
	if _, after, found := strings.Cut(m.Redis, "v="); found {
		m.Redis, _, _ = strings.Cut(after, " ")
	}
	return m
}

// fieldOf returns the value of the first line of a file that begins with a name.
func fieldOf(path, name string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if before, after, found := strings.Cut(line, ":"); found && strings.TrimSpace(before) == name {
			return strings.TrimSpace(after)
		}
	}
	return ""
}

// checkedOut returns the commit of the working directory, and whether files were changed
// since. It returns "" outside a repository.
func checkedOut() (commit string, modified bool) {
	return printed("git", "rev-parse", "HEAD"), printed("git", "status", "--porcelain", "--untracked-files=no") != ""
}

// builtFrom returns the same of a binary, as far as the binary says so.
func builtFrom(binary string) (commit string, modified bool) {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return "", false
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			commit = s.Value
		case "vcs.modified":
			modified = s.Value == "true"
		}
	}
	return commit, modified
}

func printed(name string, args ...string) string {
	out, err := exec.Command(name, args...).Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}
