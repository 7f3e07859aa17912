package command

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/cmd/rounds/api"
	"github.com/rounds-dev/rounds/cmd/rounds/client"
)

const bulkHelp = `

Name accounts, or select them with flags: an account must match all of them. --all
means every account. An account is judged when the command reaches it. A command
that was interrupted can be run again.`

func newRemoveCommand(env environment) *cobra.Command {
	return newBulkCommand(env, bulkCommand{
		name: "rm", done: "removed", action: accounts.DeleteAll, one: (*client.Client).Remove, asks: true,
	}, &cobra.Command{
		Short: "Deregister accounts",
		Long: `Deregister accounts: they are no longer checked, and their cursors are forgotten.
Messages that were found stay.

Consumers still know the account's messages by its id. If the id is registered
again, messages with the same ids count as the old ones: sqlonce skips them for 14
days, an Effect for as long as it remembers, and receivers of webhooks for as long
as they do. So give another account a new id.` + bulkHelp + ` If
accounts are selected by flags, the command asks before it removes them, unless --yes
is given.`,
		Example: `  rounds account rm news
  rounds account rm --label customer=acme --dry-run
  rounds account rm --prefix test- --yes`,
		Aliases: []string{"remove", "delete"},
	})
}

func newPauseCommand(env environment) *cobra.Command {
	return newBulkCommand(env, bulkCommand{
		name: "pause", done: "paused", action: accounts.PauseAll, one: (*client.Client).Pause,
	}, &cobra.Command{
		Short: "Take accounts out of circulation until they are resumed",
		Long: `Take accounts out of circulation until they are resumed. Selected accounts that are
parked for another reason are not changed, unless --state parked or --reason selects
them.` + bulkHelp,
		Example: `  rounds account pause news
  rounds account pause --kind feed --label team=news`,
	})
}

func newResumeCommand(env environment) *cobra.Command {
	var named resumption
	return named.declare(newBulkCommand(env, bulkCommand{
		name: "resume", done: "resumed", action: accounts.ResumeAll,
		one: func(calls *client.Client, ctx context.Context, id string) error {
			return calls.Resume(ctx, id, accounts.ResumeFrom(named.from))
		},
	}, &cobra.Command{
		Short: "Put parked accounts back into circulation, including paused ones",
		Long: `Put parked accounts back into circulation. A named account is due at once, for
whatever reason it was parked. With flags, paused accounts are resumed; accounts
that are parked for another reason only if --state parked or --reason selects them.
Each is due at its next phase slot, so that they do not all start together. To
resume accounts slowly, see "rounds parked revive".` + resumeHelp + bulkHelp,
		Example: `  rounds account resume news
  rounds account resume support --from now
  rounds account resume --all`,
	}))
}

func newRetryCommand(env environment) *cobra.Command {
	return newBulkCommand(env, bulkCommand{
		name: "retry", done: "retried", action: accounts.RetryAll, paced: true,
		one: func(calls *client.Client, ctx context.Context, id string) error { return retry(ctx, calls, id) },
	}, &cobra.Command{
		Short: "Have accounts checked soon, and put parked ones back into circulation",
		Long: `Have accounts checked soon: parked ones circulate again, with their failures
forgotten, and the others are nudged. Paused accounts stay paused. Named accounts are
due at once, selected ones one after the other, at a rate.` + bulkHelp,
		Example: `  rounds account retry news
  rounds account retry --host news.example.org --rate 5 --job`,
	})
}

// retry revives an account that is parked, and nudges any other. The API refuses a nudge of a
// paused one.
func retry(ctx context.Context, calls *client.Client, id string) error {
	account, err := calls.Get(ctx, id)
	if err != nil {
		return err
	}
	if account.State.Place == circulate.Parked && account.State.Reason != accounts.StatePaused {
		return calls.Resume(ctx, id, "")
	}
	return calls.Nudge(ctx, id, api.NudgeRequest{})
}

// bulkCommand is a command that applies one action to accounts: to each named account, or to all
// selected ones.
type bulkCommand struct {
	name, done string
	action     accounts.Action
	one        func(*client.Client, context.Context, string) error
	asks       bool // it asks before it changes selected accounts
	paced      bool // selected accounts become due at a rate
}

