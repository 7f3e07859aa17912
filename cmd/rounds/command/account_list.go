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
	"github.com/rounds-dev/rounds/accounts/api"
	"github.com/rounds-dev/rounds/cmd/rounds/client"
)

// pageSize is how many accounts a listing asks for at once.
const pageSize = 100

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
			fmt.Fprintf(table, "%s\t%s\n", name, value)
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

// stateOf says where an account is, and what goes with that.
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
	limit, jsonOutput := 0, false
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List accounts and where they are",
		Long: `List accounts and where they are, sorted by id. With --limit those are listed that
are found first. More than 100,000 are sorted 100,000 at a time.`,
		Example: `  rounds account list
  rounds account list --state parked
  rounds account list --state failing --error http_404 --host news.example
  rounds account list --state never_succeeded
  rounds account list --label team=news --prefix customer-
  rounds account list --kind feed --json | jq -r .id`,
		Aliases: []string{"ls"},
		Args:    cobra.NoArgs,
		RunE: withClient(env, func(cmd *cobra.Command, _ []string, calls *client.Client) error {
			var err error
			if query.Selector, err = chosen.read(); err != nil {
				return err
			}
			rows := accountRows{env: env, json: jsonOutput}
			for listed := 0; ; {
				query.Limit = pageSize
				if limit > 0 {
					query.Limit = min(pageSize, limit-listed)
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
				query.Cursor = page.Next
				if query.Cursor == "" || limit > 0 && listed >= limit {
					return rows.end(listed, !query.Empty())
				}
			}
		}),
	}
	chosen.declare(env, cmd)
	cmd.Flags().IntVar(&limit, "limit", 0, "at most this many; 0: all")
	cmd.Flags().BoolVar(&jsonOutput, "json", false, "print them as JSON, one a line")
	return cmd
}

// sortedRows is how many accounts are kept until they are printed, to be sorted.
const sortedRows = 100_000

// accountRows are accounts to be printed in the order of their ids.
type accountRows struct {
	env  environment
	json bool

	rows    []accountRow
	printed bool
}

type accountRow struct{ id, text string }

func (l *accountRows) add(a api.Account) error {
	var text bytes.Buffer
	if l.json {
		if err := printJSON(&text, a); err != nil {
			return err
		}
	} else {
		fmt.Fprintf(&text, "%s\t%s\t%s\t%s\t%d\t%s\t%s\t%s\n", a.ID, a.Kind, a.Cadence, cmp.Or(a.Priority, accounts.PriorityNormal),
			a.State.Failures, lastSuccess(a.State), stateOf(a.State), cmp.Or(oneLine(a.State.LastError), "-"))
	}
	l.rows = append(l.rows, accountRow{a.ID, text.String()})
	if len(l.rows) < sortedRows {
		return nil
	}
	return l.flush()
}

// flush prints what there is.
func (l *accountRows) flush() error {
	if len(l.rows) == 0 {
		return nil
	}
	slices.SortFunc(l.rows, func(a, b accountRow) int { return strings.Compare(a.id, b.id) })
	var out io.Writer = l.env.stdout
	table := tabwriter.NewWriter(l.env.stdout, 0, 0, 2, ' ', 0)
	if !l.json {
		out = table
		if !l.printed {
			fmt.Fprintln(table, "ID\tKIND\tCADENCE\tPRIORITY\tFAILURES\tLAST SUCCESS\tSTATE\tLAST ERROR")
		}
	}
	l.printed = true
	for _, row := range l.rows {
		if _, err := io.WriteString(out, row.text); err != nil {
			return err
		}
	}
	l.rows = l.rows[:0]
	return table.Flush()
}

// end prints the rest, or says that there is none.
func (l *accountRows) end(listed int, chosen bool) error {
	if listed == 0 && !l.json {
		text := "no accounts"
		if chosen {
			text = "no accounts fit the flags"
		}
		_, err := fmt.Fprintln(l.env.stdout, text)
		return err
	}
	return l.flush()
}

// lastSuccess is when a check last succeeded completely, in words where it never did.
func lastSuccess(s api.State) string {
	switch {
	case !s.LastSuccess.IsZero():
		return clockTime(s.LastSuccess)
	case s.NeverSucceeded:
		return "never"
	}
	return "-"
}

// printJSON prints a value on one line.
func printJSON(w io.Writer, value any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(value)
}
