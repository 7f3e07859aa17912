package pages

import (
	"bytes"
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/cmd/rounds/api"
	"github.com/rounds-dev/rounds/cmd/rounds/locale"
)

const (
	// foundOfOne is the most findings of one sort, and foundUnasked without a text.
	foundOfOne, foundUnasked = 6, 30
	// hostsLast is how long the finder uses the hosts of the charts, which change slowly.
	hostsLast = 30 * time.Second
	// settingsAt is the page of the guide that has the table of settings. It is there in English alone.
	settingsAt = "/docs/guide/operations?lang=en#"
)

// Setting is a setting of the program, which people look up in the guide.
type Setting struct{ Name, About string }

// findings are what the finder found of one sort, such as accounts.
type findings struct {
	Sort  string // a text finder.SORT says what they are
	Found []finding
}

// finding is a place to which the finder leads. Nothing in it acts: an action is the page with its
// form.
type finding struct {
	To   string
	Text string
	More string // such as the state of an account; empty: nothing
	Bad  bool   // More says that something is wrong
}

// finds is what the finder shows.
type finds struct {
	Sorts   []findings
	Count   int
	Missing bool // accounts could not be looked up, or not all of them

	most int // of one sort
}

func (f *finds) add(sort string, found ...finding) {
	if len(found) == 0 {
		return
	}
	found = found[:min(len(found), f.most)]
	f.Sorts = append(f.Sorts, findings{sort, found})
	f.Count += len(found)
}

// answersFinder answers with the places that a text may mean, as a part of a page that has the finder.
// Without a text they are the pages and the actions.
func answersFinder(p *page) func(*visit, http.ResponseWriter) {
	return func(v *visit, w http.ResponseWriter) {
		var out bytes.Buffer
		if err := p.templates[v.lang.Tag].ExecuteTemplate(&out, "found", v.find(strings.TrimSpace(v.Query("q")))); err != nil {
			v.fail(w, v, err)
			return
		}
		h := w.Header()
		h.Set("Content-Type", "text/html; charset=utf-8")
		h.Add("Vary", "Accept-Language, Cookie")
		_, _ = w.Write(out.Bytes()) // a visitor who has gone needs no answer
	}
}

// find looks for everything that a text may mean. What is found at once stands first.
func (v *visit) find(text string) *finds {
	f := &finds{most: foundOfOne}
	if text == "" {
		f.most = foundUnasked
	}
	words := strings.Fields(strings.ToLower(text))
	accounts, same := v.findAccounts(f, text)
	if same {
		f.add("accounts", accounts...)
	}
	f.add("pages", v.named(words, v.places())...)
	f.add("actions", v.named(words, v.deeds())...)
	if text == "" {
		return f
	}
	if !same {
		f.add("accounts", accounts...)
	}
	hosts, causes := v.findProblems(words)
	f.add("hosts", hosts...)
	f.add("errors", causes...)
	f.add("settings", v.findSettings(words)...)
	f.add("search", v.searches(text)...)
	return f
}

// place is a page or an action, and the route that a visitor needs for it.
type place struct {
	to, key string
	may     bool
}

// places returns the pages that the visitor may open.
func (v *visit) places() []place {
	var all []place
	for _, e := range v.Menu() {
		all = append(all, place{e.Path, "menu." + e.Name, true})
	}
	return append(all,
		place{"/jobs", "jobs.title", v.May("GET /v1/jobs")},
		place{"/delivery/sends", "sends.title", v.May("GET /v1/sends")},
		place{"/trail", "trail.title", v.May("GET /v1/trail")},
		place{"/docs/guide", "layout.guide", true},
		place{"/docs", "finder.api", true})
}

// deeds returns the pages with the forms of what the visitor may do.
func (v *visit) deeds() []place {
	return []place{
		{newPath, "edit.new", v.May("POST /v1/accounts")},
		{"/account/weixin", "weixin.title", v.MayScan()},
		{"/account/mail", "mail.add", v.MayMail()},
		{"/accounts", "finder.many", v.May("POST /v1/accounts:pause")},
		{"/problems", "finder.revive", v.May("POST /v1/parked:revive")},
		{"/accounts/moving", "moving.title", v.MayMove()},
		{"/limits#maintenance", "finder.maintenance", v.May("PUT /v1/maintenance/{name}")},
		{"/delivery#letters-title", "finder.letters", v.May("POST /v1/dead:replay")},
		{"/system#law-title", "system.audit", v.May("GET /v1/audit")},
		{"/system#shards-title", "finder.reshard", v.May("POST /v1/reshard")},
		{"/administration#keys-of-api", "administration.create", v.May("POST /v1/keys")},
	}
}

// named returns the places whose name has all words, in the visitor's language or in English.
func (v *visit) named(words []string, places []place) []finding {
	var all []finding
	for _, p := range places {
		name := v.lang.text(p.key)
		if p.may && hasAll(words, name, v.languages[0].text(p.key)) {
			all = append(all, finding{To: p.to, Text: name})
		}
	}
	return all
}

