package command

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rounds-dev/rounds/cmd/rounds/api"
	"github.com/rounds-dev/rounds/cmd/rounds/client"
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

func newReloadCommand(env environment) *cobra.Command {
	return showing(env, &cobra.Command{
		Use:   "reload",
		Short: "Make a process read its settings and files again",
		Long: `Make a process read its settings and files again, without a restart: the one that
serves the API at ROUNDS_API_URL. Each process has its own settings and files. Send
SIGHUP to the other processes to the same effect.

What changes at once: ROUNDS_LIMITS, ROUNDS_ADAPTIVE_BUDGET, the endpoints of
ROUNDS_WEBHOOKS_FILE, the callbacks of ROUNDS_CALLBACKS_FILE, the API's token, ROUNDS_ALLOW_NETWORKS,
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
	}, "print what has changed as JSON", func(ctx context.Context, calls *client.Client, _ []string) (api.Reloaded, error) {
		return calls.Reload(ctx)
	}, func(done api.Reloaded) error { return printReloaded(env, done.Changed, done.Restart) })
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
