package command

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
)

// module is the path of the product's own code.
const module = "github.com/rounds-dev/rounds"

// version is what the Go toolchain wrote into the binary: the tag that it was built from,
// or else the commit, or "(devel)" without either, as by go run.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "(devel)"
	}
	version, _ := versionIn(info)
	return version
}

// versionIn returns the version of the product in a build, and the name of the program if
// that is another one.
func versionIn(info *debug.BuildInfo) (version, program string) {
	version = commitIn(info)
	if info.Main.Version != "(devel)" {
		version = cmp.Or(info.Main.Version, version)
	}
	if info.Main.Path != module && info.Main.Path != "" {
		version, program = "", strings.TrimSpace(" in "+info.Main.Path+" "+info.Main.Version)
		for _, dependency := range info.Deps {
			if dependency.Path == module {
				version = dependency.Version
			}
		}
	}
	return cmp.Or(version, "(devel)"), program
}

// commitIn returns the commit that a program was built from, or "" if that is not known.
func commitIn(info *debug.BuildInfo) string {
	settings := make(map[string]string, len(info.Settings))
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	commit := settings["vcs.revision"]
	if commit == "" {
		return ""
	}
	commit = commit[:min(12, len(commit))]
	if settings["vcs.modified"] == "true" {
		commit += "+dirty"
	}
	return commit
}

func newVersionCommand(env environment) *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Example: `  rounds version`,
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			program := ""
			if info, ok := debug.ReadBuildInfo(); ok {
				if _, program = versionIn(info); program != "" {
					program = " " + program
				}
			}
			_, err := fmt.Fprintf(env.stdout, "rounds %s%s %s %s/%s\n", version(), program, runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
}
