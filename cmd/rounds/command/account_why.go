package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/cmd/rounds/api"
	"github.com/rounds-dev/rounds/cmd/rounds/client"
)

// shownWhy is what is known about why an account is checked when it is.
type shownWhy struct {
	api.Schedule
	Timeline []api.TimelineEvent `json:"timeline,omitempty"`
	Trail    []api.TrailEntry    `json:"trail,omitempty"`

	changes api.TrailPage
}

func newWhyCommand(env environment) *cobra.Command {
	return showing(env, &cobra.Command{
		Use:   "why ID",
		Short: "Show when an account is checked next, and why at that time",
		Long: `Show where an account is, when it is checked next and which rule decided that, how
its last checks went, what waits to be answered, what mattered lately, and who changed it. A rule
is a word, such as cadence, backoff, retry-after, limit, nudge or priority, with a sentence that
explains it.`,
		Example: `  rounds account why news
  rounds account why news --json | jq -r .rule`,
		Args:              exactly(1),
		ValidArgsFunction: completeIDs(env),
	}, "print it as JSON", func(ctx context.Context, calls *client.Client, args []string) (why shownWhy, err error) {
		if why.Schedule, err = calls.Schedule(ctx, args[0]); err != nil {
			return why, ofAccount(args[0], err)
		}
		// An API of an earlier version has no trail, and some principals may not read
		// it.
		refused := new(client.Error)
		if why.changes, err = calls.AccountTrail(ctx, args[0], whyChanges); err != nil && !errors.As(err, &refused) {
			return why, err
		}
		lately, err := calls.AccountTimeline(ctx, args[0], whyEvents)
		if err != nil && !errors.As(err, &refused) {
			return why, err
		}
		why.Timeline, why.Trail = lately.Events, why.changes.Entries
		return why, nil
	}, func(why shownWhy) error {
		if err := printSchedule(env.stdout, why.Schedule); err != nil {
			return err
		}
		printAnswers(env.stdout, &why.Schedule)
		printTimeline(env.stdout, why.Timeline)
		return printChanges(env.stdout, why.changes)
	})
}

// whyChanges is how many changes of an account are shown, and whyEvents how many events of
// its timeline.
const (
	whyChanges = 5
	whyEvents  = 8
)

// printAnswers prints what the account has to send, and whom it may answer. An error in writing shows up
// when the changes are printed.
func printAnswers(w io.Writer, s *api.Schedule) {
	a := s.Answers
	if a == nil || a.Unknown == 0 && len(a.Peers) == 0 {
		return
	}
	fmt.Fprintln(w, "\nanswers:")
	if a.Unknown > 0 {
		fmt.Fprintf(w, "  %d %s since %s: see rounds sends list --state unknown, then rounds sends resolve\n", a.Unknown, several(a.Unknown, "answer is unknown", "answers are unknown"), clockTime(a.Since))
	}
	windows := 0
	for _, p := range a.Peers {
		if p.Waiting > 0 {
			fmt.Fprintln(w, "  "+oneLine(waitingTo(&p)))
		}
		if p.Window != nil {
			windows++
			fmt.Fprintln(w, "  "+oneLine(fmt.Sprintf("the window to %s: %s", p.Peer, windowOf(p.Window))))
		}
	}
	if more := a.Windows - windows; more > 0 {
		fmt.Fprintf(w, "  %d %s\n", more, several(more, "more peer has a window", "more peers have a window"))
	}
}

// waitingTo says what the sends to a peer wait for.
func waitingTo(p *api.PeerAnswers) string {
	what := several(p.Waiting, "its turn", "their turn")
	if p.Closed {
		what = "a message of theirs"
	}
	return fmt.Sprintf("%d %s to %s %s for %s", p.Waiting, several(p.Waiting, "answer", "answers"), p.Peer, several(p.Waiting, "waits", "wait"), what)
}

