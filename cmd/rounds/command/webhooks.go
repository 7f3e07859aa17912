package command

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/rounds-dev/rounds/accounts/api"
	"github.com/rounds-dev/rounds/cmd/rounds/client"
)

func newWebhooksCommand(env environment) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "webhooks",
		Short: "Look at the webhook endpoints that found messages are delivered to",
		Example: `  rounds webhooks list
  rounds webhooks enable crm`,
	}
	needsCommand(cmd)
	cmd.AddCommand(newWebhooksListCommand(env), newWebhooksEnableCommand(env))
	return cmd
}

func newWebhooksListCommand(env environment) *cobra.Command {
	jsonOutput := false
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List webhook endpoints, how far they have got, and which are disabled",
		Long: `List webhook endpoints, how far they have got, and which are disabled, since when,
and why. An endpoint is among them once something was delivered to it.`,
		Example: `  rounds webhooks list
  rounds webhooks list --json | jq 'select(.disabled)'`,
		Aliases: []string{"ls"},
		Args:    cobra.NoArgs,
		RunE: withClient(env, func(cmd *cobra.Command, _ []string, calls *client.Client) error {
			list, err := calls.Webhooks(cmd.Context())
			if err != nil {
				return err
			}
			table := tabwriter.NewWriter(env.stdout, 0, 0, 2, ' ', 0)
			if !jsonOutput {
				fmt.Fprintln(table, "ENDPOINT\tUNREAD\tOLDEST\tPENDING\tOLDEST\tCONSUMERS\tSTATE")
			}
			for _, w := range list.Webhooks {
				if jsonOutput {
					if err := printJSON(env.stdout, w); err != nil {
						return err
					}
					continue
				}
				columns := strings.Repeat("-\t", 4) + "-"
				if w.Group != nil {
					columns = progressOf(*w.Group)
				}
				fmt.Fprintf(table, "%s\t%s\t%s\n", oneLine(w.Name), columns, standing(w))
			}
			return table.Flush()
		}),
	}
	cmd.Flags().BoolVar(&jsonOutput, "json", false, "print them as JSON, one a line")
	return cmd
}

func standing(w api.Webhook) string {
	switch {
	case !w.Disabled:
		return "enabled"
	case w.Since.IsZero():
		return "disabled: " + oneLine(w.Reason)
	}
	return "disabled since " + clockTime(w.Since) + ": " + oneLine(w.Reason)
}

func newWebhooksEnableCommand(env environment) *cobra.Command {
	return &cobra.Command{
		Use:     "enable NAME...",
		Short:   "Deliver to disabled webhook endpoints again, from where they stopped",
		Example: `  rounds webhooks enable crm`,
		Args:    cobra.MinimumNArgs(1),
		RunE: withClient(env, func(cmd *cobra.Command, names []string, calls *client.Client) error {
			for _, name := range names {
				if err := calls.EnableWebhook(cmd.Context(), name); err != nil {
					return fmt.Errorf("%s: %w", name, err)
				}
			}
			return nil
		}),
	}
}
