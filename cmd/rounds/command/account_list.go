package command

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/accounts/cadence"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/cmd/rounds/api"
	"github.com/rounds-dev/rounds/cmd/rounds/client"
)

func newGetCommand(env environment) *cobra.Command {
	return showing(env, &cobra.Command{
		Use:               "get ID",
		Aliases:           []string{"show"},
		Short:             "Show an account and where it is",
		Example:           `  rounds account get news`,
		Args:              exactly(1),
		ValidArgsFunction: completeIDs(env),
	}, "print it as JSON", func(ctx context.Context, calls *client.Client, args []string) (api.Account, error) {
		account, err := calls.Get(ctx, args[0])
		return account, ofAccount(args[0], err)
	}, func(a api.Account) error { return printAccount(env.stdout, a) })
}

// facts are names and values, one a line.
type facts struct{ *tabwriter.Writer }

// add adds a fact, unless its value is empty.
func (f facts) add(name, value string) {
	if value != "" {
		fmt.Fprintf(f, "%s\t%s\n", name, oneLine(value))
	}
}

// addTime adds a time, unless it is zero.
func (f facts) addTime(name string, at time.Time) {
	if !at.IsZero() {
		f.add(name, clockTime(at))
	}
}

func printAccount(w io.Writer, v api.Account) error {
	table := facts{newTable(w)}
	table.add("id", v.ID)
	table.add("kind", v.Kind)
	table.add("cadence", cadenceOf(v))
	table.add("priority", cmp.Or(v.Priority, accounts.PriorityNormal))
	table.add("state", stateOf(v.State))
	if v.State.Failures > 0 {
		table.add("failures", fmt.Sprintf("%d in a row", v.State.Failures))
	}
	if v.State.Strikes > 0 {
		table.add("strikes", fmt.Sprint(v.State.Strikes))
	}
	if last := lastSuccess(v.State); last != "-" {
		table.add("last success", last)
	}
	table.add("last error", oneLine(v.State.LastError))
	table.add("warning", oneLine(v.State.Warning))
	if v.Revision > 0 {
		table.add("revision", fmt.Sprint(v.Revision))
	}
	table.addTime("created", v.Created)
	table.addTime("updated", v.Updated)
	table.add("fault", oneLine(v.Fault))
	for _, name := range slices.Sorted(maps.Keys(v.Labels)) {
		table.add("label", name+"="+v.Labels[name])
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
		text += ": " + oneLine(accounts.ReasonText(s.Reason))
	}
	return text
}

func clockTime(t time.Time) string { return t.Local().Format(time.DateTime) }

