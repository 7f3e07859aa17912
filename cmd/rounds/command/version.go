package command

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/rounds-dev/rounds/cmd/rounds/build"
)

func newVersionCommand(env environment) *cobra.Command {
	jsonOutput := false
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version, and the commit that it was built from",
		Long: `Print the version, the commit that it was built from, the toolchain and the platform.

The version is a tag, or what Go derives from a commit, or (devel) if the program was built
without its repository. "+dirty" at its end means that files differed from the commit.`,
		Example: `  rounds version
  rounds version --json | jq -r .commit`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if jsonOutput {
				encoder := json.NewEncoder(env.stdout)
				encoder.SetIndent("", "  ")
				return encoder.Encode(build.Read())
			}
			_, err := fmt.Fprintf(env.stdout, "rounds %s\n", build.Read())
			return err
		},
	}
	cmd.Flags().BoolVar(&jsonOutput, "json", false, "print it as JSON")
	return cmd
}
