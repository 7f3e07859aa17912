package command

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rounds-dev/rounds/cmd/rounds/api"
	"github.com/rounds-dev/rounds/cmd/rounds/client"
)

// newMaintenanceCommand makes the command for times in which failures count nowhere.
func newMaintenanceCommand(env environment) *cobra.Command {
	return holding(&cobra.Command{
		Use:   "maintenance",
		Short: "Set times in which the failures of some accounts count nowhere",
		Example: `  rounds maintenance set disks --host news.example.org --lasts 4h --reason "new disks"
  rounds maintenance list
  rounds maintenance end disks`,
	}, newMaintenanceSet(env), newMaintenanceList(env), newMaintenanceEnd(env))
}

func newMaintenanceSet(env environment) *cobra.Command {
	var asked api.MaintenanceRequest
	var labels []string
	var from, until string
	cmd := &cobra.Command{
		Use:   "set NAME --reason REASON",
		Short: "Store a maintenance window, or change it",
		Long: `Store a maintenance window, or change the one of this name. It is about the accounts at a
host, or with labels, or both. While it lasts their checks go on, and those that fail count
nowhere: they use up no retry budget, park nothing, and the accounts are not among the
failing ones. At its end failures count again by themselves.

Accounts are late all the same if no check succeeds, and what their third party forgets
meanwhile is lost: "rounds problems" and "rounds stats" go on to say so.

Pollers of a version without windows count failures as ever: update all of them first.`,
		Example: `  rounds maintenance set disks --host news.example.org --lasts 4h --reason "new disks"
  rounds maintenance set move --label team=press --from 2026-12-01T22:00:00Z --lasts 2d --reason "the provider moves"`,
		Args: exactly(1),
	}
	cmd.RunE = withClient(env, func(cmd *cobra.Command, args []string, calls *client.Client) (err error) {
		if asked.Labels, err = labelsOf(labels); err != nil {
			return err
		}
		for flag, into := range map[string]*time.Time{"from": &asked.From, "until": &asked.Until} {
			text := map[string]string{"from": from, "until": until}[flag]
			if *into, err = timeOf(flag, text); err != nil {
				return err
			}
		}
		w, err := calls.PutMaintenance(cmd.Context(), args[0], asked)
		if err != nil {
			return err
		}
		fmt.Fprintln(env.stdout, env.says("%s: failures of %s count nowhere from %s until %s", oneLine(w.Name), oneLine(w.Whom()), clockTime(w.From), clockTime(w.Until)))
		return nil
	})
	flags := cmd.Flags()
	flags.StringVar(&asked.Host, "host", "", "accounts at this `HOST` or corporation, as rounds problems shows it")
	flags.StringArrayVar(&labels, "label", nil, "accounts with this label, as `NAME=VALUE`; several must all match")
	flags.StringVar(&from, "from", "", "when it begins, as `TIME` in RFC 3339; default: now")
	flags.StringVar(&until, "until", "", "when it ends, as `TIME` in RFC 3339, at most 30 days after its begin")
	flags.StringVar(&asked.Lasts, "lasts", "", "how `LONG` it lasts, such as 4h or 2d, in place of --until")
	flags.StringVar(&asked.Reason, "reason", "", "why, for those who see it")
	cmd.MarkFlagsOneRequired("until", "lasts")
	cmd.MarkFlagsMutuallyExclusive("until", "lasts")
	if err := cmd.MarkFlagRequired("reason"); err != nil {
		panic(err) // the command has no such flag
	}
	complete(cmd, "label", completeLabels(env))
	return cmd
}

// timeOf reads the time that a flag has. An empty text is the zero time.
func timeOf(flag, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return at, fmt.Errorf("--%s %q: must be a time such as 2026-12-01T22:00:00Z", flag, text)
	}
	return at, nil
}

func newMaintenanceList(env environment) *cobra.Command {
	return listingCommand(env, &cobra.Command{
		Use:     "list",
		Short:   "List maintenance windows that are under way or still to come",
		Aliases: []string{"ls"},
		Example: `  rounds maintenance list
  rounds maintenance list --json | jq 'select(.open)'`,
	}, list[api.MaintenanceWindow]{
		header: "NAME\tACCOUNTS\tFROM\tUNTIL\tSTATE\tBY\tREASON", none: "no maintenance windows",
		row: func(w api.MaintenanceWindow) string {
			state := "to come"
			if w.Open {
				state = "under way"
			}
			return strings.Join([]string{oneLine(w.Name), oneLine(w.Whom()), clockTime(w.From), clockTime(w.Until), state, oneLine(cmp.Or(w.By, "-")), oneLine(w.Reason)}, "\t")
		},
		page: whole((*client.Client).Maintenance, func(l api.MaintenanceList) []api.MaintenanceWindow { return l.Windows }),
	})
}

func newMaintenanceEnd(env environment) *cobra.Command {
	return &cobra.Command{
		Use:     "end NAME…",
		Short:   "End maintenance windows, or call them off",
		Long:    `End maintenance windows. Failures count again within two seconds.`,
		Example: `  rounds maintenance end disks`,
		Aliases: []string{"rm"},
		Args:    atLeast(1),
		RunE: withClient(env, func(cmd *cobra.Command, args []string, calls *client.Client) error {
			for _, name := range args {
				if err := calls.EndMaintenance(cmd.Context(), name); err != nil {
					return fmt.Errorf("%s: %w", name, err)
				}
				fmt.Fprintln(env.stdout, env.says("ended %s", oneLine(name)))
			}
			return nil
		}),
	}
}
