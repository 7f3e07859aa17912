package command

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/cmd/rounds/api"
)

// sortedRows is how many accounts are sorted at a time before they are printed.
const sortedRows = 100_000

// orders are what accounts can be sorted by: each returns the text to compare. The id
// decides among equals.
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
			return number(0) // it is waiting or claimed
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
	bar  *progress // until they are printed, it shows the progress

	rows    []accountRow
	printed bool
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
			a.State.Reason = "" // the same, in the next column
		}
		fmt.Fprintf(&text, "%s\t%s\t%s\t%s\t%d\t%s\t%s\t%s\n", oneLine(a.ID), oneLine(a.Kind), oneLine(a.Cadence), oneLine(cmp.Or(a.Priority, accounts.PriorityNormal)),
			a.State.Failures, lastSuccess(a.State), oneLine(stateOf(a.State)), cmp.Or(oneLine(a.State.LastError), "-"))
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

// sort sorts them, and drops those that are not wanted.
func (l *accountRows) sort() {
	slices.SortFunc(l.rows, func(a, b accountRow) int {
		return cmp.Or(strings.Compare(a.key, b.key), strings.Compare(a.id, b.id))
	})
	if l.most > 0 && len(l.rows) > l.most {
		clear(l.rows[l.most:]) // so that their texts are freed
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