// newBulkCommand adds what all bulk commands have in common to a command.
func newBulkCommand(env environment, b bulkCommand, cmd *cobra.Command) *cobra.Command {
	var chosen selectorFlags
	job := accounts.Bulk{Action: b.action}
	jsonOutput, yes, asJob := false, false, false
	cmd.Use = b.name + " [ID...]"
	cmd.ValidArgsFunction = completeIDs(env)
	cmd.RunE = withClient(env, func(cmd *cobra.Command, ids []string, calls *client.Client) error {
		var err error
		if job.Selector, err = chosen.read(); err != nil {
			return err
		}
		switch selects := job.All || !job.Selector.Empty(); {
		case len(ids) > 0 && (selects || job.DryRun || jsonOutput || asJob || job.Rate != 0):
			return errors.New("flags select accounts, or say what is done to those: they cannot be combined with names")
		case len(ids) > 0:
			return b.each(cmd.Context(), env, calls, ids)
		case !selects:
			return fmt.Errorf("name accounts, or select them with flags such as --kind or --label; --all means every account (see rounds account %s --help)", b.name)
		}
		if err := job.Validate(); err != nil {
			return flagFaults(err)
		}
		if b.asks && !yes && !job.DryRun {
			if err := b.confirm(cmd.Context(), env, calls, job); err != nil {
				return err
			}
		}
		if asJob {
			started, err := calls.StartJob(cmd.Context(), job)
			if err != nil {
				return err
			}
			return printJob(env, &started, jsonOutput)
		}
		return b.all(cmd.Context(), env, calls, job, jsonOutput)
	})
	flags := cmd.Flags()
	chosen.declare(env, cmd)
	flags.BoolVar(&job.All, "all", false, "all accounts")
	flags.BoolVar(&job.DryRun, "dry-run", false, "only count the selected accounts")
	flags.BoolVar(&jsonOutput, "json", false, "print the counts as JSON")
	flags.BoolVar(&asJob, "job", false, "have the service do it in the background: see rounds jobs")
	cmd.MarkFlagsMutuallyExclusive("job", "dry-run")
	if b.paced {
		flags.Float64Var(&job.Rate, "rate", 0, "how many selected accounts become due in a second (default 10)")
	}
	if b.asks {
		flags.BoolVarP(&yes, "yes", "y", false, "do not ask")
	}
	return cmd
}

// each applies the action to the named accounts.
func (b bulkCommand) each(ctx context.Context, env environment, calls *client.Client, ids []string) error {
	var failed []error
	for _, id := range ids {
		why := ""
		if b.action == accounts.ResumeAll {
			if account, err := calls.Get(ctx, id); err == nil && account.State.Reason != accounts.StatePaused {
				why = account.State.Reason
			}
		}
		err := b.one(calls, ctx, id)
		if client.Status(err) == 0 && err != nil {
			return errors.Join(append(failed, err)...) // the next call would fail too
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", id, err))
			continue
		}
		if why != "" {
			why = "; it is parked again if this is still so: " + oneLine(why)
		}
		fmt.Fprintln(env.stdout, env.says("%s %s", oneLine(id), b.done+why))
	}
	return errors.Join(failed...)
}

// confirm asks the person at the terminal, and names the number of accounts.
func (b bulkCommand) confirm(ctx context.Context, env environment, calls *client.Client, job accounts.Bulk) error {
	const otherwise = "--yes, or --dry-run to count"
	if !env.terminal(env.stdin) || !env.terminal(env.stderr) {
		_, err := env.ask(calls, "", otherwise) // before anything is counted
		return err
	}
	job.DryRun = true
	found, err := b.run(ctx, env, calls, job)
	if err != nil {
		return err
	}
	return env.confirm(calls, fmt.Sprintf("%s will be %s for good. Go on?", numberOf(found.Changed, "account"), b.done), otherwise, fmt.Errorf("nothing was %s", b.done))
}

// all applies the action to the selected accounts.
func (b bulkCommand) all(ctx context.Context, env environment, calls *client.Client, job accounts.Bulk, jsonOutput bool) error {
	did, err := b.run(ctx, env, calls, job)
	if err != nil && did == (api.BulkProgress{}) {
		return err
	}
	if err == nil && did.Matched == 0 {
		if err := unknownKind(ctx, calls, job.Selector.Kinds); err != nil {
			return err
		}
	}
	if jsonOutput {
		return errors.Join(printJSON(env.stdout, api.BulkLine{Summary: &did}), err)
	}
	done := b.done
	if job.DryRun {
		done = "would be " + done
	}
	counts := fmt.Sprintf("%d %s, %d unchanged", did.Changed, done, did.Unchanged)
	if did.Failed > 0 {
		counts += fmt.Sprintf(", %d failed", did.Failed)
	}
	if did.Unknown > 0 {
		counts += fmt.Sprintf(", %d unknown: run it again", did.Unknown)
	}
	var said error
	switch {
	case did.Seen == 1:
		said = env.tell("%s; %d of %d account was selected", counts, did.Matched, did.Seen)
	case did.Matched == 1:
		said = env.tell("%s; %d of %d accounts was selected", counts, did.Matched, did.Seen)
	default:
		said = env.tell("%s; %d of %d accounts were selected", counts, did.Matched, did.Seen)
	}
	return errors.Join(said, err)
}