func newListCommand(env environment) *cobra.Command {
	var query client.Query
	var chosen selectorFlags
	limit, order, view, jsonOutput := 0, "id", "", false
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List accounts and where they are",
		Long: `List accounts and where they are, sorted by id. --limit lists the first accounts
that are found. With --sort as well, it lists the first ones in that order, which
means that all accounts are read. More than 100,000 accounts are sorted 100,000 at a time.`,
		Example: `  rounds account list
  rounds account list --state parked
  rounds account list --state failing --error http_404 --host news.example
  rounds account list --state never_succeeded
  rounds account list --state late --sort success
  rounds account list --part acme
  rounds account list --error cursor_stuck
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
			if view != "" {
				if !query.Empty() {
					return misuse("--view: nothing else can select accounts beside it")
				}
				if query.Selector, err = selectorOfView(cmd.Context(), calls, view); err != nil {
					return err
				}
			}
			rows := accountRows{env: env, json: jsonOutput, key: orders()[order], bar: newProgress(env, "accounts looked at")}
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
				rows.bar.add(max(page.Looked, len(page.Accounts)))
				query.Cursor = page.Next
				if query.Cursor == "" || found > 0 && listed >= found {
					if listed == 0 {
						if err := unknownKind(cmd.Context(), calls, query.Kinds); err != nil {
							return err
						}
					}
					return rows.end(listed, !query.Empty())
				}
			}
		}),
	}
	chosen.declare(env, cmd)
	cmd.Flags().StringVar(&view, "view", "", "the accounts of this saved `VIEW`; see rounds views")
	cmd.Flags().IntVar(&limit, "limit", 0, "at most this many; 0: all")
	cmd.Flags().StringVar(&order, "sort", order, "the `ORDER`: id, kind, failures (most first), success (the longest without one first), due (soonest first) or error")
	offer(cmd, "sort", orderWords()...)
	cmd.Flags().BoolVar(&jsonOutput, "json", false, "print them as JSON, one a line")
	return cmd
}

// lastSuccess returns when a check last succeeded completely, or says that no check ever did.
func lastSuccess(s api.State) string {
	switch {
	case !s.LastSuccess.IsZero():
		return clockTime(s.LastSuccess)
	case s.NeverSucceeded:
		return "never"
	}
	return "-"
}

// sortedRows is how many accounts are sorted at a time before they are printed.
const sortedRows = 100_000

// orders are the orders in which accounts can be sorted. Each returns the text to
// compare. The id decides among equals.
func orders() map[string]func(a *api.Account) string {
	number := func(n int64) string { return fmt.Sprintf("%020d", max(0, n)) }
	return map[string]func(a *api.Account) string{
		"id":       func(*api.Account) string { return "" },
		"kind":     func(a *api.Account) string { return a.Kind },
		"failures": func(a *api.Account) string { return number(math.MaxInt32 - int64(a.State.Failures)) },
		"success": func(a *api.Account) string {
			switch s := a.State; {
			case s.NeverSucceeded:
				return number(0)
			case s.LastSuccess.IsZero(): // not checked yet
				return number(math.MaxInt64)
			default:
				return number(s.LastSuccess.Unix())
			}
		},
		"due": func(a *api.Account) string {
			switch a.State.Place {
			case circulate.Scheduled:
				return number(a.State.Due.UnixMilli())
			case circulate.Parked:
				return number(math.MaxInt64)
			}
			return number(0) // the account is waiting or claimed
		},
		"error": func(a *api.Account) string {
			if a.State.LastError == "" {
				return "\xff" // after all texts
			}
			return a.State.LastError
		},
	}
}

func orderWords() []string { return slices.Sorted(maps.Keys(orders())) }

// accountRows are accounts to be printed in an order.
type accountRows struct {
	env  environment
	json bool
	key  func(a *api.Account) string
	most int       // wanted, the first in the order; 0: all
	bar  *progress // shows the progress until the rows are printed

	rows    []accountRow
	printed bool
}

// cadenceOf returns an account's cadence, even if its record names none.
func cadenceOf(a api.Account) string {
	if a.Cadence == "" && a.Kind != "" { // otherwise the record cannot be read
		return cadence.Default + " (default)"
	}
	return a.Cadence
}

type accountRow struct{ key, id, text string }

func (l *accountRows) add(a api.Account) error {
	var text bytes.Buffer
	if l.json {
		if err := printJSON(&text, a); err != nil {
			return err
		}
	} else {
		if strings.Contains(a.State.Reason, a.State.LastError) && a.State.LastError != "" {
			a.State.Reason = "" // the next column has it
		}
		last := a.State.LastError
		if last == "" && a.State.Warning != "" {
			last = "warning: " + a.State.Warning
		}
		fmt.Fprintf(&text, "%s\t%s\t%s\t%s\t%d\t%s\t%s\t%s\n", oneLine(a.ID), oneLine(a.Kind), oneLine(cadenceOf(a)), oneLine(cmp.Or(a.Priority, accounts.PriorityNormal)),
			a.State.Failures, lastSuccess(a.State), oneLine(stateOf(a.State)), cmp.Or(oneLine(last), "-"))
	}
	l.rows = append(l.rows, accountRow{l.key(&a), a.ID, text.String()})
	switch {
	case l.most > 0:
		if len(l.rows) >= 2*l.most+pageSize {
			l.sort()
		}
	case len(l.rows) >= sortedRows:
		return l.flush()
	}
	return nil
}

// sort sorts the rows, and drops those beyond the limit.
func (l *accountRows) sort() {
	slices.SortFunc(l.rows, func(a, b accountRow) int {
		return cmp.Or(strings.Compare(a.key, b.key), strings.Compare(a.id, b.id))
	})
	if l.most > 0 && len(l.rows) > l.most {
		clear(l.rows[l.most:]) // frees their texts
		l.rows = l.rows[:l.most]
	}
}

// flush prints the rows.
func (l *accountRows) flush() error {
	if len(l.rows) == 0 {
		return nil
	}
	l.bar.clear()
	l.sort()
	var out io.Writer = l.env.stdout
	table := newTable(l.env.stdout)
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

// end prints the rest, or says that there are none.
func (l *accountRows) end(listed int, chosen bool) error {
	l.bar.clear()
	if listed == 0 && !l.json {
		text := "no accounts"
		if chosen {
			text = "no accounts match the flags"
		}
		_, err := fmt.Fprintln(l.env.stdout, text)
		return err
	}
	return l.flush()
}
