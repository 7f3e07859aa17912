package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rounds-dev/rounds/cmd/rounds/api"
	"github.com/rounds-dev/rounds/cmd/rounds/client"
	"github.com/rounds-dev/rounds/cmd/rounds/trail"
)

// newTrailCommand makes the command that shows who changed what.
func newTrailCommand(env environment) *cobra.Command {
	var query client.TrailQuery
	limit := 50
	cmd := listingCommand(env, &cobra.Command{
		Use:   "trail",
		Short: "Show who changed what, the latest first",
		Long: `Show the orders to the API, the latest first: when, by whom, from which address, about
what, and with which outcome:

  done     it was carried out
  refused  the caller may not do it, or asked for it wrongly: nothing was done
  failed   it could not be carried out, or not to its end
  unknown  it was cut off, and may have been done

A change of many accounts, or an import, is one line with its selector and counts. A
change of a record names the fields; "rounds account versions" has their values.
ROUNDS_TRAIL_KEPT says how many entries Redis stores; the log has them all.`,
		Example: `  rounds trail
  rounds trail --account news --since 24h
  rounds trail --by press --limit 0 --json | jq -r .action | sort | uniq -c`,
		PreRunE: func(*cobra.Command, []string) error {
			if query.Since < 0 {
				return errors.New("--since must be more than 0")
			}
			if limit < 0 {
				return errors.New("--limit must not be negative")
			}
			return nil
		},
	}, list[api.TrailEntry]{
		header: "TIME\tBY\tFROM\tACTION\tOUTCOME\tABOUT", row: trailRow, limit: &limit,
		page: func(ctx context.Context, calls *client.Client, cursor string, most int) ([]api.TrailEntry, string, error) {
			query.Cursor, query.Limit = cursor, most
			page, err := calls.Trail(ctx, query)
			return page.Entries, page.Next, err
		},
	})
	flags := cmd.Flags()
	flags.StringVar(&query.Account, "account", "", "only entries that name this account, by its `ID`")
	flags.StringVar(&query.By, "by", "", "only orders of this key or person, by `NAME`; token and local are names too")
	flags.DurationVar(&query.Since, "since", 0, "only entries that are at most this old")
	complete(cmd, "account", completeIDs(env))
	return cmd
}

func trailRow(e api.TrailEntry) string {
	by := cmp.Or(oneLine(e.By), "("+oneLine(e.Via)+")")
	return strings.Join([]string{clockTime(e.Time), by, oneLine(e.Address), oneLine(e.Action), outcomeOf(&e), oneLine(trailSubject(&e))}, "\t")
}

func outcomeOf(e *api.TrailEntry) string {
	if e.Outcome != trail.Done && e.Status >= 400 {
		return fmt.Sprintf("%s (%d)", e.Outcome, e.Status)
	}
	return string(e.Outcome)
}

// trailSubject says in a few words what an entry is about and what was changed.
func trailSubject(e *api.TrailEntry) string {
	var words []string
	for _, word := range []string{e.Account, strings.Join(e.Accounts, ","), e.Subject, e.Selector} {
		if word != "" {
			words = append(words, word)
		}
	}
	if len(e.Fields) > 0 {
		words = append(words, "changed "+strings.Join(e.Fields, ","))
	}
	for _, name := range slices.Sorted(maps.Keys(e.Counts)) {
		words = append(words, fmt.Sprintf("%s=%d", name, e.Counts[name]))
	}
	if e.Cut {
		words = append(words, "…")
	}
	return strings.Join(words, " ")
}

// trailLine returns an entry as one line, without its account.
func trailLine(e api.TrailEntry) string {
	e.Account = ""
	if len(e.Accounts) == 1 {
		e.Accounts = nil
	}
	text := fmt.Sprintf("%s  %s by %s", clockTime(e.Time), e.Action, cmp.Or(e.By, e.Via))
	if e.Outcome != trail.Done {
		text += ": " + outcomeOf(&e)
	}
	if about := trailSubject(&e); about != "" {
		text += "  " + about
	}
	return oneLine(text)
}
