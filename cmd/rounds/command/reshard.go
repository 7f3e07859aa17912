package command

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/cmd/rounds/api"
	"github.com/rounds-dev/rounds/cmd/rounds/client"
)

// reshardPoll is how often the progress of a change is requested.
const reshardPoll = time.Second

func newReshardCommand(env environment) *cobra.Command {
	to, asked, dryRun, force, finish, abort, idle := 0, false, false, false, false, false, false
	cmd := showing(env, &cobra.Command{
		Use:   "reshard",
		Short: "Change the number of shards, while the service runs",
		Long: `Change the number of shards, while the service runs. The monitors move the
accounts, one old shard after another; this command shows how far they have got, and
ends when all have moved. Without a monitor the change begins, and the command says
that nothing moves. It can be interrupted, and run again to see the rest.
Without --to it shows the current state.

The first account that moves is the point of no return. Until then --abort aborts
the change, and everything is as before. No account moves for some seconds, nor before
all replicas know the new shards. After the first account the change can only
continue; the number can be changed back once the change is over.

If Redis has a memory limit (maxmemory), it must have room for a copy of the
accounts that are moving, for their ids, and on a cluster for the accounts that come
from other nodes: --dry-run shows how much. Without that room nothing begins, unless
--force is given. If memory runs out all the same, accounts are still checked, and
move slowly.

Every process must be of a version that knows this command. After a change, the
namespace ignores ROUNDS_SHARDS. Messages in the old shards are
delivered from there, before an account's later ones. The old shards are dropped
when the messages' retention is over; --finish drops them as soon as every consumer
group has handled them. Only then can the number change again.`,
		Example: `  rounds reshard --to 128 --dry-run
  rounds reshard --to 128
  rounds reshard --abort
  rounds reshard --finish`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 && !strings.ContainsFunc(args[0], func(r rune) bool { return r < '0' || r > '9' }) {
				return fmt.Errorf("%q is one argument too many: %s", args[0], cmd.CommandPath()+" --to "+args[0])
			}
			return cobra.NoArgs(cmd, args)
		},
		PreRunE: func(cmd *cobra.Command, _ []string) error {
			asked = cmd.Flags().Changed("to")
			switch {
			case asked && finish, asked && abort, abort && finish:
				return errors.New("use only one of --to, --abort and --finish")
			case (dryRun || force) && !asked:
				return errors.New("--dry-run and --force need --to")
			}
			return nil
		},
	}, "print the outcome as JSON", func(ctx context.Context, calls *client.Client, _ []string) (done api.Resharding, err error) {
		switch {
		case finish:
			return calls.FinishResharding(ctx)
		case abort:
			before, asking := calls.Resharding(ctx)
			done, err = calls.AbortResharding(ctx)
			idle = asking == nil && before.Phase == circulate.Steady
			return done, err
		case !asked:
			return calls.Resharding(ctx)
		case dryRun && to&(to-1) != 0:
			fmt.Fprintln(env.stderr, env.says("%d is not a power of two, which the number of shards should be", to))
		}
		done, err = calls.Reshard(ctx, api.ReshardRequest{Shards: to, DryRun: dryRun, Force: force})
		if err == nil && !dryRun {
			done, err = watchReshard(ctx, env, calls, done)
		}
		return done, err
	}, func(done api.Resharding) error {
		if idle && done.Phase == circulate.Steady {
			return env.tell("there is nothing to abort: %d shards, %d accounts", done.From, done.Accounts)
		}
		return printReshard(env, done, dryRun)
	})
	cmd.Flags().IntVar(&to, "to", 0, "the new number of shards, best a power of two")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "only show what would be done")
	cmd.Flags().BoolVar(&force, "force", false, "begin even if Redis seems to have too little memory below its limit")
	cmd.Flags().BoolVar(&abort, "abort", false, "abort the change, before the first account moves")
	cmd.Flags().BoolVar(&finish, "finish", false, "drop the old shards, and the handled messages in them")
	return cmd
}

