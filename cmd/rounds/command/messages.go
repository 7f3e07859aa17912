package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/rounds-dev/rounds/cmd/rounds/api"
	"github.com/rounds-dev/rounds/cmd/rounds/client"
)

// dataWidth is how much of a message's data is shown in a line for people.
const dataWidth = 200

// errEnough ends a tail that has shown as many messages as were asked for.
var errEnough = errors.New("enough")

func newMessagesCommand(env environment) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "messages",
		Short:   "Read found messages",
		Example: `  rounds messages tail`,
	}
	needsCommand(cmd)
	cmd.AddCommand(newTailCommand(env))
	return cmd
}

func newTailCommand(env environment) *cobra.Command {
	from, group, limit, jsonOutput := "", "", 0, false
	var accounts, kinds, types []string
	cmd := &cobra.Command{
		Use:   "tail",
		Short: "Print found messages as they come, until interrupted",
		Long: `Print found messages as they arrive, until interrupted. After a lost connection it
connects again, and continues where it stopped.

With --group the command reads as a consumer of that group, which is created if it is new.
Each message goes to one consumer of the group, is printed and then acknowledged. A
message that was printed but could not be acknowledged is printed again by the next
consumer. Without --group nothing is acknowledged, and no other reader is affected.

--account, --kind and --type print only messages that match all of them; each may be repeated.

If nothing comes for five seconds, standard error says which accounts fail.`,
		Example: `  rounds messages tail
  rounds messages tail --from start --json | jq .data
  rounds messages tail --limit 1
  rounds messages tail --account news --account inbox
  rounds messages tail --kind telegram --type message --from start
  rounds messages tail --group audit --from start`,
		Args: cobra.NoArgs,
		RunE: withClient(env, func(cmd *cobra.Command, _ []string, calls *client.Client) error {
			if from != client.FromStart && from != client.FromNow {
				return fmt.Errorf("--from is %q: must be start or now", from)
			}
			if group != "" && len(accounts)+len(kinds)+len(types) > 0 {
				return misuse("--account, --kind and --type are not for --group: what a group's consumer does not print, it would still acknowledge")
			}
			if err := unknownKind(cmd.Context(), calls, kinds); err != nil {
				return err
			}
			for _, id := range unknownAccounts(cmd.Context(), calls, accounts) {
				fmt.Fprintln(env.stderr, env.says("no account is named %s", quoted(id)))
			}
			chosen := &choice{accounts: accounts, kinds: kinds, types: types}
			heard := waiting(cmd.Context(), env, calls, chosen)
			defer heard()
			fits := func(wanted []string, is string) bool { return len(wanted) == 0 || slices.Contains(wanted, is) }
			shown := 0
			show := func(m api.Message) error {
				if !fits(accounts, m.Account) || !fits(kinds, m.Kind) {
					return nil
				}
				if !fits(types, m.Type) {
					chosen.pass(m.Type)
					return nil
				}
				heard()
				if err := printMessage(env.stdout, m, jsonOutput); err != nil {
					return err
				}
				if shown++; shown == limit {
					return errEnough
				}
				return nil
			}
			lost := func(err error, pause time.Duration) {
				fmt.Fprintln(env.stderr, env.says("rounds: %v; trying again in %v", err, pause.Round(100*time.Millisecond)))
			}
			if group != "" {
				// The API enforces the limit, so that no more messages are read than
				// printed.
				err := calls.Consume(cmd.Context(), group, from, limit, func(m api.GroupMessage) error {
					heard()
					return printMessage(env.stdout, m.Message, jsonOutput)
				}, lost)
				return ended(cmd.Context(), err)
			}
			if from == client.FromNow && env.terminal(env.stderr) {
				fmt.Fprintln(env.stderr, env.says("messages from now on; --from start begins with those found before"))
			}
			err := calls.Tail(cmd.Context(), from, show, lost)
			if errors.Is(err, errEnough) {
				return nil
			}
			return ended(cmd.Context(), err)
		}),
	}
	cmd.Flags().StringVar(&from, "from", client.FromNow, "where to begin: `start` or now; with --group, where the group begins if it is new")
	cmd.Flags().StringVar(&group, "group", "", "read as a consumer of this `group`, and acknowledge the printed messages")
	cmd.Flags().StringArrayVar(&accounts, "account", nil, "only messages of the account with this `id`")
	cmd.Flags().StringArrayVar(&kinds, "kind", nil, "only messages of accounts of this `kind`")
	cmd.Flags().StringArrayVar(&types, "type", nil, "only messages of this `type`, as the checker names it")
	complete(cmd, "account", completeIDs(env))
	complete(cmd, "kind", completeKinds(env))
	complete(cmd, "group", completeGroups(env))
	offer(cmd, "from", client.FromStart, client.FromNow)
	cmd.Flags().IntVar(&limit, "limit", 0, "end after this many messages; 0: never")
	cmd.Flags().BoolVar(&jsonOutput, "json", false, "print them as JSON, one a line")
	return cmd
}

// waiting says on standard error, once, that no message has come, unless heard is called first. It
// says nothing after heard has returned.
func waiting(ctx context.Context, env environment, calls *client.Client, chosen *choice) (heard func()) {
	if env.quiet == 0 {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	timer := time.AfterFunc(env.quiet, func() {
		defer close(done)
		if why := whyNothing(ctx, calls, chosen); ctx.Err() == nil {
			fmt.Fprintln(env.stderr, env.spoken(why))
		}
	})
	return sync.OnceFunc(func() {
		cancel()
		if !timer.Stop() {
			<-done
		}
	})
}

func printMessage(w io.Writer, m api.Message, jsonOutput bool) error {
	if jsonOutput {
		return printJSON(w, m)
	}
	when := "-"
	if !m.Time.IsZero() {
		when = clockTime(m.Time)
	}
	_, err := fmt.Fprintf(w, "%s  %s  %s  %s  %s\n", when, oneLine(m.Account), quoted(m.Type), quoted(m.ID), shorten(string(m.Data)))
	return err
}

// shorten cuts a text that is too long for a line.
func shorten(text string) string {
	text = oneLine(text)
	if utf8.RuneCountInString(text) <= dataWidth {
		return text
	}
	return string([]rune(text)[:dataWidth]) + "…"
}
