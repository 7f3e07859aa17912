package command

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rounds-dev/rounds/cmd/rounds/api"
	"github.com/rounds-dev/rounds/cmd/rounds/client"
)

func newWebhooksCommand(env environment) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "webhooks",
		Short: "Look at the webhook endpoints that found messages are delivered to",
		Example: `  rounds webhooks list
  rounds webhooks show crm
  rounds webhooks retry crm
  rounds webhooks skip crm --account news
  rounds webhooks enable crm`,
	}
	needsCommand(cmd)
	cmd.AddCommand(newWebhooksListCommand(env), newWebhooksShowCommand(env), newWebhooksRetryCommand(env), newWebhooksSkipCommand(env), newWebhooksEnableCommand(env))
	return cmd
}

func newWebhooksListCommand(env environment) *cobra.Command {
	jsonOutput := false
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List webhook endpoints, how far they have read, how they answer, and which are disabled",
		Long: `List webhook endpoints, how far they have read, how they answer, and which are
disabled, since when, and why. An endpoint is listed once a process delivers to it.

LAST STATUS is its last answer. WAITING is how many messages wait to be tried again,
or wait behind such a message. ATTEMPT is the most failures of one of them, and
after how many it becomes a dead letter. NEXT TRY is when the first of them is tried
again. BREAKER is open, with the time, while nothing is sent because the endpoint
fails or asked for a pause. The last five come from what the delivering processes
reported within the last minute; they are - if none did.`,
		Example: `  rounds webhooks list
  rounds webhooks list --json | jq 'select(.standing.waiting_accounts > 0)'`,
		Aliases: []string{"ls"},
		Args:    cobra.NoArgs,
		RunE: withClient(env, func(cmd *cobra.Command, _ []string, calls *client.Client) error {
			list, err := calls.Webhooks(cmd.Context())
			if err != nil {
				return err
			}
			return newListing(env.stdout, jsonOutput,
				"ENDPOINT\tUNREAD\tOLDEST\tPENDING\tOLDEST\tCONSUMERS\tLAST STATUS\tWAITING\tATTEMPT\tNEXT TRY\tBREAKER\tSTATE", webhookRow).print(list.Webhooks)
		}),
	}
	cmd.Flags().BoolVar(&jsonOutput, "json", false, "print them as JSON, one a line")
	return cmd
}

func webhookRow(w api.Webhook) string {
	columns := strings.Repeat("-\t", 4) + "-"
	if w.Group != nil {
		columns = progressOf(*w.Group)
	}
	return strings.Join([]string{oneLine(w.Name), columns, answersOf(w.Standing), standing(w)}, "\t")
}

// answersOf returns the columns of how an endpoint answers.
func answersOf(s *api.WebhookStanding) string {
	if s == nil {
		return strings.Repeat("-\t", 4) + "-"
	}
	attempt, next := "-", "-"
	if s.Attempt > 0 {
		attempt = fmt.Sprintf("%d/%d", s.Attempt, s.MaxDeliveries)
	}
	if !s.NextTry.IsZero() {
		next = clockTime(s.NextTry)
	}
	breaker := s.Breaker
	if !s.BreakerUntil.IsZero() {
		breaker += " until " + clockTime(s.BreakerUntil)
	}
	return strings.Join([]string{lastStatus(s), strconv.Itoa(s.WaitingMessages), attempt, next, breaker}, "\t")
}

// lastStatus returns what an endpoint answered last, or why it did not.
func lastStatus(s *api.WebhookStanding) string {
	if s.LastStatus != 0 {
		return strconv.Itoa(s.LastStatus)
	}
	return cmp.Or(oneLine(s.LastOutcome), "-")
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

		ValidArgsFunction: completeWebhooks(env),
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
