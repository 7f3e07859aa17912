package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/accounts/access"
	"github.com/rounds-dev/rounds/accounts/budget"
	"github.com/rounds-dev/rounds/accounts/concern"
	"github.com/rounds-dev/rounds/cmd/rounds/api"
	"github.com/rounds-dev/rounds/cmd/rounds/client"
)

// oldReport is from how long after a replica's report on its figures are shown with their time. It
// reports every two seconds by default.
const oldReport = 5 * time.Second

func newStatsCommand(env environment) *cobra.Command {
	watch, jsonOutput := false, false
	interval := time.Duration(0)
	cmd := &cobra.Command{
		Use:   "stats",
		Short: "Show accounts by place, what fails, lateness, staleness, rates, replicas and processes",
		Long: `Show how the service is doing. Failing accounts are as in rounds problems, and stale ones
are from the last scan of the monitor on duty. Both leave parked accounts out:

  failing          their last check failed, whatever the cause
  newly            failing accounts that began to fail within the last hour: their first
                   slot since a check succeeded completely, or since they were
                   registered, was less than an hour ago
  never succeeded  they were checked, but no check ever succeeded completely
  behind           three slots of their cadence or more have passed since; an interval
                   below a minute counts as a minute

The end says what is wrong now, in sentences.

With --watch it goes on through an outage, and says that there are no figures.

Silent replicas and processes are shown for ten minutes. Settings are compared
between processes of the same roles.`,
		Example: `  rounds stats
  rounds stats --watch
  rounds stats --json | jq .accounts.parked`,
		Args: cobra.NoArgs,
		RunE: withClient(env, func(cmd *cobra.Command, _ []string, calls *client.Client) error {
			if interval <= 0 {
				return errors.New("--interval must be more than 0")
			}
			screen := watch && !jsonOutput && env.terminal(env.stdout)
			var last shownStats
			said := ""
			for seen := false; ; {
				stats, err := statsOf(cmd.Context(), calls)
				switch {
				case err == nil:
					last, seen, said = stats, true, ""
				case !watch || !seen || client.Refused(err) || cmd.Context().Err() != nil:
					return ended(cmd.Context(), err)
				}
				if screen {
					fmt.Fprint(bare(env.stdout), "\x1b[H\x1b[2J")
				}
				if err == nil || screen {
					if err := showStats(env.stdout, last, jsonOutput); err != nil || !watch {
						return err
					}
				}
				switch {
				case err != nil && screen:
					fmt.Fprintln(env.stdout, "\n"+env.says("these figures are of %s, and there are none since: %v; trying again", clockTime(last.Now), err))
				case err != nil && err.Error() != said:
					said = err.Error()
					fmt.Fprintln(env.stderr, env.says("rounds: %s; trying again", said))
				}
				if !pause(cmd.Context(), interval) {
					return nil
				}
			}
		}),
	}
	cmd.Flags().BoolVar(&watch, "watch", false, "show the stats again and again, until interrupted")
	cmd.Flags().DurationVar(&interval, "interval", 2*time.Second, "how often, with --watch")
	cmd.Flags().BoolVar(&jsonOutput, "json", false, "print them as JSON")
	return cmd
}

// shownStats are the stats and what is wrong now.
type shownStats struct {
	api.Stats
	at    string            // the service's URL
	Wrong *concern.Concerns `json:"wrong,omitempty"` // nil: the key may not see it, or an earlier version answers

	Backup *concern.Backups `json:"backup,omitempty"` // nil: as for Wrong

	Capacity *accounts.Capacity `json:"capacity,omitempty"` // nil: as for Wrong, or not known

	problems *api.Problems // what rounds problems shows; nil: not asked yet
}

// statsOf asks for the stats, and for what is wrong.
func statsOf(ctx context.Context, calls *client.Client) (shownStats, error) {
	s, err := calls.Stats(ctx)
	shown := shownStats{Stats: s, at: calls.At()}
	if err != nil {
		return shown, err
	}
	if found, err := calls.Problems(ctx, client.ProblemsQuery{}); err == nil && !found.At.IsZero() {
		shown.problems = &found
	}
	if len(s.Labels) > 0 {
		return shown, nil
	}
	if known, err := calls.Backups(ctx); err == nil {
		shown.Backup = &known
	}
	if system, err := calls.System(ctx); err == nil {
		shown.Capacity = system.Capacity
	}
	wrong, err := calls.Concerns(ctx)
	switch client.Status(err) {
	case http.StatusForbidden, http.StatusNotFound:
		return shown, nil
	}
	shown.Wrong = &wrong
	return shown, err
}

func showStats(w io.Writer, s shownStats, jsonOutput bool) error {
	if jsonOutput {
		return printJSON(w, s)
	}
	if err := printStats(w, s); err != nil || s.Wrong == nil {
		return err
	}
	return printWrong(w, s)
}

