package command

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/cmd/rounds/api"
	"github.com/rounds-dev/rounds/cmd/rounds/client"
)

func newParkedCommand(env environment) *cobra.Command {
	return holding(&cobra.Command{
		Use:   "parked",
		Short: "Look at parked accounts, and resume them",
		Example: `  rounds parked list
  rounds parked revive --reason auth --rate 10/s`,
	}, newParkedListCommand(env), newReviveCommand(env))
}

func newParkedListCommand(env environment) *cobra.Command {
	var query client.ParkedQuery
	listed := 0
	cmd := listingCommand(env, &cobra.Command{
		Use:   "list",
		Short: "List parked accounts, since when, and why",
		Example: `  rounds parked list
  rounds parked list --reason auth --kind feed
  rounds parked list --json | jq -r .reason | sort | uniq -c`,
		Aliases: []string{"ls"},
	}, list[api.ParkedAccount]{
		header: "ID\tKIND\tPARKED SINCE\tFAILURES\tREASON\tLAST ERROR", row: parkedRow, limit: new(int),
		page: func(ctx context.Context, calls *client.Client, cursor string, most int) ([]api.ParkedAccount, string, error) {
			query.Cursor, query.Limit = cursor, most
			page, err := calls.Parked(ctx, query)
			listed += len(page.Parked)
			return page.Parked, page.Next, err
		},
	})
	cmd.PostRun = func(*cobra.Command, []string) {
		if listed == 0 && query.Reason != "" {
			fmt.Fprintln(env.stderr, env.says("no account is parked for a reason that begins with %s", quoted(query.Reason)))
		}
	}
	cmd.Flags().StringVar(&query.Reason, "reason", "", "only accounts whose reason begins with this `prefix`, such as auth or paused")
	cmd.Flags().StringVar(&query.Kind, "kind", "", "only accounts of this kind")
	complete(cmd, "kind", completeKinds(env))
	return cmd
}

func parkedRow(a api.ParkedAccount) string {
	return fmt.Sprintf("%s\t%s\t%s\t%d\t%s\t%s", a.ID, a.Kind, clockTime(a.Since), a.Failures, oneLine(accounts.ReasonText(a.Reason)), oneLine(errorOf(a.Error, a.ErrorAt)))
}

func newReviveCommand(env environment) *cobra.Command {
	var request api.ReviveRequest
	rate, jsonOutput := "", false
	cmd := &cobra.Command{
		Use:   "revive [ID...]",
		Short: "Bring parked accounts back into circulation, at a rate",
		Long: `Put parked accounts back into circulation: the named ones, or those that a reason, a
cause, a kind or a host selects. Their failures are forgotten, and they become due one
after another, at the rate.

Paused accounts are not changed unless they are named, or the reason begins with
"paused". Accounts that are parked while the command runs are not changed either.
Running it again is safe.`,
		Example: `  rounds parked revive news
  rounds parked revive --reason auth --rate 10/s --dry-run
  rounds parked revive --reason "retry budget" --kind feed --rate 600/m`,
		ValidArgsFunction: completeIDs(env),
		RunE: withClient(env, func(cmd *cobra.Command, ids []string, calls *client.Client) error {
			request.IDs = ids
			if err := checkRevival(request); err != nil {
				return err
			}
			var err error
			if request.Rate, err = parseRate(rate); err != nil {
				return fmt.Errorf("--rate is %q: %w", rate, err)
			}
			bar := newProgress(env, "accounts revived")
			if request.DryRun {
				bar = newProgress(env, "accounts found")
			}
			done, err := reviveAll(calls, cmd, request, bar)
			bar.done()
			if err != nil && done.Revived > 0 && !request.DryRun {
				return fmt.Errorf("%d accounts were revived before this: %w", done.Revived, err)
			}
			if err != nil {
				return err
			}
			return printRevived(env, done, request.DryRun, jsonOutput)
		}),
	}
	flags := cmd.Flags()
	flags.StringVar(&request.Reason, "reason", "", "accounts whose reason begins with this `prefix`, such as auth")
	flags.StringVar(&request.Kind, "kind", "", "accounts of this kind")
	complete(cmd, "kind", completeKinds(env))
	flags.StringVar(&request.Cause, "cause", "", "accounts that are parked because of this `CAUSE`, as rounds problems names it")
	flags.StringVar(&request.Host, "host", "", "accounts whose config names this `HOST` or corporation")
	flags.StringArrayVar(&request.Except, "except-host", nil, "no accounts whose config names this `HOST` or corporation; repeat the flag for several")
	flags.StringVar(&rate, "rate", fmt.Sprintf("%d/s", accounts.ReviveRate), "how many accounts become due in a second, `N/s`, in a minute, N/m, or in an hour, N/h")
	flags.BoolVar(&request.DryRun, "dry-run", false, "only count the accounts")
	flags.BoolVar(&jsonOutput, "json", false, "print the counts as JSON")
	return cmd
}

// checkRevival refuses flags that would mean all accounts, or that contradict each other,
// in the words of the command.
func checkRevival(r api.ReviveRequest) error {
	selects := r.Reason != "" || r.Kind != "" || r.Cause != "" || r.Host != "" || len(r.Except) > 0
	switch {
	case len(r.IDs) == 0 && !selects:
		return errors.New("name accounts, or select them with --reason, --kind, --cause or --host")
	case len(r.IDs) > 0 && selects:
		return errors.New("--reason, --kind, --cause and --host select accounts and cannot be combined with names")
	}
	return nil
}

// reviveAll repeats the call until it is complete, and adds up the results.
func reviveAll(calls *client.Client, cmd *cobra.Command, request api.ReviveRequest, bar *progress) (api.Revived, error) {
	var sum api.Revived
	for {
		done, err := calls.Revive(cmd.Context(), request)
		if err != nil {
			return sum, err
		}
		sum.Revived += done.Revived
		sum.Skipped += done.Skipped
		sum.NotFound += done.NotFound
		if done.LastDue.After(sum.LastDue) {
			sum.LastDue = done.LastDue
		}
		bar.add(done.Revived)
		if request.Cursor = done.Next; request.Cursor == "" {
			return sum, nil
		}
	}
}

func printRevived(env environment, done api.Revived, dryRun, jsonOutput bool) error {
	if jsonOutput {
		return printJSON(env.stdout, done)
	}
	what := "revived"
	if dryRun {
		what = "would be revived"
	}
	last := ""
	if !done.LastDue.IsZero() {
		last = ", the last due " + clockTime(done.LastDue)
	}
	return env.tell("%d %s%s, %d skipped, %d not found", done.Revived, what, last, done.Skipped, done.NotFound)
}

// parseRate reads a rate for a second, a minute or an hour, and returns it for a second.
func parseRate(text string) (float64, error) {
	number, unit, _ := strings.Cut(text, "/")
	per, ok := map[string]float64{"": 1, "s": 1, "m": 60, "h": 3600}[unit]
	rate, err := strconv.ParseFloat(number, 64)
	if err != nil || !ok {
		return 0, errors.New("must be a number and /s, /m or /h, as in 10/s")
	}
	rate /= per
	if !(rate >= accounts.MinReviveRate && rate <= accounts.MaxReviveRate) {
		return 0, fmt.Errorf("must be more than 0: %v to %v a second", accounts.MinReviveRate, accounts.MaxReviveRate)
	}
	return rate, nil
}
