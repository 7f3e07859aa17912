package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// The page lies between these marks in the file that --into names.
const (
	pageBegin = "<!-- chaos -->\n"
	pageEnd   = "<!-- /chaos -->"
)

const shown = 12 // the most violations of one kind that are shown

// marks are labels for what is judged less strictly.
func (r *row) marks() string {
	marks := ""
	if r.MayOverlap {
		marks += " ~"
	}
	if r.MayLose {
		marks += " *"
	}
	return marks
}

// markdown draws the page of a report.
func (r *report) markdown(out io.Writer) error {
	var b strings.Builder
	commit := r.Commit[:min(12, len(r.Commit))]
	if r.Modified {
		commit += " with changes"
	}
	worlds := make(map[topology]int)
	for _, line := range r.Rows {
		worlds[line.World]++
	}
	fmt.Fprintf(&b, "Seed %d at commit %s, %s, %.0f s; %s, %d cores, %s, %s, Redis %s.\n", r.Seed, commit, r.Began.UTC().Format("2006-01-02"),
		r.Length, r.Machine.CPU, r.Machine.Cores, r.Machine.OS, r.Machine.Go, r.Machine.Redis)
	fmt.Fprintf(&b, "%d faults of %d kinds (%d on one server, %d with sentinels, %d on a cluster), %d checks of %d accounts and those that clients came and went with, %d messages;\n",
		r.Injected, len(r.Rows), worlds[onServer], worlds[onSentinel], worlds[onCluster], r.Checks, r.Accounts, r.Messages)
	if s := r.Sends; s != nil {
		fmt.Fprintf(&b, "%d sends asked for, %d taken over, %d arrived; %d unknown, %d rejected; where Redis may lose writes, %d arrived twice and %d were lost;\n",
			s.Asked, s.Taken, s.Arrived, s.Doubts, s.Rejected, s.Doubled, s.Missing)
	}
	fmt.Fprintf(&b, "operations of clients: %d done, %d refused, %d unknown. %s.\n\n", r.Operations[done], r.Operations[refused], r.Operations[unknown], violations(r.failed()))
	b.WriteString("| fault | on | injected | judged by | verdict | lasted | hit | interrupted | longest wait (control) | back after injection | after its end | shows in |\n")
	b.WriteString("|---|---|---|---|---|---|---|---|---|---|---|---|\n")
	for _, line := range slices.Concat(r.Controls, r.Rows) {
		shows, control := "`"+line.Sign+"`", r.control(line.World).Longest
		if line.Sign == "" {
			shows = "-"
		}
		if line.Seen < line.Injected && line.Sign != "" {
			shows += fmt.Sprintf(", %d of %d times", line.Seen, line.Injected)
		}
		fmt.Fprintf(&b, "| %s | %s | %d | %s | %s | %.1f s | %d | %d | %.1f (%.1f) s | %s | %s | %s |\n", line.Fault, line.World, line.Injected,
			line.Invariant+line.marks(), line.Verdict, line.Lasted, line.Hit, line.Interrupted, line.Longest, control,
			line.ifInterrupted(line.AfterInjection), line.ifInterrupted(line.AfterEnd), strings.ReplaceAll(shows, "|", `\|`))
	}
	fmt.Fprintf(&b, `
Of several turns of a fault each figure is the greatest. A control is a turn in which nothing is injected.
An account that a fault hit is interrupted if it waits %v longer than its cadence and its third party's usual delay from one good check to the next; it is back when that next one begins.
Both times are of the last of them: 0.0 s after the end is one that was back before. A check that failed comes again at its next slot, or shortly after a probe of its host succeeded; if only its connector is to blame, 15 to 30 s after a first failure. A later fault may prolong all three: nobody nudges.
The next fault comes when every process is ready, all accounts but those have been checked well again, within %v, and checks come at %.0f %% of the usual rate or more over %v; those must be back within %v.
A metric shows a fault if it moves in every turn of it and in no control; "by N" means by so much at least.

~ A live poller may be cut from its claims: of its checks, %d overlapped others'.
\* Redis itself may lose what it acknowledged shortly before or during it. Judged is that it comes to an earlier state of each shard, consistent: each account in one place, each message in the stream once,
found again under the same account and message id where it was forgotten. %d acknowledged operations fell into such a time and may be undone.
`, overdue, restWithin, 100*fullShare, rateOver, wholeWithin, r.Overlaps, r.Undone)
	for _, line := range slices.Concat(r.Controls, r.Rows) {
		list(&b, line.Fault+" on "+string(line.World), line.Faults)
	}
	list(&b, "at the end", r.Violations)
	_, err := io.WriteString(out, b.String())
	return err
}

func (r *row) ifInterrupted(seconds float64) string {
	if r.Interrupted == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f s", seconds)
}

func violations(n int) string {
	switch n {
	case 0:
		return "No violation"
	case 1:
		return "1 violation"
	}
	return fmt.Sprintf("%d violations", n)
}

func list(out io.Writer, title string, faults []string) {
	if len(faults) == 0 {
		return
	}
	fmt.Fprintf(out, "\n%s:\n\n", title)
	for _, text := range faults[:min(shown, len(faults))] {
		fmt.Fprintln(out, "- "+text)
	}
	if rest := more(len(faults) - shown); rest != "" {
		fmt.Fprintln(out, "-"+rest)
	}
}

// more reports how many are not shown.
func more(n int) string {
	if n <= 0 {
		return ""
	}
	return fmt.Sprintf(" and %d more", n)
}

// save writes the report to a file, as JSON.
func (r *report) save(path string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}

// readReport reads what save wrote.
func readReport(path string) (*report, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var r report
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &r, nil
}

// draw prints the page of a report, or puts it where it belongs in another file.
func draw(path, into string, out io.Writer) error {
	r, err := readReport(path)
	if err != nil {
		return err
	}
	if into == "" {
		return r.markdown(out)
	}
	text, err := os.ReadFile(into)
	if err != nil {
		return err
	}
	before, rest, found := strings.Cut(string(text), pageBegin)
	_, after, ended := strings.Cut(rest, pageEnd)
	if !found || !ended {
		return fmt.Errorf("%s has no place for the page: %q and %q", into, pageBegin, pageEnd)
	}
	var page strings.Builder
	if err := r.markdown(&page); err != nil {
		return err
	}
	return os.WriteFile(into, []byte(before+pageBegin+page.String()+pageEnd+after), 0o644)
}