// printWrong shows what is wrong now.
func printWrong(w io.Writer, s shownStats) error {
	table := newTable(w)
	heading := "\nLEVEL\tSINCE\tWRONG NOW\n"
	for _, c := range s.Wrong.Concerns {
		since := "-"
		if !c.Since.IsZero() {
			since = clockTime(c.Since)
		}
		text := oneLine(c.Text)
		if said := saidOf(&c); said != "" {
			text += " (" + said + ")"
		}
		if s.Wrong.Old(&c) {
			text += ", as of " + clockTime(c.AsOf)
		}
		fmt.Fprintf(table, "%s%s\t%s\t%s\n", heading, c.Level, since, text)
		heading = ""
	}
	if err := table.Flush(); err != nil {
		return err
	}
	var err error
	switch vain := inVain(s.problems); {
	case vain != "":
		_, err = fmt.Fprintf(w, "\n%s, as of %s: see rounds problems\n", vain, clockTime(s.problems.At))
	case len(s.Wrong.Concerns) == 0 && s.problems != nil:
		_, err = fmt.Fprintf(w, "\nnothing is wrong now; no account failed as of %s\n", clockTime(s.problems.At))
	case len(s.Wrong.Concerns) == 0:
		_, err = fmt.Fprintln(w, "\nnothing is wrong now")
	}
	return err
}

// inVain says how many accounts fail or are parked for a failure. It returns "" if none are.
func inVain(p *api.Problems) string {
	if p == nil {
		return ""
	}
	var parts []string
	for _, part := range []struct {
		n         int
		one, many string
	}{{p.Failing, "fails", "fail"}, {p.Parked, "is parked for a failure", "are parked for a failure"}} {
		switch {
		case part.n == 1:
			parts = append(parts, "1 account "+part.one)
		case part.n > 1:
			parts = append(parts, numberOf(part.n, "account")+" "+part.many)
		}
	}
	return strings.Join(parts, ", and ")
}

// waitingByKind describes waiting accounts that only some of the replicas check.
func waitingByKind(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(", %d for a replica that checks their kind", n)
}

// catchUpIn says when late accounts are in time again.
func catchUpIn(c *accounts.CatchUp) string {
	when := "in about " + seconds(c.Seconds)
	if c.Never {
		when = "not with this capacity"
	}
	return fmt.Sprintf("%s: %.1f checks/s, %.1f are asked for, about %.0f accounts wait", when, c.Made, c.Asked, c.Late)
}

// budgetIn says how the budget of adaptive accounts is kept.
func budgetIn(b *budget.Standing) string {
	if b.Price == 0 {
		return budget.Text(b.Budget) + " for adaptive accounts; its price is not known yet"
	}
	text := fmt.Sprintf("%s for adaptive accounts, which spend %s at a mean interval of %s; longer by it %.0f %%, shortest %.0f %%, longest %.0f %%",
		budget.Text(b.Budget), budget.Text(b.Spent), seconds(b.Interval), 100*b.Longer, 100*b.Floor, 100*b.Ceiling)
	switch b.Verdict() {
	case budget.TooSmall:
		text += "; it is too small"
	case budget.Unused:
		text += "; they cannot spend more"
	}
	return text
}

// capacityIn says how many more accounts fit, and what each bound allows.
func capacityIn(c *accounts.Capacity) string {
	parts := make([]string, len(c.Bounds))
	for i, b := range c.Bounds {
		parts[i] = oneLine(b.Bound) + " " + roomIn(b.Room)
	}
	return fmt.Sprintf("%s more accounts like these fit: %s", roomIn(c.Room), strings.Join(parts, ", "))
}

// roomIn returns a room in per cent.
func roomIn(room float64) string {
	if room >= 10 {
		return "1000 % or more"
	}
	return fmt.Sprintf("%.0f %%", 100*room)
}

// backupIn says when the last backup was taken, and whether it was verified.
func backupIn(known *concern.Backups) string {
	b := known.Last
	if b == nil {
		return "none that this service knows of: see rounds backup"
	}
	text := fmt.Sprintf("%s by %s: %s and %s", clockTime(b.Ended), cmp.Or(b.By, "-"), numberOf(b.Accounts, "account"), numberOf(b.Messages, "message"))
	switch {
	case !b.Verified.IsZero():
		return text + ", verified"
	case known.Verified != nil:
		return text + ", not verified; the last verified one is of " + clockTime(known.Verified.Ended)
	}
	return text + ", not verified"
}

