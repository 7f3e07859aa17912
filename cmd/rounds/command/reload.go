package command

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rounds-dev/rounds/cmd/rounds/client"
)

func newReloadCommand(env environment) *cobra.Command {
	jsonOutput := false
	cmd := &cobra.Command{
		Use:   "reload",
		Short: "Make a process read its settings and files again",
		Long: `Make a process read its settings and files again, without a restart: the one that
serves the API at ROUNDS_API_URL. Each process has its own settings and files. Send
SIGHUP to the other processes to the same effect.

What changes at once: ROUNDS_LIMITS, the endpoints of ROUNDS_WEBHOOKS_FILE, the
callbacks of ROUNDS_CALLBACKS_FILE, the API's token, ROUNDS_ALLOW_NETWORKS,
ROUNDS_TIMELINE, ROUNDS_LOG_LEVEL, secrets, and the keys of stored secrets:
ROUNDS_SECRETS_KEY, ROUNDS_SECRETS_KEY_FILE, ROUNDS_SECRETS_PUBLIC_KEY,
ROUNDS_SECRETS_PUBLIC_KEY_FILE.
Everything is validated before anything changes. If there is a fault, the command names
every fault and nothing changes. It also names other settings that differ: they take
effect after a restart.

The environment of a running process cannot change. Put settings that should change
into the file that ROUNDS_SETTINGS_FILE names.`,
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
			return printReloaded(env, done.Changed, done.Restart)
		}),
	}
	cmd.Flags().BoolVar(&jsonOutput, "json", false, "print what has changed as JSON")
	return cmd
}

func printReloaded(env environment, changed, restart []string) error {
	text := "nothing has changed\n"
	if len(changed) > 0 {
		text = "changed: " + oneLine(strings.Join(changed, ", ")) + "\n"
	}
	if len(restart) > 0 {
		text += "takes effect after a restart: " + oneLine(strings.Join(restart, ", ")) + "\n"
	}
	_, err := fmt.Fprint(env.stdout, env.spoken(text))
	return err
}
