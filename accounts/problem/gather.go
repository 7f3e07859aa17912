package problem

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/accounts/cadence"
	"github.com/rounds-dev/rounds/circulate"
)

const (
	// mostSums bounds the memory of a Gathering, about a KiB each.
	mostSums = 20_000
	// maxHost is the most bytes of a host that is counted separately.
	maxHost = 255
	// maxText is the most bytes of a group's text.
	maxText = 160
)

// MayPass reports whether a reason to park an account may pass by itself, such as an upstream
// that is back or a credential that was renewed there. A monitor tries such accounts again.
func MayPass(reason string) bool {
	return strings.HasPrefix(reason, "retry budget") || strings.HasPrefix(reason, "auth")
}

// Gathering sums up accounts in bounded memory. It is not safe for concurrent use.
type Gathering struct {
	probe time.Duration
	slots *accounts.FailingCount

	sorts map[sort]*gathered
	sums  int         // in sorts
	over  OtherGroups // accounts of further sorts
	rest  int         // parked accounts that are no problem
}

// sort is a kind and a cause.
type sort struct{ kind, cause string }

// gathered is the accounts of a sort.
type gathered struct {
	code  string
	hosts map[string]*sum
	over  *sum // accounts of further hosts; nil: there are none
}

// NewGathering returns an empty gathering. Probe is the time after which accounts parked
// for a reason that may pass are tried again, or 0 if none is.
func NewGathering(probe time.Duration) *Gathering {
	return &Gathering{probe: probe, slots: accounts.NewFailingCount(), sorts: make(map[sort]*gathered)}
}

// record is the relevant part of an account's record.
type record struct {
	Kind    string `json:"kind"`
	Cadence string `json:"cadence"`
	Budget  int    `json:"retry_budget"`

	where string
}

func read(text []byte) record {
	var r record
	plain, _ := accounts.SplitRevision(text)
	if json.Unmarshal(plain, &r) != nil || len(r.Kind) > accounts.MaxLabel {
		return record{}
	}
	if r.where = accounts.WhereOf(text); len(r.where) > maxHost {
		r.where = ""
	}
	return r
}

// Failing adds accounts that circulate and whose last check failed. Now is Redis' clock.
func (g *Gathering) Failing(now time.Time, all []circulate.FailingAccount) {
	for i := range all {
		a := &all[i]
		r := read(a.Record)
		one := g.of(a, &r)
		one.Failing = 1
		if g.slots.Newly(a.ID, r.Cadence, now, now.Sub(a.History.Succeeded)) {
			one.Newly = 1
		}
		one.steps = r.steps(a)
		g.add(&r, accounts.CauseOf(a.Error, r.where), one)
	}
}

// steps returns what will happen to an account in circulation.
func (r *record) steps(a *circulate.FailingAccount) map[string]NextStep {
	steps := make(map[string]NextStep)
	rhythm, err := cadence.Parse(r.Cadence)
	longest := time.Duration(0)
	if err == nil {
		longest = rhythm.Longest()
	}
	policy, class := cadence.Policy{RetryBudget: r.Budget}, accounts.ClassOfMark(classOf(a))
	code, step := StepChecked, NextStep{Accounts: 1, First: a.Due, Last: a.Due}
	switch accounts.RuleWord(a.Rule) {
	case cadence.RuleBackoff:
		code, step.Most = StepBacksOff, int(policy.LongestPause(class, a.Failures, longest)/time.Second)
	case cadence.RuleRetryAfter, accounts.RuleOutage, accounts.RuleDown, accounts.RuleLimit, accounts.RuleMemory:
		code = StepWaits
	}
	steps[code] = step
	if a.Failures == 0 || class == cadence.Blameless || class == cadence.Throttled {
		return steps // this cause parks nobody
	}
	marks := make([]string, len(a.History.Marks))
	for i, mark := range a.History.Marks {
		marks[i] = accounts.MarkWord(mark)
	}
	switch parking := accounts.ParkingOf(policy, marks, cadence.State{Failures: a.Failures}); parking.Rule {
	case cadence.RuleRetryBudget:
		steps[StepParks] = NextStep{Accounts: 1, After: parking.After, Least: a.Failures, Worst: a.Failures}
	case cadence.RuleAuth: // the number of refusals is unknown here
		steps[StepParks] = NextStep{Accounts: 1, After: parking.After, Over: int(parking.Over / time.Second)}
	}
	return steps
}