// watchReshard shows on standard error how far a change has got, until all accounts
// have moved. It puts up with an API that cannot answer for a while.
func watchReshard(ctx context.Context, env environment, calls *client.Client, now api.Resharding) (api.Resharding, error) {
	var shown shownReshard
	for now.Phase == circulate.Moving {
		if text, news := shown.next(now); news {
			fmt.Fprintln(env.stderr, env.spoken(text))
		}
		if !pause(ctx, reshardPoll) {
			if now.NoMonitor {
				return now, errors.New("interrupted: " + noMonitor)
			}
			return now, errors.New("interrupted: the monitors go on; run it again to see the rest")
		}
		next, err := calls.Resharding(ctx)
		if err != nil && client.Status(err) != http.StatusServiceUnavailable && ctx.Err() == nil {
			return now, err
		}
		if err == nil {
			now = next
		}
	}
	return now, nil
}

// shownReshard is what was last shown about a change.
type shownReshard struct {
	text  string
	total int
}

// next returns the progress, and whether it differs from what was last shown. The total is the
// greatest so far, because accounts on their way are in no shard and are not counted.
func (s *shownReshard) next(r api.Resharding) (text string, news bool) {
	s.total = max(s.total, r.Accounts)
	r.Accounts = s.total
	text = reshardProgress(r)
	news = text != s.text
	s.text = text
	return text, news
}

func roomLine(r api.Room) string {
	const mb = 1e6
	server, verdict := "Redis", "enough"
	if r.Node != "" {
		server += " at " + r.Node
	}
	if r.Free < r.Need {
		verdict = "too little"
	}
	return fmt.Sprintf("%s needs about %.1f MB of memory for it and has %.1f MB left below its limit: %s", server, float64(r.Need)/mb, float64(r.Free)/mb, verdict)
}

// noMonitor is what is said while nobody moves accounts.
const noMonitor = "no monitor is alive, and nothing moves until one is: start a process with the role monitor"

// reshardProgress says how far a change is that is under way.
func reshardProgress(r api.Resharding) string {
	if r.NoMonitor {
		return reshardMoved(r) + "; " + noMonitor
	}
	return reshardMoved(r)
}

func reshardMoved(r api.Resharding) string {
	if len(r.Behind) > 0 {
		return fmt.Sprintf("%d to %d shards: waiting until these replicas know the new ones: %s (until then --abort aborts it)", r.From, r.To, strings.Join(r.Behind, ", "))
	}
	if r.Left == r.Accounts && r.Transit+r.Kept == 0 && r.Accounts > 0 {
		return fmt.Sprintf("%d to %d shards: none of %d accounts has moved; the first one is the point of no return (until then --abort aborts it)", r.From, r.To, r.Accounts)
	}
	if r.Left+r.Transit == 0 {
		return fmt.Sprintf("%d to %d shards: all of %d accounts have moved, waiting until that is confirmed", r.From, r.To, r.Accounts)
	}
	return fmt.Sprintf("%d to %d shards: %d of %d accounts have moved", r.From, r.To, max(0, r.Accounts-r.Left), r.Accounts)
}

func printReshard(env environment, r api.Resharding, dryRun bool) error {
	switch {
	case dryRun && r.Phase == circulate.Steady && r.From != r.To:
		if err := env.tell("%d accounts would move from %d to %d shards", r.Left, r.From, r.To); err != nil {
			return err
		}
		for _, room := range r.Room {
			fmt.Fprintln(env.stdout, env.spoken(roomLine(room)))
		}
		if r.NoMonitor {
			return env.tell(noMonitor)
		}
		return nil
	case r.Phase == circulate.Steady && r.Dropped > 0:
		return env.tell("%d shards, %d accounts; %d messages in the old shards were dropped", r.To, r.Accounts, r.Dropped)
	case r.Phase == circulate.Steady:
		return env.tell("%d shards, %d accounts", r.From, r.Accounts)
	case r.Phase == circulate.Moving:
		_, err := fmt.Fprintln(env.stdout, env.spoken(reshardProgress(r)))
		return err
	}
	return env.tell("%d accounts are in %d shards; %d messages are left in the %d before, until their retention is over or reshard --finish",
		r.Accounts, r.To, r.Messages, r.From)
}
