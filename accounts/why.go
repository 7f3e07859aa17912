package accounts

import (
	"fmt"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/accounts/cadence"
	"github.com/rounds-dev/rounds/circulate"
)

// Rules of an explanation that follow from the place of an account. The ring has no
// letter for them.
const (
	rulePriority = "priority" // it is due and waits in its lane
	ruleClaimed  = "claimed"  // it is being checked
	rulePaused   = "paused"   // somebody took it out of circulation
	ruleParked   = "parked"   // it is parked for a reason that has no word
)

// reason returns the rule that decides when an account is checked next, and a sentence
// about it for people. Times are UTC.
func (e *Explanation) reason() (rule, why string) {
	switch e.State.Place {
	case circulate.Waiting:
		return rulePriority, e.whyWaiting()
	case circulate.Claimed:
		if why = fmt.Sprintf("%s has been checking it since %s", e.State.Replica, utc(e.State.Since)); e.Hold > 0 {
			why = fmt.Sprintf("%s has made calls since %s, one after the other, each of which the third party may hold for up to %s until something comes", e.State.Replica, utc(e.State.Since), e.Hold)
		}
		why += fmt.Sprintf("; it was due by %s: %s", e.DueRule, e.whyDue())
		if !e.Nudged.IsZero() {
			why += "; somebody asked for a check meanwhile, so it is due again at " + utc(e.Nudged) + " at the latest"
		}
		return ruleClaimed, why
	case circulate.Parked:
		return e.whyParked()
	}
	why = e.whyDue()
	if !e.State.Due.After(e.Now) {
		why += "; that is past, and no replica has claimed it yet"
	}
	return e.DueRule, why
}

func (e *Explanation) whyWaiting() string {
	w := e.Waits
	lanes := fmt.Sprintf("%d urgent, %d normal and %d low accounts wait in its shard, urgent ones go first", w.Urgent, w.Normal, w.Low)
	due := "; it is due by " + e.DueRule + ": " + e.whyDue()
	if w.Kind != "" {
		return fmt.Sprintf("it has waited since %s for a replica that checks the kind %q, behind %d others of it%s", utc(e.State.Since), w.Kind, w.Ahead, due)
	}
	if w.Lane == "" {
		return "it is due and waits for its turn: " + lanes + due
	}
	return fmt.Sprintf("it has waited in the %s lane since %s, behind %d others: %s%s", w.Lane, utc(e.State.Since), w.Ahead, lanes, due)
}

func (e *Explanation) whyParked() (rule, why string) {
	if paused(e.State.Reason) {
		return rulePaused, "somebody paused it at " + utc(e.State.Since) + "; `rounds account resume " + e.ID + "` resumes it"
	}
	rule = ruleParked
	switch e.DueRule {
	case cadence.RuleRetryBudget, cadence.RuleAuth, cadence.RuleGone, cadence.RuleConfig, cadence.RuleFinished, RuleIsolation:
		rule = e.DueRule
	}
	return rule, "it has been out of circulation since " + utc(e.State.Since) + ", until it is resumed or changed: " + ReasonText(e.State.Reason)
}

// ReasonText returns why an account is parked, for people: if a failure's code equals the
// rule's word, the text has it once. The stored reason, which selectors match, has it
// twice.
func ReasonText(reason string) string {
	for _, rule := range []string{cadence.RuleGone, cadence.RuleConfig, cadence.RuleAuth} {
		if text, ok := strings.CutPrefix(reason, rule+": "); ok && strings.HasPrefix(text, rule+": ") {
			return text
		}
	}
	return reason
}

// warnStuck begins the warning that a cursor has not moved; see poller.Judge.
const warnStuck = "cursor_stuck: "