// Look adds the account of a view if it is checked in vain.
func (g *Gathering) Look(v *circulate.View) {
	a := circulate.FailingAccount{
		ID: v.ID, Record: v.Record, Error: v.Error, ErrorAt: v.ErrorAt, Failures: v.Failures, Due: v.Due, Rule: v.Rule, History: v.History,
	}
	switch {
	case v.Place == circulate.Parked && accounts.AtRest(v.Reason):
		g.AtRest(1)
	case v.Place == circulate.Parked:
		g.Parked(&a, circulate.ParkedAccount{ID: v.ID, Since: v.Since, Reason: v.Reason})
	case accounts.LastFailed(v):
		g.Failing(v.Now, []circulate.FailingAccount{a})
	}
}

// AtRest counts parked accounts that are no problem.
func (g *Gathering) AtRest(n int) { g.rest += n }

// Parked adds an account that is parked for a failure.
func (g *Gathering) Parked(a *circulate.FailingAccount, parked circulate.ParkedAccount) {
	r := read(a.Record)
	one := g.of(a, &r)
	one.Parked, one.NeverSucceeded = 1, 0 // nobody checks it
	if one.lastAt.IsZero() {
		one.lastAt = parked.Since
	}
	code, step := StepStays, NextStep{Accounts: 1}
	if g.probe > 0 && MayPass(parked.Reason) {
		code = StepProbed
		step.First = parked.Since.Add(g.probe)
		step.Last = step.First
	}
	one.steps = map[string]NextStep{code: step}
	g.add(&r, accounts.CauseOfReason(parked.Reason, r.where), one)
}

// of begins the sum of one account.
func (g *Gathering) of(a *circulate.FailingAccount, r *record) *sum {
	one := &sum{Counts: Counts{Accounts: 1}, oldest: a.History.Succeeded, newest: a.History.Succeeded, lastAt: a.ErrorAt, examples: []string{a.ID}, class: classOf(a)}
	if a.History.NeverSucceeded() {
		one.NeverSucceeded = 1
	}
	return one
}

func classOf(a *circulate.FailingAccount) string {
	if len(a.History.Marks) == 0 {
		return ""
	}
	switch word := accounts.MarkWord(a.History.Marks[0]); word {
	case accounts.MarkOK, accounts.MarkMore, accounts.MarkMaintenance:
		return ""
	default:
		return word
	}
}

// add counts one account in the sum of its sort and host, or in the rest once there are too many
// sums.
func (g *Gathering) add(r *record, why accounts.Cause, one *sum) {
	one.text = line(why.Text)
	key := sort{r.Kind, why.Name}
	found := g.sorts[key]
	if found == nil {
		if g.sums >= mostSums {
			g.over.Groups = 1
			g.over.add(one.Counts)
			return
		}
		found = &gathered{code: why.Code, hosts: make(map[string]*sum)}
		g.sorts[key] = found
	}
	switch into := found.hosts[r.where]; {
	case into != nil:
		into.merge(one)
	case g.sums < mostSums:
		found.hosts[r.where] = one
		g.sums++
	case found.over == nil:
		one.hosts = 1
		found.over = one
	default:
		found.over.merge(one)
	}
}

// line returns a text as one line of bounded length.
func line(text string) string {
	text = strings.Map(func(char rune) rune {
		if char < ' ' || char == 0x7f {
			return ' '
		}
		return char
	}, strings.ToValidUTF8(text, "?"))
	if len(text) > maxText {
		text = strings.ToValidUTF8(text[:maxText], "") + "…"
	}
	return text
}
