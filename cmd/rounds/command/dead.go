package command

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/rounds-dev/rounds/cmd/rounds/api"
	"github.com/rounds-dev/rounds/cmd/rounds/client"
	"github.com/rounds-dev/rounds/cmd/rounds/message"
)

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
