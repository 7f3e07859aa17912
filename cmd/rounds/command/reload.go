package command

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rounds-dev/rounds/cmd/rounds/client"
)

func newReloadCommand(env environment) *cobra.Command {
	jsonOutput := false
	cmd := &cobra.Command{
		Use:   "reload",
		Short: "Have a process read its settings and files again",
		Long: `Have a process read its settings and files again, without a restart: the one that
serves the API at ROUNDS_API_URL. Settings and files are each process' own; to the
others send SIGHUP, which does the same.

What changes at once: ROUNDS_LIMITS, the endpoints of ROUNDS_WEBHOOKS_FILE, the
callbacks of ROUNDS_CALLBACKS_FILE, the API's token, ROUNDS_ALLOW_NETWORKS,
ROUNDS_LOG_LEVEL, secrets, and the keys of stored ones: ROUNDS_SECRETS_KEY,
ROUNDS_SECRETS_KEY_FILE, ROUNDS_SECRETS_PUBLIC_KEY, ROUNDS_SECRETS_PUBLIC_KEY_FILE.
All of it is judged before any of it holds; where anything is at fault, every fault
is named and all stays as it was. Other settings that differ are named: they hold
once the process is started anew.

The environment of a process that runs cannot change. What is to be changed
belongs into the file that ROUNDS_SETTINGS_FILE names.`,
		Example: `  rounds reload
  kill -HUP "$(pidof rounds)"
  systemctl reload rounds`,
		Args: cobra.NoArgs,
		RunE: withClient(env, func(cmd *cobra.Command, _ []string, calls *client.Client) error {
			done, err := calls.Reload(cmd.Context())
			if err != nil {
				return err
			}
			if jsonOutput {
				return printJSON(env.stdout, done)
			}
			return printReloaded(env.stdout, done.Changed, done.Restart)
		}),
	}
	cmd.Flags().BoolVar(&jsonOutput, "json", false, "print what has changed as JSON")
	return cmd
}

func printReloaded(out io.Writer, changed, restart []string) error {
	text := "nothing has changed\n"
	if len(changed) > 0 {
		text = "changed: " + strings.Join(changed, ", ") + "\n"
	}
	if len(restart) > 0 {
		text += "takes effect after a restart: " + strings.Join(restart, ", ") + "\n"
	}
	_, err := fmt.Fprint(out, text)
	return err
}
