package command

import (
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/rounds-dev/rounds/cmd/rounds/api"
	"github.com/rounds-dev/rounds/cmd/rounds/client"
	"github.com/rounds-dev/rounds/cmd/rounds/message"
)

func newDeadCommand(env environment) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "dead",
		Short: "Look at messages that a consumer group could not handle",
		Example: `  rounds dead list --group webhook.crm
  rounds dead replay --all --group webhook.crm
  rounds dead drop 12:1767225600000-0
  rounds dead drop --all --group webhook.crm`,
	}
	needsCommand(cmd)
	cmd.AddCommand(newDeadListCommand(env), newDeadReplayCommand(env), newDeadDropCommand(env))
	return cmd
}

func newDeadListCommand(env environment) *cobra.Command {
	var query client.DeadQuery
	limit, jsonOutput := 0, false
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List dead letters, their groups, and why they failed",
		Example: `  rounds dead list
  rounds dead list --group webhook.crm
  rounds dead list --json | jq -r .dead_id | xargs rounds dead drop`,
		Aliases: []string{"ls"},
		Args:    cobra.NoArgs,
		RunE: withClient(env, func(cmd *cobra.Command, _ []string, calls *client.Client) error {
			list := newListing(env.stdout, jsonOutput, "ID\tGROUP\tACCOUNT\tMESSAGE\tDELIVERIES\tERROR", deadRow)
			return list.pages(limit, func(cursor string, most int) ([]api.DeadLetter, string, error) {
				query.Cursor, query.Limit = cursor, most
				page, err := calls.Dead(cmd.Context(), query)
				return page.Dead, page.Next, err
			})
		}),
	}
	cmd.Flags().StringVar(&query.Group, "group", "", "only dead letters of this consumer `group`")
	complete(cmd, "group", completeGroups(env))
	cmd.Flags().IntVar(&limit, "limit", 0, "at most this many; 0: all")
	cmd.Flags().BoolVar(&jsonOutput, "json", false, "print them as JSON, one a line")
	return cmd
}

func deadRow(l api.DeadLetter) string {
	return fmt.Sprintf("%s\t%s\t%s\t%s\t%d\t%s", l.DeadID, oneLine(l.Group), oneLine(l.Account), quoted(l.ID), l.Deliveries, shorten(l.Error))
}

func newDeadReplayCommand(env environment) *cobra.Command {
	var request api.ReplayRequest
	all, jsonOutput := false, false
	cmd := &cobra.Command{
		Use:   "replay [ID...]",
		Short: "Deliver dead letters again",
		Long: `Deliver dead letters again, to the group that could not handle them: the named ones,
or all that the group has now. They are delivered after later messages of their
accounts. Running the command again is safe.`,
		Example: `  rounds dead replay 12:1767225600000-0
  rounds dead replay --all --group webhook.crm`,
		RunE: withClient(env, func(cmd *cobra.Command, ids []string, calls *client.Client) error {
			if err := checkDead(ids, all, request.Group, "replays"); err != nil {
				return err
			}
			done, err := replayAll(cmd, calls, ids, request)
			if err != nil && done.Replayed > 0 {
				return fmt.Errorf("%d dead letters were replayed before this: %w", done.Replayed, err)
			}
			if err != nil {
				return err
			}
			if jsonOutput {
				return printJSON(env.stdout, done)
			}
			_, err = fmt.Fprintln(env.stdout, env.says("%d replayed, %d not found, %d left because their group is not there", done.Replayed, done.NotFound, done.NoGroup))
			return err
		}),
	}
	cmd.Flags().BoolVar(&all, "all", false, "all that the group has now")
	cmd.Flags().StringVar(&request.Group, "group", "", "with --all: the group")
	complete(cmd, "group", completeGroups(env))
	cmd.Flags().BoolVar(&jsonOutput, "json", false, "print the counts as JSON")
	return cmd
}

// checkDead refuses contradictory flags, in the words of the command. does is what the command
// does: replay or drop.
func checkDead(ids []string, all bool, group, does string) error {
	switch {
	case all && len(ids) > 0:
		return errors.New("--all means all of a group's dead letters and cannot be combined with ids")
	case all && group == "":
		return errors.New("--all needs --group")
	case !all && group != "":
		return fmt.Errorf("--group needs --all, which %s everything that the group has", does)
	case !all && len(ids) == 0:
		return errors.New("name dead letters by their ids, or use --all --group GROUP")
	}
	return nil
}

// replayAll repeats the call until all letters are replayed, and adds up the results.
func replayAll(cmd *cobra.Command, calls *client.Client, ids []string, request api.ReplayRequest) (api.Replayed, error) {
	var sum api.Replayed
	some := slices.Collect(slices.Chunk(ids, message.MaxDeadIDs))
	for {
		if len(some) > 0 {
			request.IDs, some = some[0], some[1:]
		}
		done, err := calls.ReplayDead(cmd.Context(), request)
		if err != nil {
			return sum, err
		}
		sum.Replayed += done.Replayed
		sum.NotFound += done.NotFound
		sum.NoGroup += done.NoGroup
		if request.Cursor = done.Next; request.Cursor == "" && len(some) == 0 {
			return sum, nil
		}
	}
}

func newDeadDropCommand(env environment) *cobra.Command {
	var request api.DropRequest
	all, yes, jsonOutput := false, false, false
	cmd := &cobra.Command{
		Use:   "drop [ID...]",
		Short: "Drop dead letters for good",
		Long: `Drop dead letters for good: the named ones, or all that a group has now. The command
asks before it drops all, unless --yes is given.`,
		Example: `  rounds dead drop 12:1767225600000-0
  rounds dead drop --all --group webhook.crm`,
		RunE: withClient(env, func(cmd *cobra.Command, ids []string, calls *client.Client) error {
			if err := checkDead(ids, all, request.Group, "drops"); err != nil {
				return err
			}
			if all && !yes {
				agreed, err := env.ask(calls, fmt.Sprintf("Drop all dead letters of the group %s for good?", oneLine(request.Group)), "--yes")
				if err != nil {
					return err
				}
				if !agreed {
					return errors.New("nothing was dropped")
				}
			}
			sum, err := dropAll(cmd, calls, ids, request)
			if err != nil && sum.Dropped > 0 {
				return fmt.Errorf("%d dead letters were dropped before this: %w", sum.Dropped, err)
			}
			if err != nil {
				return err
			}
			if jsonOutput {
				return printJSON(env.stdout, sum)
			}
			_, err = fmt.Fprintln(env.stdout, env.says("%d dropped, %d not found", sum.Dropped, sum.NotFound))
			return err
		}),
	}
	cmd.Flags().BoolVar(&all, "all", false, "all that the group has now")
	cmd.Flags().StringVar(&request.Group, "group", "", "with --all: the group")
	complete(cmd, "group", completeGroups(env))
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	cmd.Flags().BoolVar(&jsonOutput, "json", false, "print the counts as JSON")
	return cmd
}

// dropAll repeats the call until all letters are dropped, and adds up the results.
func dropAll(cmd *cobra.Command, calls *client.Client, ids []string, request api.DropRequest) (api.Dropped, error) {
	var sum api.Dropped
	some := slices.Collect(slices.Chunk(ids, message.MaxDeadIDs))
	for {
		if len(some) > 0 {
			request.IDs, some = some[0], some[1:]
		}
		done, err := calls.DropDead(cmd.Context(), request)
		if err != nil {
			return sum, err
		}
		sum.Dropped += done.Dropped
		sum.NotFound += done.NotFound
		if request.Cursor = done.Next; request.Cursor == "" && len(some) == 0 {
			return sum, nil
		}
	}
}