// run applies the action to the selected accounts, and shows the progress.
func (b bulkCommand) run(ctx context.Context, env environment, calls *client.Client, job accounts.Bulk) (api.BulkProgress, error) {
	bar := newProgress(env, "")
	defer bar.done()
	done := b.done
	if job.DryRun {
		done = "would be " + done
	}
	return calls.Bulk(ctx, job, func(p api.BulkProgress) {
		bar.show(fmt.Sprintf("%d accounts looked at, %d selected, %d %s", p.Seen, p.Matched, p.Changed, done))
	})
}

const resumeHelp = `

A named account continues from where its last check ended, unless --from says
otherwise. now passes over what came before it was resumed. backfill forgets how far
it had got, so that everything that the third party still has is found, some of it
again.`

// resumption says where named accounts go on.
type resumption struct{ from string }

// declare adds the flag. It is only for named accounts, because nobody can see at a
// glance how far each of many accounts has got.
func (r *resumption) declare(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().StringVar(&r.from, "from", "", "where a named account goes on: cursor, now or backfill (default cursor)")
	offer(cmd, "from", "cursor", "now", "backfill")
	cmd.PreRunE = func(cmd *cobra.Command, ids []string) error {
		if !cmd.Flags().Changed("from") {
			return nil
		}
		if accounts.ResumeFrom(r.from).Validate() != nil {
			return errors.New("--from must be cursor, now or backfill")
		}
		if len(ids) == 0 {
			return errors.New("--from is for named accounts")
		}
		return nil
	}
	return cmd
}

// selectorFlags are the flags that select accounts.
type selectorFlags struct {
	kinds, states, labels, prefixes, parts, reasons, errors, causes, hosts, except, secrets []string

	since, until string
}

func (f *selectorFlags) declare(env environment, cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringArrayVar(&f.kinds, "kind", nil, "only accounts of this `KIND`; repeat the flag for several")
	flags.StringArrayVar(&f.states, "state", nil, "only accounts in this `STATE`; repeat the flag for several: "+strings.Join(accounts.States(), ", "))
	flags.StringArrayVar(&f.labels, "label", nil, "only accounts with this label, `NAME=VALUE`; several must all match")
	flags.StringArrayVar(&f.prefixes, "prefix", nil, "only accounts whose id begins with this `TEXT`; repeat the flag for several")
	flags.StringArrayVar(&f.parts, "part", nil, "only accounts whose id has this `TEXT` anywhere, in capitals or not; repeat the flag for several")
	flags.StringArrayVar(&f.reasons, "reason", nil, "only parked accounts whose reason begins with this `TEXT`; repeat the flag for several")
	flags.StringArrayVar(&f.errors, "error", nil, "only accounts whose last check failed with this `CODE` (http_404, timeout) or kind (transient, auth), or succeeded with a warning of this code (cursor_stuck); repeat the flag for several")
	flags.StringArrayVar(&f.causes, "cause", nil, "only accounts that fail, or are parked for a failure, because of this `CAUSE`, as rounds problems names it; repeat the flag for several")
	flags.StringArrayVar(&f.hosts, "host", nil, "only accounts whose config names this `HOST`, HOST:PORT or corporation; repeat the flag for several")
	flags.StringArrayVar(&f.except, "except-host", nil, "only accounts whose config does not name this `HOST` or corporation; repeat the flag for several")
	flags.StringArrayVar(&f.secrets, "secret", nil, "only accounts whose config refers to the secret of this `NAME`; repeat the flag for several")
	flags.StringVar(&f.since, "since", "", "only accounts without a successful check for at least this `DURATION`, such as 1h")
	flags.StringVar(&f.until, "until", "", "only accounts with a successful check within this `DURATION`; with --since and --state failing: those that began to fail between the two")
	complete(cmd, "kind", completeKinds(env))
	complete(cmd, "label", completeLabels(env))
	offer(cmd, "state", accounts.States()...)
}

// read returns the selector, or every fault of the flags in their own words.
func (f *selectorFlags) read() (accounts.Selector, error) {
	fields := map[string][]string{
		"kind": f.kinds, "state": f.states, "label": f.labels, "prefix": f.prefixes, "part": f.parts, "reason": f.reasons, "error": f.errors, "cause": f.causes, "host": f.hosts, "except_host": f.except, "secret": f.secrets,
	}
	for name, text := range map[string]string{"since": f.since, "until": f.until} {
		if text != "" {
			fields[name] = []string{text}
		}
	}
	s, err := accounts.ParseSelector(fields)
	return s, flagFaults(err)
}

// flagFaults replaces the names of fields in faults by the names of flags.
func flagFaults(err error) error {
	var faults accounts.Faults
	if !errors.As(err, &faults) {
		return err
	}
	named := make([]error, len(faults))
	for i, f := range faults {
		named[i] = fmt.Errorf("--%s: %s", strings.ReplaceAll(f.Field, "_", "-"), f.Reason)
	}
	return errors.Join(named...)
}
