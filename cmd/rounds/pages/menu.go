package pages

import (
	"slices"
	"time"

	"github.com/rounds-dev/rounds/cmd/rounds/api"
)

// figures are the counts in the menu.
type figures struct {
	Known     bool // false: they could not be counted now
	Accounts  int
	Problems  int       // accounts that fail or are parked for a failure
	At        time.Time // when the problems were counted; zero: they were not counted yet
	Processes int
}

// Figures returns the counts in the menu. Everything else on the page that counts the same reads
// them here. A menu without counts is still a menu, so an error is shown as no counts.
func (v *visit) Figures() *figures {
	if v.figures != nil {
		return v.figures
	}
	v.figures = &figures{}
	problems := v.counted
	known := problems != nil || v.shared("/v1/problems?counts=true", &problems) == nil
	// A monitor has counted all accounts for its summary. To count them for a page would cost
	// several commands of Redis for each shard.
	path := "/v1/stats"
	if known && problems.Registered > 0 {
		path = "/v1/stats?counts=false"
	}
	var stats api.Stats
	if err := v.shared(path, &stats); err != nil {
		return v.figures
	}
	v.figures.Known, v.figures.Accounts = true, stats.Accounts.Registered
	// The last scan of all accounts counts failing ones, too, but is older: it takes a quarter of an
	// hour with a million.
	if known {
		v.figures.Accounts = max(v.figures.Accounts, problems.Registered)
		v.figures.Problems, v.figures.At = problems.Accounts, problems.At
	}
	for _, p := range stats.Processes {
		if p.Alive {
			v.figures.Processes++
		}
	}
	return v.figures
}

// entry is one entry of the menu.
type entry struct {
	Name, Path, Key string // Key: the letter that leads there after g
	Count           int    // 0: none
	Bad             bool   // the count is of something wrong
}

// Menu returns the entries that the visitor may open.
func (v *visit) Menu() []entry {
	f := v.Figures()
	all := []struct {
		entry
		route string
	}{
		{entry{Name: "overview", Path: "/", Key: "o"}, "GET /v1/stats"},
		{entry{Name: "problems", Path: "/problems", Key: "p", Count: f.Problems, Bad: true}, "GET /v1/problems"},
		{entry{Name: "accounts", Path: "/accounts", Key: "a", Count: f.Accounts}, "GET /v1/accounts"},
		{entry{Name: "charts", Path: "/charts", Key: "c"}, "GET /v1/activity"},
		{entry{Name: "messages", Path: "/messages", Key: "m"}, "GET /v1/messages"},
		{entry{Name: "delivery", Path: "/delivery", Key: "d"}, "GET /v1/groups"},
		{entry{Name: "limits", Path: "/limits", Key: "l"}, "GET /v1/limits"},
		{entry{Name: "system", Path: "/system", Key: "s"}, "GET /v1/reshard"},
		{entry{Name: "administration", Path: administrationPath, Key: "n"}, "GET /v1/keys"},
	}
	var entries []entry
	for _, one := range all {
		if v.May(one.route) && v.offers(one.Path) {
			entries = append(entries, one.entry)
		}
	}
	return entries
}

// offers reports whether there is a page at a path.
func (v *visit) offers(path string) bool {
	return slices.ContainsFunc(v.pages, func(p *page) bool { return p.path == path || path == "/" && p.path == "/{$}" })
}
