package command

import (
	"github.com/spf13/cobra"

	"github.com/rounds-dev/rounds/cmd/rounds/settings"
)

// newSettingsCommand lists the settings.
func newSettingsCommand(env environment) *cobra.Command {
	markdown := false
	cmd := &cobra.Command{
		Use:   "settings",
		Short: "List every setting with its default and meaning",
		Long: `List every setting of the service with its default and meaning.

Each is an environment variable. Except for secrets, each is also a flag of "rounds
serve", which overrides the variable: ROUNDS_CHECK_TIMEOUT is --check-timeout. An
empty variable counts as unset.`,
		Example: `  rounds settings
  rounds settings --markdown`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if markdown {
				return settings.WriteMarkdown(env.stdout)
			}
			return settings.Write(env.stdout)
		},
	}
	cmd.Flags().BoolVar(&markdown, "markdown", false, "print a Markdown table")
	return cmd
}