// several returns the words for one or for many.
func several(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// windowOf says until when and how often a peer may be answered.
func windowOf(w *api.Window) string {
	until := clockTime(w.Until)
	switch {
	case w.Left == nil && w.Open:
		return "until " + until
	case w.Open && w.Most > 0:
		return fmt.Sprintf("%d of %d left, until %s", *w.Left, w.Most, until)
	case w.Open:
		return fmt.Sprintf("%d left, until %s", *w.Left, until)
	case w.Left != nil && *w.Left <= 0:
		return "used up; they must write again"
	}
	return "over since " + until + "; they must write again"
}

// printTimeline prints what mattered to an account lately. An error in writing shows up when the
// changes are printed.
func printTimeline(w io.Writer, events []api.TimelineEvent) {
	if len(events) == 0 {
		return
	}
	fmt.Fprintln(w, "\nlately, the latest first:")
	for _, e := range events {
		line := clockTime(e.Time) + "  " + e.Event
		switch {
		case e.Event == "nudged" && e.Count > 0:
			line += " within " + (time.Duration(e.Count) * time.Millisecond).String()
		case e.Count > 0:
			line += fmt.Sprintf(" (%d)", e.Count)
		}
		if e.Text != "" {
			line += ": " + accounts.ReasonText(e.Text)
		}
		if len(e.Fields) > 0 {
			line += ": " + strings.Join(e.Fields, ", ")
		}
		if e.By != "" {
			line += ", by " + e.By
		}
		fmt.Fprintln(w, "  "+oneLine(line))
	}
}

// printChanges prints who changed an account, and how far back the trail was searched.
func printChanges(w io.Writer, page api.TrailPage) error {
	if len(page.Entries) == 0 && page.Next == "" {
		return nil
	}
	fmt.Fprintln(w, "\nchanges, the latest first:")
	for _, e := range page.Entries {
		fmt.Fprintln(w, "  "+trailLine(e))
	}
	var err error
	if len(page.Entries) < whyChanges && page.Next != "" {
		_, err = fmt.Fprintf(w, "  looked back to %s; rounds trail --account has more\n", clockTime(page.Back))
	}
	return err
}

// parksOf says what parks a failing account, if that is known.
func parksOf(s *api.Schedule) string {
	p := s.Parks
	switch {
	case p == nil || s.Left == nil:
		return ""
	case p.Over == 0:
		return fmt.Sprintf("; parked after %d, so %d more park it", p.After, *s.Left)
	}
	text := fmt.Sprintf("; parked after %d refusals of its credential over at least %v: %d more", p.After, time.Duration(p.Over*float64(time.Second)), *s.Left)
	if !p.From.IsZero() {
		text += ", not before " + clockTime(p.From)
	}
	return text
}

func printSchedule(w io.Writer, s api.Schedule) error {
	table := facts{newTable(w)}
	table.add("id", s.ID)
	table.add("kind", s.Kind)
	table.add("state", stateOf(api.State{Place: s.Place, Due: s.Due, Since: s.Since, Replica: s.Replica, Reason: s.Reason}))
	table.add("rule", s.Rule)
	table.add("why", localTimes(s.Why, s.Error, s.Reason))
	table.add("fault", s.Fault)
	table.add("cadence", s.Cadence)
	table.add("next slots", joined(s.Slots, clockTime))
	table.add("priority", s.Priority)
	if l := s.Lanes; l != nil && l.Kind != "" {
		table.add("waiting", fmt.Sprintf("for a replica that checks the kind %q, behind %d others in shard %d", l.Kind, l.Ahead, s.Shard))
	} else if l != nil {
		table.add("waiting", fmt.Sprintf("%d urgent, %d normal, %d low in shard %d", l.Urgent, l.Normal, l.Low, s.Shard))
	}
	if !s.Nudged.IsZero() {
		table.add("nudged", "to be checked by "+clockTime(s.Nudged))
	}
	table.add("last checks", strings.Join(s.Checks, ", "))
	table.add("last success", successOf(s))
	table.add("headroom", headroomOf(s))
	for i := range s.Maintenance {
		w := &s.Maintenance[i]
		table.add("maintenance", fmt.Sprintf("until %s: %s (%s, by %s); failures count nowhere", clockTime(w.Until), oneLine(w.Reason), oneLine(w.Name), cmp.Or(oneLine(w.By), "nobody")))
	}
	table.add("way out", s.Way+downSince(s.WayDown))
	table.add("push", pushOf(s.Push))
	if !s.Skip.IsZero() {
		table.add("begun", "from now: what came before "+clockTime(s.Skip)+" is passed over until it has caught up")
	}
	if s.Failures > 0 {
		table.add("failures", fmt.Sprintf("%d in a row", s.Failures)+parksOf(&s))
	}
	if s.Strikes > 0 {
		table.add("strikes", fmt.Sprint(s.Strikes))
	}
	table.add("warning", s.Warning)
	table.add("last error", errorOf(s.Error, s.ErrorAt))
	table.add("shard", fmt.Sprint(s.Shard))
	return table.Flush()
}

// downSince says how a way out stands that is in trouble.
func downSince(d *api.Down) string {
	if d == nil {
		return ""
	}
	text := ", " + d.State + " since " + clockTime(d.Since)
	if d.Cause != "" {
		text += " (" + d.Cause + ")"
	}
	return text + ": checks and sends wait for a probe"
}

// localTimes shows the times in an API's sentence in the form of all other times. Quoted texts, such as an
// error, stay as they are: the form of a time may be what they are about.
func localTimes(text string, quoted ...string) string {
	for i, quote := range quoted {
		if before, after, ok := strings.Cut(text, quote); ok && quote != "" {
			return localTimes(before, quoted[i+1:]...) + quote + localTimes(after, quoted[i+1:]...)
		}
	}
	return regexp.MustCompile(`\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`).ReplaceAllStringFunc(text, func(at string) string {
		t, err := time.Parse(time.RFC3339, at)
		if err != nil {
			return at
		}
		return clockTime(t)
	})
}

// successOf returns when the last complete success was, and how long ago.
func successOf(s api.Schedule) string {
	if s.Staleness == nil {
		return ""
	}
	ago := seconds(*s.Staleness) + " ago"
	if s.NeverSucceeded {
		return "never; registered " + clockTime(s.Begun) + ", " + ago
	}
	return clockTime(s.Succeeded) + ", " + ago
}

func errorOf(text string, at time.Time) string {
	if text == "" || at.IsZero() {
		return text
	}
	return clockTime(at) + ": " + text
}

// pushOf returns how an account's subscription at a hub stands.
func pushOf(p *api.Push) string {
	switch {
	case p == nil:
		return ""
	case p.State == "trusted":
		return "by " + p.Hub + ", lease until " + clockTime(p.Until) + "; checked every six hours besides"
	case p.State == "live":
		return "by " + p.Hub + ", lease until " + clockTime(p.Until) + "; checked at its cadence besides"
	case p.State == "denied":
		return "denied by " + p.Hub + ", which is asked again later"
	}
	return "asked for at " + p.Hub + ", which has not granted it yet"
}

// headroomOf returns how long an account has until its third party forgets messages.
func headroomOf(s api.Schedule) string {
	if s.Headroom == nil || s.Retention == nil {
		return ""
	}
	kept := ", of the " + seconds(*s.Retention) + " that the third party keeps messages"
	if *s.Headroom <= 0 {
		return "none since " + seconds(-*s.Headroom) + kept + ": some may be lost"
	}
	return seconds(*s.Headroom) + kept
}
