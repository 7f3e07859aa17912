package pages

import (
	"cmp"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/rounds-dev/rounds/cmd/rounds/api"
)

// overview is what the Overview shows.
type overview struct {
	*visit

	Stats    api.Stats
	Law      *lawState // nil: the visitor may not see it, or it is unknown now
	Concerns *api.Concerns
	Rates    rates

	Headrooms []api.Headroom // the least first
	Demo      *demoPollers   // nil: this is not a demo
}

// lawState is what audits have found about the conservation law.
type lawState struct {
	api.Law
	Last    *audited `json:"last"`
	Running *audited `json:"running"`
	Broken  *audited `json:"broken"`
}

// audited is an audit, as far as it has come.
type audited struct{ api.AuditResult }

// Found returns how many findings of a kind there are, repaired ones included.
func (a *audited) Found(kind api.Violation) int {
	found, _ := a.AuditResult.Found(kind)
	return found
}

// Others returns how many findings there are besides lost and doubled accounts.
func (a *audited) Others() (n int) {
	for _, k := range a.Kinds {
		if k.Kind != "lost" && k.Kind != "doubled" {
			n += k.Found
		}
	}
	return n
}

// Class returns how good the state is: good, warn, bad, or an empty text while it is unknown.
func (l *lawState) Class() string {
	switch l.State {
	case "kept", "repaired":
		return "good"
	case "violated":
		return "bad"
	case "first", "never":
		return ""
	}
	return "warn"
}

// shownReplicas is the most replicas in the table.
const shownReplicas = 50

func overviewPage() *page {
	p := &page{
		name: "overview", path: "/{$}", menu: "overview", scripts: []string{"charts.js"}, data: showOverview,
		actions: map[string]action{"/demo/kill": killPoller, "/concern": sayOfConcern},
	}
	p.raw = map[string]func(*visit, http.ResponseWriter){"GET /search": search, "GET /finder": answersFinder(p)}
	return p
}

func showOverview(v *visit) (any, error) {
	o := &overview{visit: v}
	if err := v.shared("/v1/stats", &o.Stats); err != nil {
		return nil, err
	}
	// The rest may be missing: a page without it is better than none.
	v.ifMay("GET /v1/law", "/v1/law", &o.Law)
	v.ifMay("GET /v1/concerns", "/v1/concerns", &o.Concerns)
	o.Rates, o.Demo = v.rates(), v.demo()
	slices.SortFunc(o.Stats.Replicas, func(a, b api.Replica) int {
		if a.Alive != b.Alive {
			return cmp.Compare(map[bool]int{true: 1}[a.Alive], map[bool]int{true: 1}[b.Alive]) // silent ones first
		}
		return cmp.Or(cmp.Compare(a.Host, b.Host), cmp.Compare(a.Name, b.Name))
	})
	if s := o.Stats.Staleness; s != nil {
		o.Headrooms = slices.SortedFunc(slices.Values(s.Headroom), func(a, b api.Headroom) int { return cmp.Compare(a.Least, b.Least) })
	}
	return o, nil
}

// ifMay asks the API for something that not every visitor may see, shared with other visitors. into
// stays as it is if this visitor may not, or if the API cannot say now.
func (v *visit) ifMay(route, path string, into any) {
	if v.May(route) {
		_ = v.shared(path, into) // the page shows what it knows
	}
}

// Replicas returns the replicas of the table.
func (o *overview) Replicas() []api.Replica {
	return o.Stats.Replicas[:min(len(o.Stats.Replicas), shownReplicas)]
}

// MoreReplicas returns how many replicas the table leaves out.
func (o *overview) MoreReplicas() int { return max(0, len(o.Stats.Replicas)-shownReplicas) }

// roleCount is how many processes have a role.
type roleCount struct {
	Role string
	N    int
}

// Roles counts the living processes by role.
func (o *overview) Roles() []roleCount {
	all := []roleCount{{Role: "poller"}, {Role: "monitor"}, {Role: "api"}, {Role: "delivery"}}
	for _, p := range o.Stats.Processes {
		for i := range all {
			if p.Alive && slices.Contains(p.Roles, all[i].Role) {
				all[i].N++
			}
		}
	}
	return slices.DeleteFunc(all, func(r roleCount) bool { return r.N == 0 })
}

// Flying returns how many checks are under way, and how many could be at once.
func (o *overview) Flying() (flying [2]int) {
	for _, r := range o.Stats.Replicas {
		if r.Alive {
			flying[0], flying[1] = flying[0]+r.InFlight, flying[1]+r.Concurrency
		}
	}
	return flying
}

// Held returns how many calls third parties hold.
func (o *overview) Held() (held int) {
	for _, r := range o.Stats.Replicas {
		if r.Alive {
			held += r.Held
		}
	}
	return held
}

// part is one place in the bar of all accounts, in thousandths of its width.
type part struct {
	Place    string
	X, Width int
}

// Bar returns the parts of the bar. A place with any account is wide enough to be seen.
// Scheduled has the width that the others leave.
func (o *overview) Bar() []part {
	const whole, least = 1000, 8
	a := o.Stats.Accounts
	places := []struct {
		name string
		n    int
	}{{"scheduled", a.Scheduled}, {"waiting", a.Waiting}, {"claimed", a.Claimed}, {"parked", a.Parked}}
	all, reserved := 0, 0 // for the places that are still to come
	for _, p := range places {
		if p.n > 0 {
			all, reserved = all+p.n, reserved+least
		}
	}
	var parts []part
	end := whole
	for _, p := range slices.Backward(places) {
		if p.n <= 0 {
			continue
		}
		reserved -= least
		width := min(max(p.n*whole/all, least), end-reserved)
		if p.name == "scheduled" {
			width = end
		}
		end -= width
		parts = append(parts, part{p.name, end, width})
	}
	slices.Reverse(parts)
	return parts
}

// LawFault returns the audit that found lost or doubled accounts, the latest first.
func (o *overview) LawFault() *audited {
	for _, a := range []*audited{o.Law.Running, o.Law.Broken, o.Law.Last} {
		if a != nil && a.Found("lost")+a.Found("doubled") > 0 {
			return a
		}
	}
	return nil
}

// Bound returns the labels to which the visitor is bound, such as team=press, or an empty text.
func (o *overview) Bound() string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(o.Stats.Labels)) {
		all = append(all, name+"="+o.Stats.Labels[name])
	}
	return strings.Join(all, ", ")
}

// LeastShown returns leastShown to the script that draws charts.
func (o *overview) LeastShown() int { return leastShown }
