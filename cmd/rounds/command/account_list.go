package command

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/cmd/rounds/api"
	"github.com/rounds-dev/rounds/cmd/rounds/client"
)

func newGetCommand(env environment) *cobra.Command {
	jsonOutput := false
	cmd := &cobra.Command{
		Use:               "get ID",
		Aliases:           []string{"show"},
		Short:             "Show an account and where it is",
		Example:           `  rounds account get news`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeIDs(env),
		RunE: withClient(env, func(cmd *cobra.Command, args []string, calls *client.Client) error {
			account, err := calls.Get(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if jsonOutput {
				return printJSON(env.stdout, account)
			}
			return printAccount(env.stdout, account)
		}),
	}
	cmd.Flags().BoolVar(&jsonOutput, "json", false, "print it as JSON")
	return cmd
}

func printAccount(w io.Writer, v api.Account) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(name, value string) {
		if value != "" {
			fmt.Fprintf(table, "%s\t%s\n", name, oneLine(value))
		}
	}
	row("id", v.ID)
	row("kind", v.Kind)
	row("cadence", v.Cadence)
	row("priority", cmp.Or(v.Priority, accounts.PriorityNormal))
	row("state", stateOf(v.State))
	if v.State.Failures > 0 {
		row("failures", fmt.Sprintf("%d in a row", v.State.Failures))
	}
	if v.State.Strikes > 0 {
		row("strikes", fmt.Sprint(v.State.Strikes))
	}
	if last := lastSuccess(v.State); last != "-" {
		row("last success", last)
	}
	row("last error", oneLine(v.State.LastError))
	if v.Revision > 0 {
		row("revision", fmt.Sprint(v.Revision))
	}
	rowTime := func(name string, at time.Time) {
		if !at.IsZero() {
			row(name, clockTime(at))
		}
	}
	rowTime("created", v.Created)
	rowTime("updated", v.Updated)
	row("fault", oneLine(v.Fault))
	for _, name := range slices.Sorted(maps.Keys(v.Labels)) {
		row("label", name+"="+v.Labels[name])
	}
	if len(v.Config) > 0 {
		var indented bytes.Buffer
		if err := json.Indent(&indented, v.Config, "", "  "); err != nil {
			return err
		}
		for i, line := range strings.Split(indented.String(), "\n") {
			name := "config"
			if i > 0 {
				name = ""
			}
			fmt.Fprintf(table, "%s\t%s\n", name, line)
		}
	}
	return table.Flush()
}

// stateOf returns an account's place, with details.
func stateOf(s api.State) string {
	text := string(s.Place)
	switch {
	case !s.Due.IsZero():
		text += ", due " + clockTime(s.Due)
	case !s.Since.IsZero():
		text += " since " + clockTime(s.Since)
	}
	if s.Replica != "" {
		text += " by " + s.Replica
	}
	if s.Reason != "" {
		text += ": " + oneLine(s.Reason)
	}
	return text
}

func clockTime(t time.Time) string { return t.Local().Format(time.DateTime) }

func newListCommand(env environment) *cobra.Command {
	var query client.Query
	var chosen selectorFlags
	limit, order, jsonOutput := 0, "id", false
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List accounts and where they are",
		Long: `List accounts and where they are, sorted by id. --limit lists those that are found
first. With --sort as well, it lists the first ones in that order, for which all
accounts are read. More than 100,000 accounts are sorted 100,000 at a time.`,
		Example: `  rounds account list
  rounds account list --state parked
  rounds account list --state failing --error http_404 --host news.example
  rounds account list --state never_succeeded
  rounds account list --sort success --limit 20
  rounds account list --label team=news --prefix customer-
  rounds account list --kind feed --json | jq -r .id`,
		Aliases: []string{"ls"},
		Args:    cobra.NoArgs,
		RunE: withClient(env, func(cmd *cobra.Command, _ []string, calls *client.Client) error {
			var err error
			if query.Selector, err = chosen.read(); err != nil {
				return err
			}
			rows := accountRows{env: env, json: jsonOutput, key: orders()[order], bar: newProgress(env, "accounts read")}
			defer rows.bar.done()
			if rows.key == nil {
				return fmt.Errorf("--sort: must be one of %s, is %q", strings.Join(orderWords(), ", "), order)
			}
			found := limit // enough; 0: all
			if cmd.Flags().Changed("sort") {
				rows.most, found = limit, 0
			}
			for listed := 0; ; {
				query.Limit = pageSize
				if found > 0 {
					query.Limit = min(pageSize, found-listed)
				}
				page, err := calls.List(cmd.Context(), query)
				if err != nil {
					return err
				}
				for _, account := range page.Accounts {
					if err := rows.add(account); err != nil {
						return err
					}
				}
				listed += len(page.Accounts)
				rows.bar.add(len(page.Accounts))
				query.Cursor = page.Next
				if query.Cursor == "" || found > 0 && listed >= found {
					return rows.end(listed, !query.Empty())
				}
			}
		}),
	}
	chosen.declare(env, cmd)
	cmd.Flags().IntVar(&limit, "limit", 0, "at most this many; 0: all")
	cmd.Flags().StringVar(&order, "sort", order, "the `ORDER`: id, kind, failures (most first), success (those first that have not succeeded for longest), due (soonest first) or error")
	offer(cmd, "sort", orderWords()...)
	cmd.Flags().BoolVar(&jsonOutput, "json", false, "print them as JSON, one a line")
	return cmd
}

// lastSuccess returns when a check last succeeded completely, or says that none ever did.
func lastSuccess(s api.State) string {
	switch {
	case !s.LastSuccess.IsZero():
		return clockTime(s.LastSuccess)
	case s.NeverSucceeded:
		return "never"
	}
	return "-"
}
