package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rounds-dev/rounds/cmd/rounds/api"
	"github.com/rounds-dev/rounds/cmd/rounds/client"
)

func newWebhooksCommand(env environment) *cobra.Command {
	return holding(&cobra.Command{
		Use:     "webhooks",
		Short:   "Add and watch the webhook endpoints to which found messages are delivered",
		Aliases: []string{"endpoints", "endpoint"},
		Example: `  rounds webhooks add crm https://crm.example.com/hook
  rounds webhooks test crm
  rounds webhooks list
  rounds webhooks show crm
  rounds webhooks retry crm
  rounds webhooks skip crm --account news
  rounds webhooks enable crm`,
	}, newWebhooksListCommand(env), newWebhooksShowCommand(env), newWebhooksAttemptsCommand(env), newWebhooksAddCommand(env), newWebhooksSetCommand(env), newWebhooksTestCommand(env), newWebhooksRemoveCommand(env), newWebhooksRetryCommand(env), newWebhooksSkipCommand(env), newWebhooksEnableCommand(env))
}

func newWebhooksListCommand(env environment) *cobra.Command {
	return listingCommand(env, &cobra.Command{
		Use:   "list",
		Short: "List webhook endpoints, how far they have read, how they answer, and which are disabled",
		Long: `List webhook endpoints, how far they have read, how they answer, and which are
disabled, since when, and why. An endpoint is listed once a process delivers to it.

LAST STATUS is its last answer. WAITING is how many messages wait to be tried again,
or wait behind such a message. ATTEMPT is the most failures of a waiting message, and
after how many it becomes a dead letter. NEXT TRY is when the first of them is tried
again. BREAKER is open, with the time, while nothing is sent because the endpoint
fails or asked for a pause. The last five come from what the delivering processes
reported within the last minute; they are - if none did.`,
		Example: `  rounds webhooks list
  rounds webhooks list --json | jq 'select(.standing.waiting_accounts > 0)'`,
		Aliases: []string{"ls"},
	}, list[api.Webhook]{
		header: "ENDPOINT\tUNREAD\tOLDEST\tPENDING\tOLDEST\tCONSUMERS\tLAST STATUS\tWAITING\tATTEMPT\tNEXT TRY\tBREAKER\tSTATE",
		row:    webhookRow,
		page:   whole((*client.Client).Webhooks, func(l api.WebhookList) []api.Webhook { return l.Webhooks }),
	})
}

func webhookRow(w api.Webhook) string {
	columns := strings.Repeat("-\t", 4) + "-"
	if w.Group != nil {
		columns = progressOf(*w.Group)
	}
	return strings.Join([]string{oneLine(w.Name), columns, answersOf(w.Standing), standing(w)}, "\t")
}

// answersOf returns the columns that show how an endpoint answers.
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
		if s.BreakerUntil.After(s.NextTry) { // nothing is sent before that
			next = clockTime(s.BreakerUntil)
		}
	}
	breaker := s.Breaker
	if !s.BreakerUntil.IsZero() {
		breaker += " until " + clockTime(s.BreakerUntil)
	}
	return strings.Join([]string{lastStatus(s), strconv.Itoa(s.WaitingMessages), attempt, next, breaker}, "\t")
}

// lastStatus returns an endpoint's last answer, or why there was none.
func lastStatus(s *api.WebhookStanding) string {
	if s.LastStatus != 0 {
		return strconv.Itoa(s.LastStatus)
	}
	return cmp.Or(oneLine(s.LastOutcome), "-")
}

func standing(w api.Webhook) string {
	switch {
	case !w.Disabled && w.Deferred != "":
		return "enabled, waits: " + oneLine(w.Deferred)
	case !w.Disabled && w.Standing != nil && w.Standing.LastError != "":
		return "enabled, fails: " + oneLine(w.Standing.LastError)
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
		Args:    atLeast(1),

		ValidArgsFunction: completeWebhooks(env),
		RunE: withClient(env, func(cmd *cobra.Command, names []string, calls *client.Client) error {
			for _, name := range names {
				if err := calls.EnableWebhook(cmd.Context(), name); err != nil {
					return named(name, err)
				}
			}
			return nil
		}),
	}
}