// hasAll reports whether one of some texts has all words, which are in lower case.
func hasAll(words []string, texts ...string) bool {
	return slices.ContainsFunc(texts, func(text string) bool {
		text = strings.ToLower(text)
		return !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(text, w) })
	})
}

// findAccounts returns the accounts whose ids have the text, and whether the first one's is the text.
func (v *visit) findAccounts(f *finds, text string) (all []finding, same bool) {
	if text == "" || len(text) > mostID {
		return nil, false
	}
	shown := func(a *api.Account) finding {
		state := listed(a.State)
		name := "state." + state
		if !v.lang.has(name) {
			name = "account." + name
		}
		return finding{link("/account", "id", a.ID), a.ID, a.Kind + " · " + v.lang.text(name), state == "failing" || state == "parked"}
	}
	var one api.Account
	switch err := v.get(accountPath(text), &one); {
	case err == nil:
		all, same = append(all, shown(&one)), true
	case refusedFor(err, http.StatusNotFound) == nil:
		f.Missing = true
	}
	var page api.AccountList
	if err := v.get(link("/v1/accounts", "part", text, "limit", "6"), &page); err != nil {
		f.Missing = true
		return all, same
	}
	for i := range page.Accounts {
		if page.Accounts[i].ID != one.ID {
			all = append(all, shown(&page.Accounts[i]))
		}
	}
	f.Missing = f.Missing || page.Next != "" && len(page.Accounts) < foundOfOne
	return all, same
}

// findProblems returns hosts that have the words, the failing ones first, and causes of failures.
func (v *visit) findProblems(words []string) (hosts, causes []finding) {
	var problems api.Problems
	v.ifMay("GET /v1/problems", "/v1/problems", &problems)
	seen := make(map[string]bool)
	failing := make(map[string]int)
	for i := range problems.Groups {
		g := &problems.Groups[i]
		failing[g.Host] += g.Accounts
		if text := v.lang.spoken().Translate(g.Text); !seen[g.Cause] && hasAll(words, g.Code+" "+g.Text, text) {
			seen[g.Cause] = true
			causes = append(causes, finding{link("/problems", "cause", g.Cause), g.Code, text, true})
		}
	}
	for host, n := range failing {
		if host != "" && hasAll(words, host) {
			hosts = append(hosts, finding{link("/problems", "host", host), host, v.lang.text("finder.failing", n), true})
		}
	}
	slices.SortFunc(hosts, func(a, b finding) int {
		return cmp.Or(failing[b.Text]-failing[a.Text], strings.Compare(a.Text, b.Text))
	})
	if v.May("GET /v1/activity") {
		var busy api.Activity
		_ = v.sharedWithin("/v1/activity?from=10m", "", hostsLast, &busy) // without them there are fewer hosts
		for _, h := range busy.Hosts {
			if failing[h.Name] == 0 && hasAll(words, h.Name) {
				hosts = append(hosts, finding{To: link("/accounts", "host", h.Name), Text: h.Name})
			}
		}
	}
	return hosts, causes
}

// findSettings returns the settings that have the words, those first whose names do.
func (v *visit) findSettings(words []string) []finding {
	var first, others []finding
	for _, s := range v.options.Settings {
		about := v.lang.spoken().Translate(s.About)
		found := finding{To: settingsAt + s.Name, Text: s.Name, More: about}
		if hasAll(words, s.Name) {
			first = append(first, found)
		} else if hasAll(words, s.About, about) {
			others = append(others, found)
		}
	}
	return append(first, others...)
}

// searches returns where else a text can be looked for.
func (v *visit) searches(text string) []finding {
	var all []finding
	if to, key := v.meaning(text); to != "" {
		all = append(all, finding{To: to, Text: v.lang.text(key, text)})
	} else if !strings.ContainsAny(text, " /=@") && strings.Contains(text, ".") {
		all = append(all, finding{To: link("/accounts", "host", text), Text: v.lang.text("finder.host", text)})
	}
	all = append(all, finding{To: link("/accounts", "part", text), Text: v.lang.text("finder.part", text)})
	if v.May("GET /v1/messages:search") {
		all = append(all, finding{To: link("/messages", "text", text), Text: v.lang.text("finder.text", text)})
	}
	guide := "/docs/guide"
	if v.lang.spoken() == locale.Chinese {
		guide += "/zh-CN"
	}
	return append(all, finding{To: link(guide, "q", text), Text: v.lang.text("finder.guide", text)})
}

// meaning returns the address of what a text means that is no part of an id, and the text that says
// what it is: a label, NAME=VALUE, or the address of a feed that somebody adds. Otherwise it returns
// empty texts.
func (v *visit) meaning(text string) (to, key string) {
	if at, err := url.Parse(text); err == nil && (at.Scheme == "http" || at.Scheme == "https") && at.Host != "" && at.User == nil {
		if v.May("POST /v1/accounts") {
			return link(newPath, "kind", "feed", "url", text, "id", idOf(at)), "finder.feed"
		}
	} else if name, value, ok := strings.Cut(text, "="); ok && name != "" && value != "" {
		return link("/accounts", "label", text), "finder.label"
	}
	return "", ""
}
