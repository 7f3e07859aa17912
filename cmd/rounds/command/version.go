package command

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
)

// module is where the product's own code is.
const module = "github.com/rounds-dev/rounds"

// version is what the Go toolchain wrote into the binary: a tag where it was
// built from one, or else the commit; "(devel)" where it was built from neither, as by
// go run.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "(devel)"
	}
	version, _ := versionIn(info)
	return version
}

// versionIn is the version of the product in a build, and which program it is part of
// where that is another one.
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

// commitIn is the commit that a program was built from; empty where that is not known.
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
