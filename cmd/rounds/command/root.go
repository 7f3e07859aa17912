package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rounds-dev/rounds/cmd/rounds/build"
	"github.com/rounds-dev/rounds/cmd/rounds/settings"
)

// Tree returns the command tree of the program, from which its documentation is made. Its
// commands must not be executed.
func Tree() *cobra.Command { return newRoot(environment{}) }

// newRoot makes the command tree.
func newRoot(env environment) *cobra.Command {
	root := &cobra.Command{
		Use:   "rounds",
		Short: "Keep checking a large set of third-party accounts for new messages",
		Long: `rounds keeps checking a large set of third-party accounts for new messages, from
any number of replicas, and delivers each message effectively once.

"rounds demo" shows it within seconds, "rounds serve" runs the service, and the
other commands reach its API at ROUNDS_API_URL, with the token or the key in
ROUNDS_API_TOKEN.`,
		Example: `  rounds demo
  rounds serve
  rounds account add news --kind feed --set url=https://example.com/feed.xml --every 1m
  rounds messages tail`,
		SilenceErrors: true, // run's caller prints them
		SilenceUsage:  true, // a failed call is not a misuse
	}
	root.SetIn(env.stdin)
	root.SetOut(env.stdout)
	root.SetErr(env.stderr)
	root.SetFlagErrorFunc(nearFlags)
	settings.AddAccessFlags(root.PersistentFlags())
	holding(root,
		newDemoCommand(env),
		newServeCommand(env),
		newAccountCommand(env),
		newJobsCommand(env),
		newKindsCommand(env),
		newParkedCommand(env),
		newMessagesCommand(env),
		newSendCommand(env),
		newSendsCommand(env),
		newGroupsCommand(env),
		newDeadCommand(env),
		newWebhooksCommand(env),
		newStatsCommand(env),
		newProblemsCommand(env),
		newConcernsCommand(env),
		newMaintenanceCommand(env), newViewsCommand(env), newSessionsCommand(env),
		newBackupCommand(env),
		newRestoreCommand(env),
		newAuditCommand(env),
		newTrailCommand(env),
		newSecretCommand(env),
		newKeyCommand(env),
		newWeixinCommand(env),
		newMailCommand(env),
		newWhoamiCommand(env),
		newCheckCommand(env),
		newConnectorCommand(env),
		newReshardCommand(env),
		newNamespaceCommand(env),
		newHealthCommand(env),
		newDoctorCommand(env),
		newReloadCommand(env),
		newSettingsCommand(env),
		newVersionCommand(env),
	)
	explainCompletion(root)
	return root
}

// explainCompletion adds cobra's completion command now and not at execution, and gives
// its parts what every other command has.
func explainCompletion(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	completion, _, err := root.Find([]string{"completion"})
	if err != nil || completion == root {
		return
	}
	completion.Short = "Print a completion script for a shell"
	completion.Example = `  source <(rounds completion bash)`
	for _, shell := range completion.Commands() {
		shell.Short = "Print the completion script for " + shell.Name()
		switch shell.Name() {
		case "bash":
			shell.Example = `  source <(rounds completion bash)
  rounds completion bash > /etc/bash_completion.d/rounds`
		case "zsh":
			shell.Example = `  rounds completion zsh > "${fpath[1]}/_rounds"`
		case "fish":
			shell.Example = `  rounds completion fish > ~/.config/fish/completions/rounds.fish`
		case "powershell":
			shell.Example = `  rounds completion powershell | Out-String | Invoke-Expression`
		}
	}
}

// within returns the path of the command that a name belongs to, if a subcommand of a command has
// that name.
func within(cmd *cobra.Command, name string) string {
	for _, sub := range cmd.Commands() {
		for _, deeper := range sub.Commands() {
			if deeper.Name() == name && !deeper.Hidden {
				return deeper.CommandPath()
			}
		}
	}
	return ""
}

// nearFlags adds to the error about an unknown flag the flags that may be meant.
func nearFlags(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) || len(unknown.GetSpecifiedName()) < 2 {
		return err
	}
	var parts, spelt []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		switch {
		case f.Hidden:
		case slices.Contains(strings.Split(f.Name, "-"), unknown.GetSpecifiedName()):
			parts = append(parts, "--"+f.Name)
		case settings.Distance(f.Name, unknown.GetSpecifiedName()) <= min(2, len(unknown.GetSpecifiedName())/2):
			spelt = append(spelt, "--"+f.Name)
		}
	})
	near := append(spelt, parts...)
	if len(near) == 0 {
		return err
	}
	return fmt.Errorf("%w: did you mean %s?", err, strings.Join(near[:min(len(near), 3)], " or "))
}

// holding gives a command the commands that it only holds. It refuses unknown ones, where cobra would
// print the help and report success.
func holding(cmd *cobra.Command, held ...*cobra.Command) *cobra.Command {
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help()
		}
		cmd.SuggestionsMinimumDistance = 2
		hint := ""
		if deeper := within(cmd, args[0]); deeper != "" {
			hint = ": did you mean " + deeper + "?"
		} else if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
			hint = ": did you mean " + strings.Join(near, " or ") + "?"
		}
		return fmt.Errorf("%s has no command %q%s", cmd.CommandPath(), args[0], hint)
	}
	cmd.Args = cobra.ArbitraryArgs // RunE checks them
	cmd.AddCommand(held...)
	return cmd
}

// exactly is cobra.ExactArgs with an error that names the argument, by the command's Use.
func exactly(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > n {
			return fmt.Errorf("%q is one argument too many: %s", args[n], usage(cmd))
		}
		return atLeast(n)(cmd, args)
	}
}

// atLeast is cobra.MinimumNArgs with an error that names the argument, by the command's Use.
func atLeast(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) >= n {
			return nil
		}
		names := strings.Fields(cmd.Use)[1:]
		return fmt.Errorf("%s is missing: %s", strings.TrimRight(names[len(args)], "."), usage(cmd))
	}
}

// between is atLeast with a largest number too.
func between(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > most {
			return exactly(most)(cmd, args)
		}
		return atLeast(least)(cmd, args)
	}
}

func usage(cmd *cobra.Command) string {
	_, arguments, _ := strings.Cut(cmd.Use, " ")
	return cmd.CommandPath() + " " + arguments
}

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
