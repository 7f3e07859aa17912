package command

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/cmd/rounds/api"
	"github.com/rounds-dev/rounds/cmd/rounds/client"
)

// errLawBroken is what an audit returns if something is still wrong.
var errLawBroken = errors.New("the conservation law does not hold: --repair repairs what it can")

func newAuditCommand(env environment) *cobra.Command {
	repair, jsonOutput := false, false
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Check that every account is in exactly one place",
		Long: `Check the conservation law: every registered account is in exactly one place,
scheduled, waiting, claimed or parked. The service may run meanwhile: accounts on
the move are not reported, and nothing is held up.

  lost       registered, or there is a record, and in no place.
             Repaired: due at once, or registered again from its record
  doubled    in several places at once. Repaired: in one of them
  orphan     scheduled or parked and not registered. Repaired: set aside
  no_record  registered without a record. Repaired: parked, until somebody
             registers it again or deletes it
  garbage    a text in a list that is not an entry; the next claim sets it aside
  beyond     scheduled later than it can be due, for example because Redis' clock was wrong.
             Repaired: due at its next time
  unowned    the memory of an account that is not registered. Repaired: forgotten
  misplaced  a send that is not where its state demands, or whose account is gone.
             Repaired: put in its place, or forgotten

The exit code is 1 if anything but garbage was found and not repaired. Accounts that could not be judged, because the lists
changed too fast to be read, are counted but are not a failure: run it again.`,
		Example: `  rounds audit
  rounds audit --repair
  rounds audit --json | jq -r '.findings[] | [.kind, .id] | @tsv'`,
		Args: cobra.NoArgs,
		RunE: withClient(env, func(cmd *cobra.Command, _ []string, calls *client.Client) error {
			bar := newProgress(env, "accounts audited")
			done, err := auditAll(cmd, calls, repair, bar)
			bar.done()
			if err != nil {
				if done.Audited > 0 {
					err = fmt.Errorf("%d of %d shards were audited, with %s, before this: %w", done.Audited, done.Shards, countsOf(done.Kinds), err)
				}
				return err
			}
			if err := printAudit(env.stdout, done, jsonOutput); err != nil {
				return err
			}
			if broken(done.Kinds) {
				return errLawBroken
			}
			return nil
		}),
	}
	cmd.Flags().BoolVar(&repair, "repair", false, "repair the findings")
	cmd.Flags().BoolVar(&jsonOutput, "json", false, "print the outcome as JSON")
	return cmd
}

// auditAll repeats the call until the audit is complete, and adds up what it found.
func auditAll(cmd *cobra.Command, calls *client.Client, repair bool, bar *progress) (api.Audit, error) {
	sum := api.Audit{Kinds: []api.FindingCount{}, Findings: []circulate.Finding{}}
	for {
		done, err := calls.Audit(cmd.Context(), repair, sum.Next)
		if err != nil {
			return sum, err
		}
		sum.Accounts += done.Accounts
		sum.Unjudged += done.Unjudged
		sum.Audited, sum.Shards, sum.Next = done.Audited, done.Shards, done.Next
		for _, c := range done.Kinds {
			i := slices.IndexFunc(sum.Kinds, func(k api.FindingCount) bool { return k.Kind == c.Kind })
			if i < 0 {
				i, sum.Kinds = len(sum.Kinds), append(sum.Kinds, api.FindingCount{Kind: c.Kind})
			}
			sum.Kinds[i].Found += c.Found
			sum.Kinds[i].Repaired += c.Repaired
		}
		room := accounts.MaxFindings - len(sum.Findings)
		sum.Findings = append(sum.Findings, done.Findings[:min(room, len(done.Findings))]...)
		bar.add(done.Accounts)
		if sum.Next == "" {
			return sum, nil
		}
	}
}

// broken reports whether something is still wrong. Garbage is not an account: if it was one, that
// account is found as lost.
func broken(kinds []api.FindingCount) bool {
	return slices.ContainsFunc(kinds, func(c api.FindingCount) bool { return c.Kind != circulate.Garbage && c.Repaired < c.Found })
}

func printAudit(w io.Writer, a api.Audit, jsonOutput bool) error {
	if jsonOutput {
		return printJSON(w, a)
	}
	if len(a.Findings) > 0 {
		err := printTable(w, "FINDING\tSHARD\tREPAIRED\tID", a.Findings, func(f circulate.Finding) string {
			return fmt.Sprintf("%s\t%d\t%s\t%s", oneLine(string(f.Kind)), f.Shard, yesOrNo(f.Repaired), oneLine(f.ID))
		})
		if err != nil {
			return err
		}
		if n := totalOf(a.Kinds) - len(a.Findings); n > 0 {
			fmt.Fprintf(w, "and %d more\n", n)
		}
	}
	unjudged := ""
	if a.Unjudged > 0 {
		unjudged = fmt.Sprintf("; %d could not be judged, because the lists changed too fast", a.Unjudged)
	}
	_, err := fmt.Fprintf(w, "%d accounts in %d shards: %s%s\n", a.Accounts, a.Shards, countsOf(a.Kinds), unjudged)
	return err
}

func yesOrNo(yes bool) string {
	if yes {
		return "yes"
	}
	return "no"
}

func totalOf(kinds []api.FindingCount) (n int) {
	for _, c := range kinds {
		n += c.Found
	}
	return n
}

// countsOf returns what was found, in one line.
func countsOf(kinds []api.FindingCount) string {
	text := joined(kinds, func(c api.FindingCount) string {
		text := fmt.Sprintf("%d %s", c.Found, oneLine(string(c.Kind)))
		if c.Repaired > 0 {
			text += fmt.Sprintf(" (%d repaired)", c.Repaired)
		}
		return text
	})
	return cmp.Or(text, "nothing found, every account is in one place")
}
