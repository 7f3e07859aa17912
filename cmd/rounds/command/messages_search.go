package command

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rounds-dev/rounds/cmd/rounds/client"
)

func newSearchCommand(env environment) *cobra.Command {
	query, limit, jsonOutput := client.SearchQuery{}, 50, false
	cmd := &cobra.Command{
		Use:   "search [TEXT]",
		Short: "Search the stored messages, the newest first",
		Long: `Search the messages that are still stored, the newest first, and print those that match all
that is given. TEXT may be any part of a text in a message's data; capitals and small letters
are the same. --sender looks at whom an answer would be for, and at from, author and sender
in the data.

--from and --to are times such as 2026-01-31T12:00:00Z, or how long ago, such as 24h, by
Redis' clock, and mean when a message was found.

A search reads all messages back to the retention time, at a pace that leaves Redis time for
others. On a terminal it says how far it is; interrupt it when it has found enough.`,
		Example: `  rounds messages search "invoice 4711"
  rounds messages search --sender anna --from 24h
  rounds messages search invoice --account inbox --limit 0 --json | jq -r .id`,
		Args: cobra.MaximumNArgs(1),
		RunE: withClient(env, func(cmd *cobra.Command, args []string, calls *client.Client) error {
			if limit < 0 {
				return misuse("--limit must not be negative")
			}
			query.Text = strings.Join(args, "")
			looked, shown, told := 0, 0, env.terminal(env.stderr)
			for {
				query.Limit = 100
				if limit > 0 {
					query.Limit = min(query.Limit, limit-shown)
				}
				page, err := calls.SearchMessages(cmd.Context(), query)
				if err != nil {
					return err
				}
				for _, m := range page.Messages {
					if err := printMessage(env.stdout, m, jsonOutput); err != nil {
						return err
					}
				}
				looked, shown, query.Before = looked+page.Looked, shown+len(page.Messages), page.Next
				if page.Next == "" || limit > 0 && shown >= limit {
					break
				}
				if told && page.Looked > 0 {
					fmt.Fprintln(env.stderr, env.says("looked at %d of %d", looked, max(looked, page.Of)))
				}
			}
			if shown == 0 {
				fmt.Fprintln(env.stderr, env.says("no stored message matches"))
			}
			return nil
		}),
	}
	flags := cmd.Flags()
	flags.StringVar(&query.Sender, "sender", "", "only messages whose sender has this `part`")
	flags.StringVar(&query.Account, "account", "", "only messages of the account with this `id`")
	flags.StringVar(&query.Kind, "kind", "", "only messages of accounts of this `kind`")
	flags.StringVar(&query.Type, "type", "", "only messages of this `type`, as the checker names it")
	flags.StringVar(&query.From, "from", "", "only messages found since this `time`, or within this long")
	flags.StringVar(&query.To, "to", "", "only messages found before this `time`, or longer ago")
	flags.IntVar(&limit, "limit", limit, "end after this many messages; 0: never")
	flags.BoolVar(&jsonOutput, "json", false, "print them as JSON, one a line")
	complete(cmd, "account", completeIDs(env))
	complete(cmd, "kind", completeKinds(env))
	return cmd
}
