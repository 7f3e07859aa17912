package command

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rounds-dev/rounds/cmd/rounds/client"
	"github.com/rounds-dev/rounds/cmd/rounds/settings"
)

// completionTimeout bounds what a person waits for at a Tab key.
const completionTimeout = time.Second

// completeIDs offers the ids of the first page of those accounts whose ids begin
// so. It looks no further: there may be millions.
func completeIDs(env environment) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		access, err := settings.ReadAccess(env.lookup, cmd.Flags())
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		calls := client.New(access.URL, access.Token)
		defer calls.Close()
		ctx := cmd.Context()
		if ctx == nil {
			ctx = context.Background()
		}
		ctx, cancel := context.WithTimeout(ctx, completionTimeout)
		defer cancel()
		query := client.Query{Limit: pageSize}
		if begun != "" {
			query.Prefixes = []string{begun}
		}
		page, err := calls.List(ctx, query)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var ids []cobra.Completion
		for _, account := range page.Accounts {
			if strings.HasPrefix(account.ID, begun) && !slices.Contains(args, account.ID) {
				ids = append(ids, account.ID)
			}
		}
		return ids, cobra.ShellCompDirectiveNoFileComp
	}
}

// offer completes the values of a flag that has few.
func offer(cmd *cobra.Command, flag string, words ...string) {
	if err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // the command has no such flag, or it is completed twice
	}
}