func printStats(w io.Writer, s shownStats) error {
	table := newTable(w)
	fmt.Fprintf(table, "service\t%s\n", s.at)
	fmt.Fprintf(table, "accounts\t%d: %d scheduled, %d waiting, %d claimed, %d parked\n",
		s.Accounts.Registered, s.Accounts.Scheduled, s.Accounts.Waiting, s.Accounts.Claimed, s.Accounts.Parked)
	if lanes := s.Accounts.WaitingByLane; s.Accounts.Waiting > 0 {
		fmt.Fprintf(table, "waiting\t%d urgent, %d normal, %d low%s\n", lanes.Urgent, lanes.Normal, lanes.Low, waitingByKind(lanes.ByKind))
	}
	if len(s.Labels) == 0 {
		fmt.Fprintf(table, "overdue\t%s\n", seconds(s.OverdueSeconds))
		if s.CatchUp != nil {
			fmt.Fprintf(table, "in time again\t%s\n", catchUpIn(s.CatchUp))
		}
	}
	twice := ""
	if s.Staleness != nil && s.Staleness.Moving {
		twice = "; the number of shards was changing, so some of them may be counted twice"
	}
	if stale := s.Staleness; stale != nil && stale.Scanned > 0 {
		fmt.Fprintf(table, "staleness\tp50 %s, p99 %s, most %s (%s), of %s at %s%s\n", seconds(stale.P50), seconds(stale.P99),
			seconds(stale.Max), oneLine(stale.Stalest), numberOf(stale.Scanned, "account"), clockTime(stale.At), twice)
	}
	switch {
	case s.Failing != nil:
		asOf := ""
		if at := s.Failing.At; !at.IsZero() && (s.Staleness == nil || !at.Equal(s.Staleness.At)) {
			asOf = ", as of " + clockTime(at)
		}
		printFailing(table, *s.Failing, asOf, twice)
	case s.Accounts.Registered > 0:
		// An operator must not mistake silence for health.
		fmt.Fprintf(table, "failing\tnot counted yet: a monitor counts while it looks at every account, which it has not done once\n")
	}
	if s.Staleness != nil {
		for _, h := range s.Staleness.Headroom {
			fmt.Fprintf(table, "headroom\t%s\n", oneLine(headroomIn(h)))
		}
	}
	if s.Budget != nil {
		fmt.Fprintf(table, "budget\t%s\n", budgetIn(s.Budget))
	}
	if s.Capacity != nil {
		fmt.Fprintf(table, "capacity\t%s\n", capacityIn(s.Capacity))
	}
	if step := s.ClockStep; step != nil {
		fmt.Fprintf(table, "redis clock\t%s\n", clockStepIn(step))
	}
	if s.Data != nil {
		fmt.Fprintf(table, "kept in\t%s\n", oneLine(storeIn(s.Data)))
		if s.Wrong == nil { // otherwise printWrong shows them
			for _, c := range s.Data.Concerns {
				fmt.Fprintf(table, "concern\t%s\n", oneLine(c.Text))
			}
		}
	}
	if len(s.Labels) > 0 {
		fmt.Fprintf(table, "only\taccounts with %s, as the key at hand is bound to; messages, replicas and processes are left out\n", oneLine(access.Labels(s.Labels).String()))
		return table.Flush()
	}
	fmt.Fprintf(table, "messages\t%d kept\n", s.Messages)
	if s.Backup != nil {
		fmt.Fprintf(table, "backup\t%s\n", oneLine(backupIn(s.Backup)))
	}
	fmt.Fprintf(table, "shards\t%d\n", s.Shards)
	if err := table.Flush(); err != nil {
		return err
	}
	if err := printReplicas(w, s.Now, s.Replicas, s.Processes); err != nil {
		return err
	}
	return printProcesses(w, s.Processes)
}

// printReplicas shows the replicas. A process that has gone silent did so once, whatever it did:
// its replica is silent since the same moment. A replica that lives may not have reported anything
// since Redis was away: then its figures have their time.
func printReplicas(w io.Writer, now time.Time, replicas []api.Replica, processes []api.Process) error {
	if len(replicas) == 0 {
		_, err := fmt.Fprintln(w, "\nno replica is running: no account is checked")
		return err
	}
	return printTable(w, "\nREPLICA\tHOST\tSTATE\tIN FLIGHT\tHELD\tCHECKS/S\tFAILURES/S\tMESSAGES/S\tLATENESS P50\tP99", replicas, func(r api.Replica) string {
		who := oneLine(r.Name) + "\t" + cmp.Or(oneLine(r.Host), "-")
		if !r.Alive { // what it reported last is no more
			since := r.LastHeartbeat
			if i := slices.IndexFunc(processes, func(p api.Process) bool { return p.Name == r.Name && !p.Alive }); i >= 0 {
				since = processes[i].LastHeartbeat
			}
			return who + "\tsilent since " + clockTime(since) + strings.Repeat("\t-", 7)
		}
		alive := "alive"
		if now.Sub(r.LastHeartbeat) >= oldReport {
			alive += ", figures as of " + clockTime(r.LastHeartbeat)
		}
		return fmt.Sprintf("%s\t%s\t%d/%d\t%d\t%.1f\t%.1f\t%.1f\t%s\t%s", who, alive,
			r.InFlight, r.Concurrency, r.Held, r.ChecksPerSecond, r.FailuresPerSecond, r.MessagesPerSecond, seconds(r.LatenessP50), seconds(r.LatenessP99))
	})
}

