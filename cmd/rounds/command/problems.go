package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rounds-dev/rounds/accounts/problem"
	"github.com/rounds-dev/rounds/cmd/rounds/api"
	"github.com/rounds-dev/rounds/cmd/rounds/client"
)

// newProblemsCommand makes the command that shows what is checked in vain.
func newProblemsCommand(env environment) *cobra.Command {
	var query client.ProblemsQuery
	limit := 20
	cmd := showing(env, &cobra.Command{
		Use:   "problems",
		Short: "Show failing and parked accounts, grouped by what went wrong",
		Long: `Show the accounts that fail, and those that are parked for a failure, grouped by kind,
by the host or corporation at which they are checked, and by what went wrong. Failures
that differ only in numbers, ids, times, quoted words, addresses or the host are the same.

The monitor on duty sums them up every 45 seconds, and the answer is its last summary, with
its time. An account that began to fail after that is in the next one.
Groups that began to fail within the last hour come first, then the largest groups. The
flags --cause, --host and --kind list a group's accounts with account list, and change
them with account pause and parked revive.`,
		Example: `  rounds problems
  rounds problems --state newly
  rounds problems --host news.example.org --json | jq .groups
  rounds account list --cause http_404~1b2c3d4e --host news.example.org
  rounds parked revive --cause auth~5e6f7a8b --kind imap --rate 10/s`,
		Args: cobra.NoArgs,
	}, "print it as JSON", func(ctx context.Context, calls *client.Client, _ []string) (api.Problems, error) {
		if limit < 0 {
			return api.Problems{}, errors.New("--limit must not be negative")
		}
		return calls.Problems(ctx, query)
	}, func(found api.Problems) error { return printProblems(env.stdout, &found, limit) })
	flags := cmd.Flags()
	flags.StringArrayVar(&query.States, "state", nil, "only groups with accounts in this `STATE`: failing, newly, never_succeeded or parked; repeat the flag for several")
	flags.StringArrayVar(&query.Kinds, "kind", nil, "only groups of this `KIND`; repeat the flag for several")
	flags.StringArrayVar(&query.Hosts, "host", nil, "only groups of this `HOST` or corporation; repeat the flag for several")
	flags.StringArrayVar(&query.Causes, "cause", nil, "only groups of this `CAUSE`, or of this code such as http_404; repeat the flag for several")
	flags.IntVar(&limit, "limit", limit, "at most this many groups; 0: all")
	offer(cmd, "state", "failing", "newly", "never_succeeded", "parked")
	return cmd
}

func printProblems(w io.Writer, p *api.Problems, limit int) error {
	if p.At.IsZero() {
		_, err := fmt.Fprintln(w, "No monitor has looked at the accounts yet.")
		return err
	}
	late := "" // they are of a scan, which takes longer
	if at := p.Late.At; !at.IsZero() && clockTime(at) != clockTime(p.At) {
		late = ", late as of " + clockTime(at)
	}
	if p.Late.Moving {
		late += "; the number of shards was changing, so some of the late ones may be counted twice"
	}
	fmt.Fprintf(w, "%d failing, %d of them newly, %d parked, %d never succeeded, %d late; as of %s%s\n",
		p.Failing, p.Newly, p.Parked, p.NeverSucceeded, p.Late.Accounts, clockTime(p.At), late)
	if age := p.Now.Sub(p.At); age > 2*time.Minute {
		fmt.Fprintf(w, "This is %s old: no monitor seems to be at work.\n", age.Round(time.Second))
	}
	if p.LeftOut > 0 {
		fmt.Fprintf(w, "About %d more were not looked at: there are too many.\n", p.LeftOut)
	}
	shown := p.Groups
	if limit > 0 {
		shown = shown[:min(limit, len(shown))]
	}
	var err error
	if len(shown) > 0 {
		err = printTable(w, "ACCOUNTS\tNEWLY\tPARKED\tKIND\tWHERE\tSINCE\tCAUSE\tWHAT WENT WRONG\tWHAT WILL HAPPEN\tFOR EXAMPLE", shown, func(g problem.FailingGroup) string {
			return fmt.Sprintf("%d\t%d\t%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s", g.Accounts, g.Newly, g.Parked,
				cmp.Or(oneLine(g.Kind), "(unreadable)"), whereOf(&g), clockTime(g.Oldest), oneLine(g.Cause), oneLine(g.Text), nextOf(g.Next, p.Now), oneLine(strings.Join(g.Examples, " ")))
		})
	}
	if rest := p.Other.Groups + len(p.Groups) - len(shown); rest > 0 {
		accounts := p.Other.Accounts
		for _, g := range p.Groups[len(shown):] {
			accounts += g.Accounts
		}
		have := "groups have"
		if rest == 1 {
			have = "group has"
		}
		_, err = fmt.Fprintf(w, "%d more %s %s.\n", rest, have, numberOf(accounts, "account"))
	}
	return err
}

func whereOf(g *problem.FailingGroup) string {
	switch {
	case g.Host != "":
		return oneLine(g.Host)
	case g.Hosts > 0:
		return fmt.Sprintf("%d hosts", g.Hosts)
	}
	return "-"
}

// nextOf says what happens next without anybody's doing.
func nextOf(steps []problem.NextStep, now time.Time) string {
	var words []string
	for _, s := range steps {
		at := ""
		switch {
		case s.First.IsZero():
		case s.First.After(now):
			at = " at " + clockTime(s.First)
		default:
			at = " now"
		}
		switch s.Code {
		case problem.StepChecked:
			words = append(words, "checked again"+at)
		case problem.StepBacksOff:
			words = append(words, fmt.Sprintf("backs off, up to %v", time.Duration(s.Most)*time.Second))
		case problem.StepWaits:
			text := "waits"
			if !s.Last.IsZero() {
				text = "waits until " + clockTime(s.Last)
			}
			words = append(words, text)
		case problem.StepParks:
			if s.Over > 0 {
				words = append(words, fmt.Sprintf("parks after %d refusals over at least %v", s.After, time.Duration(s.Over)*time.Second))
				continue
			}
			current := fmt.Sprint(s.Least)
			if s.Worst > s.Least {
				current = fmt.Sprintf("%d to %d", s.Least, s.Worst)
			}
			words = append(words, fmt.Sprintf("parks after %d in a row, at %s now", s.After, current))
		case problem.StepProbed:
			words = append(words, "parked, tried again"+at)
		case problem.StepStays:
			words = append(words, "parked until resumed")
		default:
			words = append(words, oneLine(s.Code))
		}
	}
	return strings.Join(words, "; ")
}
