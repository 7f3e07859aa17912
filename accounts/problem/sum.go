package problem

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/accounts"
)

// sum is some accounts of a sort.
type sum struct {
	Counts
	hosts          int // only of merged sums
	oldest, newest time.Time
	lastAt         time.Time
	text, class    string // of the latest failure
	examples       []string
	steps          map[string]NextStep
}

// merge adds the accounts of another sum, which must not be used any more.
func (s *sum) merge(t *sum) {
	s.Counts.add(t.Counts)
	s.hosts += t.hosts
	s.oldest, s.newest = earlier(s.oldest, t.oldest), later(s.newest, t.newest)
	if t.lastAt.After(s.lastAt) {
		s.lastAt, s.text = t.lastAt, t.text
		s.class = cmp.Or(t.class, s.class)
	}
	// The first ids in the order of bytes, so that they stay the same from scan to scan.
	s.examples = append(s.examples, t.examples...)
	slices.Sort(s.examples)
	s.examples = slices.Compact(s.examples)
	s.examples = s.examples[:min(len(s.examples), MostExamples)]
	for code, step := range t.steps {
		if before, ok := s.steps[code]; ok {
			step = before.and(step)
		}
		s.steps[code] = step
	}
}

// and joins the same step of two sets of accounts.
func (s NextStep) and(t NextStep) NextStep {
	s.Accounts += t.Accounts
	s.First, s.Last = earlier(s.First, t.First), later(s.Last, t.Last)
	s.Most, s.Worst, s.Over = max(s.Most, t.Most), max(s.Worst, t.Worst), max(s.Over, t.Over)
	s.After, s.Least = least(s.After, t.After), least(s.Least, t.Least)
	return s
}

// least returns the lower of two numbers; 0 counts as missing.
func least(a, b int) int {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}

func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// group returns the sum as a group. Its Select is still missing.
func (s *sum) group(of sort, code string) FailingGroup {
	g := FailingGroup{
		Counts: s.Counts, Kind: of.kind, Cause: of.cause, Code: code, Class: s.class, Text: s.text,
		Oldest: s.oldest.UTC(), Newest: s.newest.UTC(), LastAt: s.lastAt.UTC(), Examples: s.examples, Next: []NextStep{},
	}
	for _, name := range []string{StepWaits, StepBacksOff, StepChecked, StepParks, StepProbed, StepStays} {
		if step, ok := s.steps[name]; ok {
			step.Code, step.First, step.Last = name, step.First.UTC(), step.Last.UTC()
			g.Next = append(g.Next, step)
		}
	}
	return g
}

// groups returns the groups of a sort: one for each host with many accounts, and one for
// the others.
func (f *gathered) groups(of sort) []FailingGroup {
	hosts := make([]string, 0, len(f.hosts))
	for host := range f.hosts {
		if host != "" {
			hosts = append(hosts, host)
		}
	}
	slices.SortFunc(hosts, func(a, b string) int {
		return cmp.Or(cmp.Compare(f.hosts[b].Accounts, f.hosts[a].Accounts), strings.Compare(a, b))
	})
	apart := 0
	for apart < len(hosts) && apart < MostApart && f.hosts[hosts[apart]].Accounts >= ApartFrom {
		apart++
	}
	alone := f.over == nil && f.hosts[""] == nil
	if alone && (len(hosts) <= AllApart || apart == len(hosts)-1) {
		apart = len(hosts)
	}
	hosts, apart = together(hosts, apart)
	var all []FailingGroup
	for _, host := range hosts[:apart] {
		g := f.hosts[host].group(of, f.code)
		g.Host, g.Hosts, g.Select = host, 1, selection(of, []string{host}, portsOf(host, hosts[:apart]))
		all = append(all, g)
	}
	if rest := f.join(hosts[apart:]); rest != nil {
		g := rest.group(of, f.code)
		g.Hosts, g.Select = rest.hosts, selection(of, nil, hosts[:apart])
		all = append(all, g)
	}
	return all
}

// together moves a host that is apart to the others if one of its other ports is there: a
// selector that names a host means all its ports.
func together(hosts []string, apart int) ([]string, int) {
	var kept, rest []string
	for _, host := range hosts[:apart] {
		if len(portsOf(host, hosts[apart:])) > 0 {
			rest = append(rest, host)
		} else {
			kept = append(kept, host)
		}
	}
	return slices.Concat(kept, rest, hosts[apart:]), len(kept)
}

// portsOf returns the hosts that are other ports of a given host, which has no port.
func portsOf(host string, of []string) (ports []string) {
	for _, other := range of {
		if other != host && accounts.WithoutPort(other) == host {
			ports = append(ports, other)
		}
	}
	return ports
}

// join merges the sums of some hosts with the sums of no host and of further hosts. It
// returns nil if there are none.
func (f *gathered) join(hosts []string) *sum {
	var rest *sum
	into := func(s *sum) {
		if rest == nil {
			rest = s
		} else {
			rest.merge(s)
		}
	}
	if f.over != nil {
		into(f.over)
	}
	if s := f.hosts[""]; s != nil {
		into(s)
	}
	for _, host := range hosts {
		f.hosts[host].hosts = 1
		into(f.hosts[host])
	}
	return rest
}

// selection returns the parameters that select a group.
func selection(of sort, host, except []string) map[string][]string {
	if of.kind == "" {
		return nil // no kind would select all kinds
	}
	fields := map[string][]string{"kind": {of.kind}, "cause": {of.cause}}
	if len(host) > 0 {
		fields["host"] = host
	}
	if len(except) > 0 {
		fields["except_host"] = slices.Clone(except)
	}
	return fields
}

// Summary returns the summary of everything that was added. Now is Redis' clock. LeftOut is how
// many accounts were not looked at. The gathering must not be used any more.
func (g *Gathering) Summary(now time.Time, leftOut int) Summary {
	s := Summary{At: now.UTC(), AtRest: g.rest, LeftOut: leftOut, Groups: []FailingGroup{}, Other: g.over}
	var all []FailingGroup
	for of, found := range g.sorts {
		all = append(all, found.groups(of)...)
	}
	// Three quarters of the places go to the largest groups, and the others to groups that
	// have begun to fail just now.
	const largest = MostGroups * 3 / 4
	order := func(by func(g *FailingGroup) int) func(a, b FailingGroup) int {
		return func(a, b FailingGroup) int {
			return cmp.Or(cmp.Compare(by(&b), by(&a)), cmp.Compare(b.Accounts, a.Accounts),
				strings.Compare(a.Kind, b.Kind), strings.Compare(a.Cause, b.Cause), strings.Compare(a.Host, b.Host))
		}
	}
	newly := order(func(g *FailingGroup) int { return g.Newly })
	slices.SortFunc(all, order(func(g *FailingGroup) int { return g.Accounts }))
	if len(all) > MostGroups {
		slices.SortFunc(all[largest:], newly)
		for i := range all[MostGroups:] {
			s.Other.Groups++
			s.Other.add(all[MostGroups+i].Counts)
		}
		all = all[:MostGroups]
	}
	slices.SortFunc(all, newly)
	s.Groups = append(s.Groups, all...)
	s.Counts = s.Other.Counts
	for i := range all {
		s.add(all[i].Counts)
	}
	return s
}
