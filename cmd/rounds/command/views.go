package command

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/accounts/savedview"
	"github.com/rounds-dev/rounds/cmd/rounds/api"
	"github.com/rounds-dev/rounds/cmd/rounds/client"
)

// newViewsCommand makes the command for queries that a team has named.
func newViewsCommand(env environment) *cobra.Command {
	return holding(&cobra.Command{
		Use:   "views",
		Short: "Save queries of accounts and messages under names, for everybody",
		Example: `  rounds views save "press fails" --where state=failing --where label=team=press
  rounds views list
  rounds account list --view "press fails"
  rounds views rm "press fails"`,
	}, newViewsSave(env), newViewsList(env), newViewsRemove(env))
}

func newViewsSave(env environment) *cobra.Command {
	asked, where := api.SavedViewRequest{Of: savedview.OfAccounts}, []string{}
	cmd := &cobra.Command{
		Use:   "save NAME --where NAME=VALUE",
		Short: "Save a view, or change it",
		Long: `Save a view, or change the one of this name. The dashboard shows it above the list of
accounts, or of messages, to everybody who may see all accounts. A view stays until somebody
removes it.`,
		Example: `  rounds views save "press fails" --where state=failing --where label=team=press
  rounds views save refunds --of messages --where text=refund`,
		Args: exactly(1),
	}
	cmd.RunE = withClient(env, func(cmd *cobra.Command, args []string, calls *client.Client) error {
		asked.Query = make(map[string][]string)
		for _, pair := range where {
			name, value, ok := strings.Cut(pair, "=")
			if known := savedview.Parameters(asked.Of); !ok || len(known) > 0 && !slices.Contains(known, name) {
				return misuse(fmt.Sprintf("--where %q must be NAME=VALUE, with a NAME of %s", pair, strings.Join(known, ", ")))
			}
			asked.Query[name] = append(asked.Query[name], value)
		}
		v, err := calls.PutView(cmd.Context(), args[0], asked)
		if err != nil {
			return err
		}
		fmt.Fprintln(env.stdout, env.says("saved %s: %s", oneLine(v.Name), oneLine(pairsOf(v.Query))))
		return nil
	})
	cmd.Flags().StringVar(&asked.Of, "of", asked.Of, "the `LIST` that the view is of: "+strings.Join(savedview.Lists(), " or "))
	offer(cmd, "of", savedview.Lists()...)
	cmd.Flags().StringArrayVar(&where, "where", nil, "what is in the view, `NAME=VALUE` such as state=failing; may be repeated")
	if err := cmd.MarkFlagRequired("where"); err != nil {
		panic(err) // the command has no such flag
	}
	return cmd
}

// pairsOf returns a query as flags have it.
func pairsOf(query map[string][]string) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(query)) {
		for _, value := range query[name] {
			all = append(all, name+"="+value)
		}
	}
	return strings.Join(all, " ")
}

func newViewsList(env environment) *cobra.Command {
	return listingCommand(env, &cobra.Command{
		Use:     "list",
		Short:   "List saved views",
		Aliases: []string{"ls"},
		Example: `  rounds views list
  rounds views list --json | jq -r .name`,
	}, list[api.SavedView]{
		header: "NAME\tOF\tWHERE\tSAVED\tBY", none: "no saved views",
		row: func(v api.SavedView) string {
			return strings.Join([]string{oneLine(v.Name), oneLine(v.Of), oneLine(pairsOf(v.Query)), clockTime(v.At), oneLine(cmp.Or(v.By, "-"))}, "\t")
		},
		page: whole((*client.Client).Views, func(l api.SavedViewList) []api.SavedView { return l.Views }),
	})
}

func newViewsRemove(env environment) *cobra.Command {
	return &cobra.Command{
		Use:     "rm NAME…",
		Short:   "Remove saved views",
		Long:    `Remove saved views. No account and no message is touched.`,
		Example: `  rounds views rm "press fails"`,
		Aliases: []string{"remove"},
		Args:    atLeast(1),
		RunE: withClient(env, func(cmd *cobra.Command, args []string, calls *client.Client) error {
			for _, name := range args {
				if err := calls.RemoveView(cmd.Context(), name); err != nil {
					return fmt.Errorf("%s: %w", name, err)
				}
				fmt.Fprintln(env.stdout, env.says("removed %s", oneLine(name)))
			}
			return nil
		}),
	}
}

// selectorOfView returns what a saved view of accounts selects.
func selectorOfView(ctx context.Context, calls *client.Client, name string) (accounts.Selector, error) {
	all, err := calls.Views(ctx)
	if err != nil {
		return accounts.Selector{}, err
	}
	i := slices.IndexFunc(all.Views, func(v api.SavedView) bool { return v.Name == name && v.Of == savedview.OfAccounts })
	if i < 0 {
		return accounts.Selector{}, fmt.Errorf("--view %q: no saved view of accounts has this name; rounds views list lists them", name)
	}
	return accounts.ParseSelector(all.Views[i].Query)
}