func newWebhooksShowCommand(env environment) *cobra.Command {
	return showing(env, &cobra.Command{
		Use:   "show NAME",
		Short: "Show a webhook endpoint and the messages that wait there to be tried again",
		Long: `Show a webhook endpoint and the messages that wait there to be tried again: the
first of each account, and how many of the account wait behind it.`,
		Example: `  rounds webhooks show crm
  rounds webhooks show crm --json | jq -r .standing.waiting[].account`,
		Args:              exactly(1),
		ValidArgsFunction: completeWebhooks(env),
	}, "print it as JSON", func(ctx context.Context, calls *client.Client, names []string) (api.Webhook, error) {
		w, err := calls.Webhook(ctx, names[0])
		return w, named(names[0], err)
	}, func(w api.Webhook) error { return printWebhook(env.stdout, w) })
}

func newWebhooksAttemptsCommand(env environment) *cobra.Command {
	return showing(env, &cobra.Command{
		Use:   "attempts NAME",
		Short: "Show the latest attempts at a webhook endpoint, failures first",
		Long: `Show the latest attempts at a webhook endpoint, failures first: when, for which account,
at which address, with which status, and the beginning of the answer. The processes that
deliver to it report them within ten seconds. *** stands for the endpoint's secrets.`,
		Example: `  rounds webhooks attempts crm
  rounds webhooks attempts crm --json | jq -r .attempts[0].answer`,
		Args:              exactly(1),
		ValidArgsFunction: completeWebhooks(env),
	}, "print them as JSON", func(ctx context.Context, calls *client.Client, names []string) (api.WebhookAttempts, error) {
		all, err := calls.WebhookAttempts(ctx, names[0])
		return all, named(names[0], err)
	}, func(all api.WebhookAttempts) error {
		if len(all.Attempts) == 0 {
			return env.tell("no attempt is known")
		}
		return printTable(env.stdout, "TIME\tACCOUNT\tADDRESS\tSTATUS\tTOOK\tOUTCOME\tANSWER", all.Attempts, func(a api.WebhookAttempt) string {
			status := "-"
			if a.Status != 0 {
				status = strconv.Itoa(a.Status)
			}
			return fmt.Sprintf("%s\t%s\t%s\t%s\t%s\t%s\t%s", clockTime(a.Time), oneLine(a.Account), cmp.Or(oneLine(a.Address), "-"), status, seconds(a.Took), oneLine(a.Outcome), cmp.Or(shorten(a.Answer), shorten(a.Error), "-"))
		})
	})
}

// named puts a name before an error.
func named(name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", name, err)
}

func printWebhook(out io.Writer, w api.Webhook) error {
	s := w.Standing
	if w.Source == "stored" {
		fmt.Fprintf(out, "%s was added by %s at %s: %s\n", oneLine(w.Name), oneLine(cmp.Or(w.StoredBy, "-")), clockTime(w.StoredAt), oneLine(string(w.Fields)))
	}
	switch {
	case s == nil:
		_, err := fmt.Fprintf(out, "%s is %s; no process delivers to it\n", oneLine(w.Name), standing(w))
		return err
	case s.WaitingAccounts == 0:
		_, err := fmt.Fprintf(out, "%s is %s; last status %s, breaker %s; nothing waits to be tried again\n", oneLine(w.Name), standing(w), lastStatus(s), oneLine(s.Breaker))
		return err
	}
	fmt.Fprintf(out, "%s is %s; last status %s, breaker %s; waiting: %s of %s\n",
		oneLine(w.Name), standing(w), lastStatus(s), oneLine(s.Breaker), numberOf(s.WaitingMessages, "message"), numberOf(s.WaitingAccounts, "account"))
	err := printTable(out, "ACCOUNT\tATTEMPT\tNEXT TRY\tBEHIND\tLAST ERROR", s.Waiting, func(m api.WebhookWaiting) string {
		return fmt.Sprintf("%s\t%d/%d\t%s\t%d\t%s", oneLine(m.Account), m.Attempt, s.MaxDeliveries, clockTime(m.NextTry), m.Behind, cmp.Or(shorten(m.Error), "-"))
	})
	if err != nil {
		return err
	}
	if more := s.WaitingAccounts - len(s.Waiting); more > 0 {
		_, err := fmt.Fprintf(out, "and messages of %s more\n", numberOf(more, "account"))
		return err
	}
	return nil
}

