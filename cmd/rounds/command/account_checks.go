package command

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/rounds-dev/rounds/cmd/rounds/api"
	"github.com/rounds-dev/rounds/cmd/rounds/client"
)

const (
	checksAgain = 500 * time.Millisecond // between two looks, while pollers have not reported yet
	checksTries = 12
)

func newChecksCommand(env environment) *cobra.Command {
	return showing(env, &cobra.Command{
		Use:   "checks ID",
		Short: "Show the latest checks of an account, with duration, status and bytes",
		Long: `Show the latest checks of an account, at most 20, the latest first: when each ended, how
long it took, how it went, how many messages it found, the bytes of all answers, and over
HTTP the last status.

Pollers report the checks of an account from the moment somebody looks at it, and ten
minutes longer. The command waits for the first report for some seconds. What a poller has
forgotten is not shown: it remembers its latest 4,096 checks, of all accounts together.`,
		Example: `  rounds account checks news
  rounds account checks news --json | jq '.checks[] | select(.outcome != "ok")'`,
		Args:              exactly(1),
		ValidArgsFunction: completeIDs(env),
	}, "print them as JSON", func(ctx context.Context, calls *client.Client, args []string) (api.AccountChecks, error) {
		all, err := calls.AccountChecks(ctx, args[0])
		tick := time.NewTicker(checksAgain)
		defer tick.Stop()
		for tries, asked := 0, all.Asked; err == nil && asked && len(all.Checks) == 0 && tries < checksTries; tries++ {
			select {
			case <-tick.C:
				all, err = calls.AccountChecks(ctx, args[0])
			case <-ctx.Done():
				err = ctx.Err()
			}
		}
		return all, ofAccount(args[0], err)
	}, func(all api.AccountChecks) error {
		if len(all.Checks) == 0 {
			return env.tell("no check is known yet: pollers report further ones for ten minutes")
		}
		return printTable(env.stdout, "TIME\tTOOK\tOUTCOME\tHTTP\tBYTES\tMESSAGES\tERROR", all.Checks, func(c api.AccountCheck) string {
			status, size := "-", "-"
			if c.Status != 0 {
				status = strconv.Itoa(c.Status)
			}
			if c.Status != 0 || c.Bytes != 0 {
				size = strconv.FormatInt(c.Bytes, 10)
			}
			return fmt.Sprintf("%s\t%s\t%s\t%s\t%s\t%d\t%s", clockTime(c.Time), seconds(c.Took), oneLine(c.Outcome), status, size, c.Messages, cmp.Or(shorten(c.Error), "-"))
		})
	})
}