// printProcesses shows the processes of all roles, and the settings in which they differ.
func printProcesses(w io.Writer, processes []api.Process) error {
	if len(processes) == 0 {
		return nil
	}
	err := printTable(w, "\nPROCESS\tROLES\tHOST\tVERSION\tSINCE\tSTATE", processes, func(p api.Process) string {
		since, state := "-", "alive"
		if !p.Since.IsZero() {
			since = clockTime(p.Since)
		}
		if !p.Alive {
			state = "silent since " + clockTime(p.LastHeartbeat)
		}
		return strings.Join([]string{oneLine(p.Name), oneLine(strings.Join(p.Roles, ",")), cmp.Or(oneLine(p.Host), "-"), cmp.Or(oneLine(p.Version), "-"), since, state}, "\t")
	})
	if err != nil {
		return err
	}
	heading := "\nsettings that differ\n"
	table := newTable(w)
	for _, p := range processes {
		for _, d := range p.Differs {
			usual := ""
			if d.Usual != "" {
				usual = "\tmostly " + oneLine(d.Usual)
			}
			fmt.Fprintf(table, "%s%s\t%s\t%s%s\n", heading, oneLine(p.Name), oneLine(d.Setting), oneLine(d.Value), usual)
			heading = ""
		}
	}
	return table.Flush()
}

// printFailing shows how many accounts fail, and of which kinds. asOf says when they were counted,
// and twice that the scan may have counted late accounts twice.
func printFailing(w io.Writer, f accounts.Failing, asOf, twice string) {
	fmt.Fprintf(w, "failing\t%s, %d newly; %d never succeeded%s\n", numberOf(f.Accounts, "account"), f.Newly, f.NeverSucceeded, asOf)
	for _, k := range f.Kinds {
		if k.Accounts+k.NeverSucceeded > 0 {
			fmt.Fprintf(w, "\t%s: %d failing, %d newly; %d never succeeded\n", cmp.Or(oneLine(k.Kind), "records that cannot be read"), k.Accounts, k.Newly, k.NeverSucceeded)
		}
	}
	if f.LeftOut > 0 {
		fmt.Fprintf(w, "\tabout %d more that fail or are parked were not looked at\n", f.LeftOut)
	}
	most := ""
	if f.MostMissed != "" {
		most = fmt.Sprintf("; most missed: %s (%s)", numberOf(f.MissedMax, "slot"), oneLine(f.MostMissed))
	}
	fmt.Fprintf(w, "behind\t%s missed three slots of the cadence or more (a slot is a minute at least)%s%s\n", numberOf(f.Behind, "account"), most, twice)
}

func seconds(s float64) string {
	d := time.Duration(s * float64(time.Second))
	if d >= time.Minute {
		return d.Round(time.Second).String()
	}
	return d.Round(time.Millisecond).String()
}

// storeIn says in words where everything is stored.
func storeIn(d *api.Data) string {
	if d.Dir != "" {
		return oneLine(d.Dir) + ", by the serving process"
	}
	if d.Forgets {
		return "the memory of the serving process: everything is lost when it ends"
	}
	return "redis " + oneLine(d.Store)
}

// clockStepIn describes the last step of Redis' clock.
func clockStepIn(step *accounts.ClockStep) string {
	by, moved := "ahead by "+seconds(step.Seconds), ""
	if step.Seconds < 0 {
		by, moved = "back by "+seconds(-step.Seconds), fmt.Sprintf(", %d accounts rescheduled", step.Moved)
	}
	return fmt.Sprintf("went %s at %s%s; %d steps so far", by, clockTime(step.At), moved, step.Steps)
}

// headroomIn returns a line about the accounts of a kind.
func headroomIn(h accounts.Headroom) string {
	text := fmt.Sprintf("%s: least %s (%s)", oneLine(h.Kind), seconds(h.Least), oneLine(h.Account))
	if h.Low == 0 {
		return text
	}
	return fmt.Sprintf("%s; %d with less than half left, %d with less than a quarter, %d with none; %d of them parked",
		text, h.Low, h.Critical, h.Past, h.Parked)
}