// whyDue explains the rule that decided when the account is due.
func (e *Explanation) whyDue() string {
	failures := fmt.Sprintf("%d failures in a row", e.State.Failures)
	if e.State.Failures == 1 {
		failures = "one failure"
	}
	last := ""
	if e.Error != "" {
		last = "; the last: " + e.Error
	}
	at := "then"
	if !e.State.Due.IsZero() {
		at = "at " + utc(e.State.Due)
	}
	switch e.DueRule {
	case cadence.RuleCadence:
		return "the next slot of its cadence" + e.quoted()
	case cadence.RuleAdaptive:
		return "the next slot of its adaptive cadence" + e.quoted() + ", whose interval depends on what checks find"
	case cadence.RuleBudget:
		return "the next slot of its adaptive cadence" + e.quoted() + e.whyBudget()
	case cadence.RuleCron:
		return "the next time of its schedule" + e.quoted()
	case cadence.RuleAt:
		return "its one time" + e.quoted()
	case cadence.RuleMore:
		return "the upstream has more, so it is checked again at once, behind the others"
	case cadence.RulePollAfter:
		if e.Hold > 0 || strings.HasPrefix(e.Warning, warnStuck) || strings.Contains(e.Warning, "; "+warnStuck) {
			return "a pause: the upstream asked for no check before then, or its last answer came at once with nothing new"
		}
		return "the upstream asked for no check before then"
	case cadence.RuleRetryAfter:
		return "the upstream told it to wait, for " + cadence.ThrottlePause.String() + " if it named no time" + last
	case cadence.RuleBackoff:
		if e.State.Failures == 0 { // the account is not to blame
			return "a pause after a failure that does not count against it" + last
		}
		return "a pause after " + failures + last
	case RuleLimit:
		return "it shares a limit with others, and its turn is " + at
	case RuleOutage:
		return "our own network, or the network behind its way out, seems to be down; no failure counts against it, and it is tried again " + at + last
	case RuleDown:
		return e.whyDown() + "; no failure counts against it, and it is tried again " + at + last
	case RuleIsolation:
		return fmt.Sprintf("replicas that checked it did not return it (%d strikes): such accounts are checked one at a time", e.State.Strikes)
	case RuleMemory:
		return "Redis has used so much of its memory that no messages are taken; no failure counts against it, and it is tried again " + at
	case RuleShare:
		return "its messages used up its share of bytes an hour, and it is checked again " + at
	case RuleCrowd:
		return "what it shares with others, such as its host, has so many slow checks under way that the other places are kept for other accounts, and it is tried again " + at
	case RuleRegistered:
		return "its first check since it was registered or its record changed"
	case RuleResumed:
		return "somebody resumed it, with a clean slate"
	case RuleNudged:
		return "somebody asked for a check before it was due"
	case RuleProbed:
		return "it was parked and is tried again; the next failure parks it again" + last
	}
	if e.DueRule == "" || len(e.DueRule) == 1 {
		return "a rule that this version does not know"
	}
	return "decided when it was parked" + last
}

// whyBudget says what the budget of adaptive accounts does to the account's interval.
func (e *Explanation) whyBudget() string {
	every, err := cadence.Parse(e.Cadence)
	if err != nil {
		return ", whose interval the budget of all adaptive accounts decides"
	}
	is, alone := every.Current(e.remembered), every.Alone(e.remembered)
	round := func(d time.Duration) string { return max(time.Second, d.Round(time.Second)).String() }
	found := fmt.Sprintf("; it gets about %.3g messages a day", e.remembered.Rate.PerDay())
	switch {
	case alone == 0: // it has decided without the budget since
		return ", whose interval the budget of all adaptive accounts decided"
	case is > alone:
		return ", whose interval the budget of all adaptive accounts has lengthened to " + round(is) + ": its own checks would make it " + round(alone) + found
	case is < alone:
		return ", whose interval the budget of all adaptive accounts has shortened to " + round(is) + ": its own checks would make it " + round(alone) + found
	}
	return ", whose interval of " + round(is) + " the budget of all adaptive accounts leaves as its own checks would make it" + found
}

// whyDown says what is known about what the account waits at.
func (e *Explanation) whyDown() string {
	t := e.trouble
	if t == nil {
		return "what it shares with others, such as its host, was down or had asked for a pause"
	}
	cause := ""
	if t.Cause != "" {
		cause = " (" + t.Cause + ")"
	}
	probe := "a probe is under way or goes out with the next account that is due"
	if t.Next.After(e.Now) {
		probe = "the next probe goes out at " + utc(t.Next)
	}
	if t.Paused {
		return fmt.Sprintf("%s, which it shares with others, has asked for a pause%s since %s; %s", t.Name, cause, utc(t.Since), probe)
	}
	return fmt.Sprintf("%s, which it shares with others, has been down since %s%s; %s", t.Name, utc(t.Since), cause, probe)
}

// quoted returns the cadence in quotes, to follow a word for it.
func (e *Explanation) quoted() string {
	if e.Cadence == "" {
		return ""
	}
	return `, "` + strings.TrimSpace(e.Cadence) + `"`
}

func utc(t time.Time) string { return t.UTC().Format(time.RFC3339) }
