package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rounds-dev/rounds/cmd/rounds/api"
	"github.com/rounds-dev/rounds/cmd/rounds/client"
)

func newVersionsCommand(env environment) *cobra.Command {
	limit := 20
	cmd := showing(env, &cobra.Command{
		Use:   "versions ID",
		Short: "Show what an account's record was before each change",
		Long: `Show what an account's record was before each change of it, the latest change first:
when, by whom, and each changed field with its value before and after. "rounds account
restore" gives such a version back.

Versions are stored with the entries of the trail, and last as long as they do
(ROUNDS_TRAIL_KEPT). Changes of many accounts at once are not among them. *** stands
for a value that has become a secret since.`,
		Example: `  rounds account versions news
  rounds account versions news --json | jq .versions[0].record`,
		Args:              exactly(1),
		ValidArgsFunction: completeIDs(env),
	}, "print them as JSON", func(ctx context.Context, calls *client.Client, args []string) (all api.AccountVersions, err error) {
		if limit < 1 {
			return all, misuse("--limit must be more than 0")
		}
		for cursor := ""; ; {
			page, err := calls.AccountVersions(ctx, args[0], cursor, min(limit-len(all.Versions), pageSize))
			if err != nil {
				return all, ofAccount(args[0], err)
			}
			all.Versions, all.Back, all.Next = append(all.Versions, page.Versions...), page.Back, page.Next
			if cursor = page.Next; cursor == "" || len(all.Versions) >= limit {
				return all, nil
			}
		}
	}, func(all api.AccountVersions) error { return printVersions(env, all) })
	cmd.Flags().IntVar(&limit, "limit", limit, "at most this many")
	return cmd
}

func printVersions(env environment, all api.AccountVersions) error {
	if len(all.Versions) == 0 {
		return env.tell("the trail has no change of its record")
	}
	for i := range all.Versions {
		v := &all.Versions[i]
		fmt.Fprintf(env.stdout, "%s  until %s, %s by %s\n", oneLine(v.Version), clockTime(v.Until), oneLine(v.Action), cmp.Or(oneLine(v.By), "("+oneLine(v.Via)+")"))
		if len(v.Changes) == 0 {
			fmt.Fprintf(env.stdout, "  %s: the values are not stored\n", oneLine(strings.Join(v.Fields, ", ")))
		}
		printFieldChanges(env.stdout, v.Changes)
	}
	return nil
}

// printFieldChanges prints fields with their values before and after. An error in writing shows up
// later.
func printFieldChanges(out io.Writer, all []api.FieldChange) {
	for _, c := range all {
		fmt.Fprintf(out, "  %s\n", oneLine(c.Field))
		if c.Before != nil {
			fmt.Fprintf(out, "    - %s\n", oneLine(string(c.Before)))
		}
		if c.After != nil {
			fmt.Fprintf(out, "    + %s\n", oneLine(string(c.After)))
		}
	}
}

func newRestoreVersionCommand(env environment) *cobra.Command {
	dryRun, yes, jsonOutput := false, false, false
	cmd := &cobra.Command{
		Use:   "restore ID VERSION",
		Short: "Give an account an earlier version of its record back",
		Long: `Give an account the record back that it had before a change. VERSION is one of
"rounds account versions". The command shows what would change and asks, unless --yes
is given. It is a change like any other: a record that is not valid any more is refused,
and the change can itself be taken back in the same way. If somebody else changes the
account meanwhile, nothing is changed.`,
		Example: `  rounds account versions news
  rounds account restore news 1767225600000-0 --dry-run`,
		Args:              exactly(2),
		ValidArgsFunction: completeIDs(env),
		RunE: withClient(env, func(cmd *cobra.Command, args []string, calls *client.Client) error {
			would, tag, err := calls.RestoreAccount(cmd.Context(), args[0], "", api.RestoreRequest{Version: args[1], DryRun: true})
			switch {
			case err != nil:
				return ofAccount(args[0], err)
			case dryRun && jsonOutput:
				return printJSON(env.stdout, would)
			case len(would.Changes) == 0 && !jsonOutput:
				return env.tell("%s unchanged", oneLine(args[0]))
			}
			if !jsonOutput {
				printFieldChanges(env.stdout, would.Changes)
			}
			if dryRun {
				return nil
			}
			if !yes {
				if !env.terminal(env.stdin) || !env.terminal(env.stderr) {
					return misuse("nobody can be asked whether to change this: use --yes")
				}
				if err := env.confirm(calls, fmt.Sprintf("change this of %s?", oneLine(args[0])), "--yes", errors.New("nothing was changed")); err != nil {
					return err
				}
			}
			done, _, err := calls.RestoreAccount(cmd.Context(), args[0], tag, api.RestoreRequest{Version: args[1]})
			switch {
			case err != nil:
				return ofAccount(args[0], err)
			case jsonOutput:
				return printJSON(env.stdout, done)
			}
			return env.tell("%s saved, revision %d", oneLine(args[0]), done.Account.Revision)
		}),
	}
	flags := cmd.Flags()
	flags.BoolVar(&dryRun, "dry-run", false, "change nothing, and show what would be changed")
	flags.BoolVar(&yes, "yes", false, "do not ask")
	flags.BoolVar(&jsonOutput, "json", false, "print the account and what was changed as JSON")
	return cmd
}
