package pages

import (
	"net/url"
	"slices"
	"time"

	"github.com/rounds-dev/rounds/cmd/rounds/api"
)

const (
	// problemsShown is how many groups the page shows unless the visitor asks for all.
	problemsShown = 50
	// problemsOld is the age from which the page says that no monitor makes summaries any
	// more. The monitor on duty makes one every 45 seconds.
	problemsOld = 2 * time.Minute
)

// problemStates returns the states to which the page can be narrowed.
func problemStates() []string {
	return []string{"failing", "newly", "never_succeeded", "parked", "late"}
}

// problems is what the page of failing and parked accounts shows.
type problems struct {
	api.Problems
	Groups []failingGroup `json:"groups"`

	Narrowed []string `json:"-"` // the other parameters that narrow it

	State string `json:"-"` // the state to which the page is narrowed; empty: none
	More  int    `json:"-"` // groups that are not shown
	Chips []chip `json:"-"`
}

// failingGroup is accounts that are checked in vain for the same cause.
type failingGroup struct{ api.FailingGroup }

// chip narrows the page to a state.
type chip struct {
	State, Path string
	Count       int
	Chosen      bool
}

// Offers reports whether there is a page at a path.
func (v *visit) Offers(path string) bool { return v.offers(path) }

// Old reports whether no monitor makes summaries any more.
func (p *problems) Old() bool { return !p.At.IsZero() && p.Now.Sub(p.At) > problemsOld }

// To returns the address of a page or a route about the group's accounts, or an empty text if
// nothing selects exactly these accounts.
func (g *failingGroup) To(path string, pairs ...string) string {
	if len(g.Select) == 0 {
		return ""
	}
	q := url.Values{}
	for name, values := range g.Select {
		q[name] = values
	}
	for i := 0; i+1 < len(pairs); i += 2 {
		q.Set(pairs[i], pairs[i+1])
	}
	return address(path, q)
}

// tidy drops the step "checked" beside a pause, which says more, and times that have passed since
// the summary was made.
func (g *failingGroup) tidy(now time.Time) {
	pauses := slices.ContainsFunc(g.Next, func(s api.NextStep) bool { return s.Code == "backs_off" || s.Code == "waits" })
	g.Next = slices.DeleteFunc(g.Next, func(s api.NextStep) bool { return s.Code == "checked" && pauses })
	for i := range g.Next {
		s := &g.Next[i]
		if s.First.Before(now) {
			s.First = time.Time{}
		}
		if s.Last.Before(now) {
			s.Last = time.Time{}
		}
	}
}

func problemsPage() *page {
	return &page{name: "problems", path: "/problems", menu: "problems", data: func(v *visit) (any, error) {
		p, states := &problems{State: v.Query("state")}, problemStates()
		if !slices.Contains(states, p.State) {
			p.State = ""
		}
		q := url.Values{}
		for _, name := range []string{"kind", "host", "cause"} {
			if values := v.r.URL.Query()[name]; len(values) > 0 {
				q[name] = values
				p.Narrowed = append(p.Narrowed, name)
			}
		}
		if p.State != "" && p.State != "late" {
			q.Set("state", p.State)
		}
		if err := v.shared(address("/v1/problems", q), p); err != nil {
			return nil, err
		}
		v.counted = &p.Problems
		for i := range p.Groups {
			p.Groups[i].tidy(p.Now)
		}
		p.Chips = []chip{{State: "all", Path: v.With("state", "", "all", ""), Count: p.Accounts, Chosen: p.State == ""}}
		for i, count := range []int{p.Failing, p.Newly, p.NeverSucceeded, p.Parked, p.Late.Accounts} {
			one := chip{State: states[i], Count: count, Chosen: states[i] == p.State}
			if one.Path = v.With("state", one.State, "all", ""); one.Chosen {
				one.Path = v.With("state", "", "all", "")
			}
			p.Chips = append(p.Chips, one)
		}
		if v.Query("all") == "" && len(p.Groups) > problemsShown {
			p.More = len(p.Groups) - problemsShown
			p.Groups = p.Groups[:problemsShown]
		}
		return p, nil
	}}
}
