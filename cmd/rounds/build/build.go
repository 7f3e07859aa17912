// Package build reports which version of rounds a program is, by what the Go toolchain
// wrote into it. Nothing needs to be passed to the linker.
package build

import (
	"cmp"
	"regexp"
	"runtime"
	"runtime/debug"
	"strings"
	"time"
)

// Module is the path of the product's own code.
const Module = "github.com/rounds-dev/rounds"

// unknown is the version of a program about which nothing is known, for example one of
// go run or go build -buildvcs=false.
const unknown = "(devel)"

// commitWidth is how much of a commit's hash is shown, as in Go's versions.
const commitWidth = 12

// Info is what a program knows about its own build. Its JSON is what "rounds version --json"
// prints.
type Info struct {
	// Version is the tag that the program was built from, or a version that Go derived
	// from the commit, or the commit, or unknown. It ends with +dirty if the files were
	// not the commit's.
	Version string `json:"version"`
	// Commit is the beginning of the commit's hash; empty if it is unknown.
	Commit string `json:"commit,omitempty"`
	// Modified says that files differed from the commit.
	Modified bool `json:"modified,omitempty"`
	// Time is when the commit was made; zero if it is unknown.
	Time time.Time `json:"time,omitzero"`
	// Program names the program that rounds is part of, and its version; empty if that is
	// rounds itself. Commit and Time are then unknown.
	Program  string `json:"program,omitempty"`
	Go       string `json:"go"`       // version of the toolchain
	Platform string `json:"platform"` // such as linux/amd64
}

// Read returns what this program knows about itself.
func Read() Info {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{GoVersion: runtime.Version(), Main: debug.Module{Path: Module}}
	}
	read := Of(info)
	read.Platform = runtime.GOOS + "/" + runtime.GOARCH
	return read
}

// pseudo matches the end of a version that Go derived from a commit: its time and hash.
var pseudo = regexp.MustCompile(`[-.](\d{14})-([0-9a-f]{12})(?:\+.*)?$`)

// Of returns what is known about a program by its build information.
func Of(info *debug.BuildInfo) Info {
	settings := make(map[string]string, len(info.Settings))
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	known := Info{Go: info.GoVersion, Platform: settings["GOOS"] + "/" + settings["GOARCH"]}
	if info.Main.Path != Module && info.Main.Path != "" {
		known.Program = strings.TrimSpace(info.Main.Path + " " + info.Main.Version)
		for _, dependency := range info.Deps {
			if dependency.Path == Module {
				known.Version = dependency.Version
			}
		}
	} else {
		known.Modified = settings["vcs.modified"] == "true"
		known.Commit = settings["vcs.revision"]
		known.Commit = known.Commit[:min(commitWidth, len(known.Commit))]
		known.Time, _ = time.Parse(time.RFC3339, settings["vcs.time"]) // zero if it is missing
		if known.Version = info.Main.Version; known.Version == unknown || known.Version == "" {
			if known.Version = known.Commit; known.Modified && known.Commit != "" {
				known.Version += "+dirty"
			}
		}
	}
	known.Version = cmp.Or(known.Version, unknown)
	// go install MODULE@VERSION knows no repository, but such a version names its commit.
	if found := pseudo.FindStringSubmatch(known.Version); found != nil && known.Commit == "" {
		known.Commit = found[2]
		known.Time, _ = time.Parse("20060102150405", found[1])
	}
	return known
}

// String returns what "rounds version" prints after the program's name.
func (i Info) String() string {
	said := i.Version
	if i.Program != "" {
		said += " in " + i.Program
	}
	switch {
	case i.Commit == "":
		said += ", commit unknown"
	case i.Time.IsZero():
		said += ", commit " + i.Commit
	default:
		said += ", commit " + i.Commit + " of " + i.Time.UTC().Format(time.DateOnly)
	}
	return said + ", " + i.Go + " " + i.Platform
}
