package command

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/cmd/rounds/api"
	"github.com/rounds-dev/rounds/cmd/rounds/client"
	"github.com/rounds-dev/rounds/cmd/rounds/service"
	"github.com/rounds-dev/rounds/cmd/rounds/settings"
)

// completionTimeout bounds how long a person waits after the Tab key.
const completionTimeout = time.Second

// completeIDs offers ids from the first page of accounts whose ids begin with the word.
// It looks no further, because there may be millions.
func completeIDs(env environment) cobra.CompletionFunc {
	return completing(env, func(ctx context.Context, calls *client.Client, begun string) ([]string, error) {
		query := client.Query{Limit: pageSize}
		if begun != "" {
			query.Prefixes = []string{begun}
		}
		page, err := calls.List(ctx, query)
		var ids []string
		for _, account := range page.Accounts {
			ids = append(ids, account.ID)
		}
		return ids, err
	})
}

// completeGroups offers the names of consumer groups.
func completeGroups(env environment) cobra.CompletionFunc {
	return completeNames(env, (*client.Client).Groups, func(l api.GroupList) []api.Group { return l.Groups }, func(g api.Group) string { return g.Name })
}

// completeWebhooks offers the names of webhook endpoints.
func completeWebhooks(env environment) cobra.CompletionFunc {
	return completeNames(env, (*client.Client).Webhooks, func(l api.WebhookList) []api.Webhook { return l.Webhooks }, func(w api.Webhook) string { return w.Name })
}

// completeKeys offers the names of keys.
func completeKeys(env environment) cobra.CompletionFunc {
	return completeNames(env, (*client.Client).Keys, func(l api.KeyList) []api.Key { return l.Keys }, func(k api.Key) string { return k.Name })
}

// completeNames offers the names of everything that a call returns.
func completeNames[L, T any](env environment, ask func(*client.Client, context.Context) (L, error), items func(L) []T, name func(T) string) cobra.CompletionFunc {
	return completing(env, func(ctx context.Context, calls *client.Client, _ string) ([]string, error) {
		all, err := ask(calls, ctx)
		var names []string
		for _, item := range items(all) {
			names = append(names, name(item))
		}
		return names, err
	})
}

// completeLabels offers the labels of the first accounts, each as NAME=VALUE.
func completeLabels(env environment) cobra.CompletionFunc {
	return completing(env, func(ctx context.Context, calls *client.Client, _ string) ([]string, error) {
		page, err := calls.List(ctx, client.Query{Limit: accounts.MaxListLimit})
		var labels []string
		for _, account := range page.Accounts {
			for name, value := range account.Labels {
				labels = append(labels, name+"="+value)
			}
		}
		slices.Sort(labels)
		return slices.Compact(labels), err
	})
}

// completing offers the words that the API knows, that begin with the typed text, and that were not
// given yet.
func completing(env environment, ask func(ctx context.Context, calls *client.Client, begun string) ([]string, error)) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		access, _, err := readAs(env, cmd, settings.ReadAccess)
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
		words, err := ask(ctx, calls, begun)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var offered []cobra.Completion
		for _, word := range words {
			if strings.HasPrefix(word, begun) && !slices.Contains(args, word) {
				offered = append(offered, word)
			}
		}
		return offered, cobra.ShellCompDirectiveNoFileComp
	}
}

// completeKinds offers the kinds that the program knows, including kinds of its own.
func completeKinds(env environment) cobra.CompletionFunc {
	return func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
		checkers, err := service.NewCheckers(settings.Poller{}, serviceOptions(env))
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return checkers.Kinds(), cobra.ShellCompDirectiveNoFileComp
	}
}

// completeRecord completes the flags that describe a record.
func completeRecord(env environment, cmd *cobra.Command) {
	complete(cmd, "kind", completeKinds(env))
	complete(cmd, "label", completeLabels(env))
	offer(cmd, "on-unknown", accounts.OnUnknownHold, accounts.OnUnknownRetry)
	offer(cmd, "priority", accounts.PriorityUrgent, accounts.PriorityNormal, accounts.PriorityLow)
}

// completeList offers the words that are not yet in a comma-separated list.
func completeList(words []string) cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		before := begun[:strings.LastIndex(begun, ",")+1]
		var offered []cobra.Completion
		for _, word := range words {
			if !slices.Contains(strings.Split(before, ","), word) {
				offered = append(offered, before+word)
			}
		}
		return offered, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
}

// offer completes the values of a flag with few values.
func offer(cmd *cobra.Command, flag string, words ...string) {
	complete(cmd, flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
}

func complete(cmd *cobra.Command, flag string, words cobra.CompletionFunc) {
	if err := cmd.RegisterFlagCompletionFunc(flag, words); err != nil {
		panic(err) // the command has no such flag, or it is completed twice
	}
}
