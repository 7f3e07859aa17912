package command

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/cmd/rounds/client"
)

const resumeHelp = `

A named account continues from where its last check ended, unless --from says
otherwise. now passes over what came before it was resumed. backfill forgets how far
it had got, so that everything that the third party still has is found, some of it
again.`

// resumption is where named accounts continue.
type resumption struct{ from string }

func (r *resumption) resume(ctx context.Context, calls *client.Client, id string) error {
	if r.from == "" {
		return calls.Resume(ctx, id)
	}
	return calls.ResumeFrom(ctx, id, accounts.ResumeFrom(r.from))
}

// declare adds the flag. It is for named accounts only, because nobody can see at a
// glance how far each of many accounts has got.
func (r *resumption) declare(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().StringVar(&r.from, "from", "", "where a named account goes on: cursor, now or backfill (default cursor)")
	_ = cmd.RegisterFlagCompletionFunc("from", cobra.FixedCompletions([]string{"cursor", "now", "backfill"}, cobra.ShellCompDirectiveNoFileComp)) // the flag exists
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
