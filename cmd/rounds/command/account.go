package command

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/rounds-dev/rounds/cmd/rounds/api"
	"github.com/rounds-dev/rounds/cmd/rounds/client"
)

// newAccountCommand makes the commands about accounts.
func newAccountCommand(env environment) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "account",
		Short: "Register, look at, change and remove accounts",
		Example: `  rounds account add news --kind feed --set url=https://example.com/feed.xml --every 1m
  rounds account set news --every 5m --label team=press
  rounds account list`,
	}
	needsCommand(cmd)
	cmd.AddCommand(
		newAddCommand(env),
		newSetCommand(env),
		newEditCommand(env),
		newGetCommand(env),
		newListCommand(env),
		newWhyCommand(env),
		newNudgeCommand(env),
		newImportCommand(env),
		newExportCommand(env),
		newRemoveCommand(env),
		newPauseCommand(env),
		newResumeCommand(env),
	)
	return cmd
}

func newNudgeCommand(env environment) *cobra.Command {
	var nudge api.NudgeRequest
	hint := ""
	cmd := &cobra.Command{
		Use:   "nudge ID",
		Short: "Ask for a check of an account soon",
		Long: `Ask for a check of an account soon. A nudge moves its next check earlier, never
later; an account that is being checked is checked once more.`,
		Example: `  rounds account nudge news
  rounds account nudge support --within 5s --hint '{"token":"abc"}' --hint-lives 10m`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeIDs(env),
		RunE: withClient(env, func(cmd *cobra.Command, args []string, calls *client.Client) error {
			if hint != "" {
				text, err := readJSON(env, "--hint", hint)
				if err != nil {
					return err
				}
				nudge.Hint = text
			}
			if err := calls.Nudge(cmd.Context(), args[0], nudge); err != nil {
				return err
			}
			fmt.Fprintln(env.stdout, oneLine(args[0]), "nudged")
			return nil
		}),
	}
	cmd.Flags().StringVar(&nudge.Within, "within", "", "check it within this `duration`; default: at once")
	cmd.Flags().StringVar(&hint, "hint", "", "one-time data for the check, as `JSON`, @FILE or @- for standard input")
	cmd.Flags().StringVar(&nudge.Lives, "hint-lives", "", "the `duration` after which the hint is void")
	return cmd
}
