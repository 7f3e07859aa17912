package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rounds-dev/rounds/cmd/rounds/api"
	"github.com/rounds-dev/rounds/cmd/rounds/client"
)

func newGroupsCommand(env environment) *cobra.Command {
	return holding(&cobra.Command{
		Use:   "groups",
		Short: "Look at the consumer groups that read found messages",
		Example: `  rounds groups list
  rounds groups rm old-crm`,
	}, newGroupsListCommand(env), newGroupsRemoveCommand(env))
}

func newGroupsListCommand(env environment) *cobra.Command {
	return listingCommand(env, &cobra.Command{
		Use:   "list",
		Short: "List consumer groups and how far they have read",
		Example: `  rounds groups list
  rounds groups list --json | jq 'select(.lag > 1000)'`,
		Aliases: []string{"ls"},
	}, list[api.Group]{
		header: "GROUP\tUNREAD\tOLDEST\tPENDING\tOLDEST\tCONSUMERS\tERROR",
		row:    func(g api.Group) string { return g.Name + "\t" + progressOf(g) + troubleOf(g) },
		page:   whole((*client.Client).Groups, func(l api.GroupList) []api.Group { return l.Groups }),
	})
}

// progressOf returns the columns that show how far a group has read, and its consumers.
func progressOf(g api.Group) string {
	return strings.Join([]string{
		strconv.Itoa(g.Lag), seconds(g.OldestUnread), strconv.Itoa(g.Pending), seconds(g.OldestPending),
		cmp.Or(strings.Join(g.Consumers, ","), "none"),
	}, "\t")
}

// troubleOf returns the column that shows why messages wait for one of a group's consumers, if any
// do.
func troubleOf(g api.Group) string {
	for _, m := range g.Members {
		if m.Error != "" {
			return "\t" + oneLine(m.Error)
		}
	}
	return ""
}

func newGroupsRemoveCommand(env environment) *cobra.Command {
	yes := false
	cmd := &cobra.Command{
		Use:   "rm NAME...",
		Short: "Remove consumer groups, with their positions and pending messages",
		Long: `Remove consumer groups, with their positions and pending messages. Messages past their
retention are no longer retained for them; their dead letters stay. Stop the
consumers of a group first, because they would create it again.

If a group has messages that it has not read, or not acknowledged, the command asks
before it removes any group, unless --yes is given. If nobody can be asked, it ends
with exit code 2 and changes nothing.`,
		Example: `  rounds groups rm old-crm
  rounds groups rm old-crm older-crm --yes`,
		Args:              atLeast(1),
		ValidArgsFunction: completeGroups(env),
		RunE: withClient(env, func(cmd *cobra.Command, names []string, calls *client.Client) error {
			if !yes {
				if err := confirmUnread(cmd.Context(), env, calls, names); err != nil {
					return err
				}
			}
			for _, name := range names {
				if err := calls.RemoveGroup(cmd.Context(), name); err != nil {
					return fmt.Errorf("%s: %w", name, err)
				}
				fmt.Fprintln(env.stdout, env.says("%s removed", oneLine(name)))
			}
			return nil
		}),
	}
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	return cmd
}

// confirmUnread asks whether to remove groups that still have messages to handle.
func confirmUnread(ctx context.Context, env environment, calls *client.Client, names []string) error {
	list, err := calls.Groups(ctx)
	if err != nil {
		return err
	}
	var unread []string
	for _, g := range list.Groups {
		if slices.Contains(names, g.Name) && g.Lag+g.Pending > 0 {
			unread = append(unread, fmt.Sprintf("%s has %d messages that it has not read and %d that it has not acknowledged", g.Name, g.Lag, g.Pending))
		}
	}
	if len(unread) == 0 {
		return nil
	}
	what := strings.Join(unread, "\n")
	var yes bool
	if len(names) == 1 {
		yes, err = env.ask(calls, what+"\nRemove this group with all that it has not handled?", "--yes")
	} else {
		yes, err = env.ask(calls, what+"\nRemove these groups with all that they have not handled?", "--yes")
	}
	switch {
	case err != nil:
		return fmt.Errorf("%s; %w", what, err)
	case !yes:
		return errors.New("nothing was removed")
	}
	return nil
}