func newWebhooksRetryCommand(env environment) *cobra.Command {
	var request api.WebhookRetryRequest
	cmd := &cobra.Command{
		Use:   "retry NAME",
		Short: "Try the waiting messages of a webhook endpoint now",
		Long: `Try the waiting messages of a webhook endpoint now, for example after its receiver
was repaired. All processes that deliver to it do so within a second or two,
whatever they are waiting for: the time of the next try, the circuit breaker, or a pause
that the endpoint asked for. Messages of an account keep their order, and a failed
try counts like any other.`,
		Example: `  rounds webhooks retry crm
  rounds webhooks retry crm --account news`,
		Args:              exactly(1),
		ValidArgsFunction: completeWebhooks(env),
		RunE: withClient(env, func(cmd *cobra.Command, names []string, calls *client.Client) error {
			done, err := calls.RetryWebhook(cmd.Context(), names[0], request)
			if err != nil {
				return named(names[0], err)
			}
			return env.tell("tried now: the messages of %s, by %s; rounds webhooks show %s tells how that goes", numberOf(done.Accounts, "account"), numberOf(done.Processes, "process"), names[0])
		}),
	}
	cmd.Flags().StringVar(&request.Account, "account", "", "only messages of this account, by its `id`")
	complete(cmd, "account", completeIDs(env))
	return cmd
}

func newWebhooksSkipCommand(env environment) *cobra.Command {
	var request api.WebhookSkipRequest
	yes, jsonOutput := false, false
	cmd := &cobra.Command{
		Use:   "skip NAME",
		Short: "Give up on the message that holds up an account at a webhook endpoint",
		Long: `Give up on the message that holds up an account at a webhook endpoint, so that the
messages behind it are tried. Without --account that is the first message of each account
that has messages waiting. If there are several, the command asks first, unless
--yes is given.

A skipped message is not lost: it becomes a dead letter with its error, and "rounds
dead replay" delivers it again. A message that is being sent at that moment may
still arrive.`,
		Example: `  rounds webhooks skip crm --account news
  rounds webhooks skip crm --yes`,
		Args:              exactly(1),
		ValidArgsFunction: completeWebhooks(env),
		RunE: withClient(env, func(cmd *cobra.Command, names []string, calls *client.Client) error {
			if request.Account == "" {
				w, err := calls.Webhook(cmd.Context(), names[0])
				if err != nil {
					return named(names[0], err)
				}
				if w.Standing != nil && w.Standing.WaitingAccounts > 1 {
					if err := agrees(env, calls, yes, numberOf(w.Standing.WaitingAccounts, "message")+", the first of each account, will become dead letters."); err != nil {
						return err
					}
					request.All = true
				}
			}
			done, err := calls.SkipWebhook(cmd.Context(), names[0], request)
			if err != nil {
				return named(names[0], err)
			}
			if jsonOutput {
				return printJSON(env.stdout, done)
			}
			for _, m := range done.Skipped {
				fmt.Fprintln(env.stdout, env.says("%s: skipped; rounds dead replay %s delivers it again", oneLine(m.Account), oneLine(m.DeadID)))
			}
			return env.tell("%d skipped, %d taken meanwhile; messages of %s more wait", len(done.Skipped), done.Gone, numberOf(done.Left, "account"))
		}),
	}
	cmd.Flags().StringVar(&request.Account, "account", "", "the first message of this account, by its `id`")
	complete(cmd, "account", completeIDs(env))
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	cmd.Flags().BoolVar(&jsonOutput, "json", false, "print what was skipped as JSON")
	return cmd
}

// agrees asks the person at the terminal, unless a flag has answered already.
func agrees(env environment, calls *client.Client, yes bool, what string) error {
	if yes {
		return nil
	}
	const otherwise = "--yes, or name one with --account"
	if !env.terminal(env.stdin) || !env.terminal(env.stderr) {
		return misuse(what + " Nobody can be asked: use " + otherwise)
	}
	return env.confirm(calls, what+" Go on?", otherwise, errors.New("nothing was skipped"))
}
