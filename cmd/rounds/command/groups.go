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
	"github.com/rounds-dev/rounds/cmd/rounds/message"
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
		Long: `List consumer groups, how far they have read, their consumers, whether they ask for
events beside messages, and why messages wait for them.`,
		Example: `  rounds groups list
  rounds groups list --json | jq 'select(.lag > 1000)'`,
		Aliases: []string{"ls"},
	}, list[api.Group]{
		header: "GROUP\tUNREAD\tOLDEST\tPENDING\tOLDEST\tCONSUMERS\tEVENTS\tERROR",
		row:    func(g api.Group) string { return g.Name + "\t" + progressOf(g) + "\t" + eventsOf(g) + troubleOf(g) },
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

// eventsOf returns the column that shows whether a group asks for events.
func eventsOf(g api.Group) string {
	if g.Events {
		return "yes"
	}
	return "-"
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

func newDeadCommand(env environment) *cobra.Command {
	return holding(&cobra.Command{
		Use:   "dead",
		Short: "Look at messages that a consumer group could not handle",
		Example: `  rounds dead list --group webhook.crm
  rounds dead replay --all --group webhook.crm
  rounds dead drop 12:1767225600000-0
  rounds dead drop --all --group webhook.crm`,
	}, newDeadListCommand(env), newDeadReplayCommand(env), newDeadDropCommand(env))
}

func newDeadListCommand(env environment) *cobra.Command {
	var query client.DeadQuery
	cmd := listingCommand(env, &cobra.Command{
		Use:   "list",
		Short: "List dead letters, their groups, and why they failed",
		Example: `  rounds dead list
  rounds dead list --group webhook.crm
  rounds dead list --json | jq -r .dead_id | xargs rounds dead drop`,
		Aliases: []string{"ls"},
	}, list[api.DeadLetter]{
		header: "ID\tGROUP\tACCOUNT\tMESSAGE\tDELIVERIES\tERROR", row: deadRow, limit: new(int),
		page: func(ctx context.Context, calls *client.Client, cursor string, most int) ([]api.DeadLetter, string, error) {
			query.Cursor, query.Limit = cursor, most
			page, err := calls.Dead(ctx, query)
			return page.Dead, page.Next, err
		},
	})
	cmd.Flags().StringVar(&query.Group, "group", "", "only dead letters of this consumer `group`")
	complete(cmd, "group", completeGroups(env))
	return cmd
}

func deadRow(l api.DeadLetter) string {
	return fmt.Sprintf("%s\t%s\t%s\t%s\t%d\t%s", l.DeadID, oneLine(l.Group), oneLine(l.Account), quoted(l.ID), l.Deliveries, shorten(l.Error))
}

func newDeadReplayCommand(env environment) *cobra.Command {
	var chosen deadFlags
	cmd := &cobra.Command{
		Use:   "replay [ID...]",
		Short: "Deliver dead letters again",
		Long: `Deliver dead letters again, to the group that could not handle them: the named ones,
or all that the group has now. They are delivered after later messages of their
accounts. Running the command again is safe.`,
		Example: `  rounds dead replay 12:1767225600000-0
  rounds dead replay --all --group webhook.crm`,
		RunE: withClient(env, func(cmd *cobra.Command, ids []string, calls *client.Client) error {
			if err := chosen.check(ids, "replays"); err != nil {
				return err
			}
			var sum api.Replayed
			err := chosen.repeat(ids, func(ids []string, cursor string) (next string, err error) {
				done, err := calls.ReplayDead(cmd.Context(), api.ReplayRequest{IDs: ids, Group: chosen.group, Cursor: cursor})
				sum.Replayed += done.Replayed
				sum.NotFound += done.NotFound
				sum.NoGroup += done.NoGroup
				return done.Next, err
			})
			switch {
			case err != nil && sum.Replayed > 0:
				return fmt.Errorf("%d dead letters were replayed before this: %w", sum.Replayed, err)
			case err != nil:
				return err
			case chosen.json:
				return printJSON(env.stdout, sum)
			}
			return env.tell("%d replayed, %d not found, %d left because their group is not there", sum.Replayed, sum.NotFound, sum.NoGroup)
		}),
	}
	chosen.declare(env, cmd)
	return cmd
}

// deadFlags are the flags that say which dead letters a command is about, and how it prints.
type deadFlags struct {
	all, json bool
	group     string
}

func (f *deadFlags) declare(env environment, cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.all, "all", false, "all that the group has now")
	cmd.Flags().StringVar(&f.group, "group", "", "with --all: the group")
	complete(cmd, "group", completeGroups(env))
	cmd.Flags().BoolVar(&f.json, "json", false, "print the counts as JSON")
}

// check refuses contradictory flags, in the words of the command. does is what the command does:
// replays or drops.
func (f *deadFlags) check(ids []string, does string) error {
	switch {
	case f.all && len(ids) > 0:
		return errors.New("--all means all of a group's dead letters and cannot be combined with ids")
	case f.all && f.group == "":
		return errors.New("--all needs --group")
	case !f.all && f.group != "":
		return fmt.Errorf("--group needs --all, which %s everything that the group has", does)
	case !f.all && len(ids) == 0:
		return errors.New("name dead letters by their ids, or use --all --group GROUP")
	}
	return nil
}

// repeat calls step with the ids, some at a time, and with each cursor that it returns, until it returns
// none.
func (*deadFlags) repeat(ids []string, step func(ids []string, cursor string) (next string, err error)) error {
	parts, cursor := slices.Collect(slices.Chunk(ids, message.MaxDeadIDs)), ""
	for {
		var part []string
		if len(parts) > 0 {
			part, parts = parts[0], parts[1:]
		}
		var err error
		if cursor, err = step(part, cursor); err != nil || cursor == "" && len(parts) == 0 {
			return err
		}
	}
}

func newDeadDropCommand(env environment) *cobra.Command {
	var chosen deadFlags
	yes := false
	cmd := &cobra.Command{
		Use:   "drop [ID...]",
		Short: "Drop dead letters for good",
		Long: `Drop dead letters for good: the named ones, or all that a group has now. The command
asks before it drops all, unless --yes is given.`,
		Example: `  rounds dead drop 12:1767225600000-0
  rounds dead drop --all --group webhook.crm`,
		RunE: withClient(env, func(cmd *cobra.Command, ids []string, calls *client.Client) error {
			if err := chosen.check(ids, "drops"); err != nil {
				return err
			}
			if chosen.all && !yes {
				err := env.confirm(calls, fmt.Sprintf("Drop all dead letters of the group %s for good?", oneLine(chosen.group)), "--yes", errors.New("nothing was dropped"))
				if err != nil {
					return err
				}
			}
			var sum api.Dropped
			err := chosen.repeat(ids, func(ids []string, cursor string) (next string, err error) {
				done, err := calls.DropDead(cmd.Context(), api.DropRequest{IDs: ids, Group: chosen.group, Cursor: cursor})
				sum.Dropped += done.Dropped
				sum.NotFound += done.NotFound
				return done.Next, err
			})
			switch {
			case err != nil && sum.Dropped > 0:
				return fmt.Errorf("%d dead letters were dropped before this: %w", sum.Dropped, err)
			case err != nil:
				return err
			case chosen.json:
				return printJSON(env.stdout, sum)
			}
			return env.tell("%d dropped, %d not found", sum.Dropped, sum.NotFound)
		}),
	}
	chosen.declare(env, cmd)
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	return cmd
}
