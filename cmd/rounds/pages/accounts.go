package pages

import (
	"cmp"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/rounds-dev/rounds/cmd/rounds/api"
)

// filterNames are the parameters that select accounts, in the order of their fields.
// givenNames are the ones without a field: links of other pages have them.
var (
	filterNames = []string{"part", "kind", "state", "label", "host", "error", "reason", "since", "until", "prefix", "cause", "except_host", "secret", "id"}
	givenNames  = []string{"until", "prefix", "cause", "except_host", "secret", "id"}
)

// chipsOfOne is the most values of one filter that are each shown.
const chipsOfOne = 3

// stateNames are the states by which accounts can be selected.
var stateNames = []string{"active", "failing", "never_succeeded", "late", "paused", "parked", "scheduled", "waiting", "claimed"}

// columnNames are the columns that a list can have besides the id. columnsShown are the ones that
// it has unless the address says otherwise.
var (
	columnNames  = []string{"kind", "state", "due", "success", "error", "failures", "cadence", "priority", "labels", "created", "updated", "replica"}
	columnsShown = []string{"kind", "state", "due", "success", "error"}
)

const (
	pageRows = 50
	mostRows = 100 // as many accounts as can be selected by their ids

	mostID = 256 // bytes of an id
)

// fillFor is how long a page goes on looking for accounts until it is shown as it is. The page then
// says how many accounts were looked at, and goes on by itself.
const fillFor = 200 * time.Millisecond

// mostLive is the most bytes of the address of a page's live rows. It has all their ids.
const mostLive = 6 << 10

// countLooks is roughly how many accounts a count looks at, so that its page keeps nobody waiting.
// With more accounts the count is an estimate.
const countLooks = "10000"

// choice is something that can be chosen.
type choice struct {
	Name string
	On   bool
}

// filter is a field of the form that selects accounts.
type filter struct {
	Name   string
	Values []string // at least one, which may be empty
	Of     []string // what there is to choose; nil: any text
	Given  bool     // the form has no field for it
}

// accountsList is what the page shows.
type accountsList struct {
	Filters  []filter
	Chosen   []choiceOf // the filters in force
	Columns  []choice
	On       map[string]bool // columns that are shown
	Sort     string          // the order; empty: that of the ids
	Sorts    map[string]sorting
	Accounts []row
	Next     string
	First    string
	Limit    int
	Sizes    []int
	Partial  bool   // the filter has looked at only some accounts, and the page may be short
	Looked   int    // how many accounts were looked at; 0: not known
	Of       int    // how many there are; 0: not known
	More     string // the address of further rows of this page; empty: there are none
	at       string // the address of the live rows
	Count    *api.AccountCount
	Counting string // the address that counts the accounts; empty: nothing to count
	Refused  *problem
	Actions  []string    // the actions on many accounts that the visitor may order
	Empty    bool        // there is no account at all
	Jobs     []*shownJob // changes of many accounts that are under way
	Export   string      // the address of the selected accounts' records
	OPML     string      // the address of the feeds among them; empty: none of the selected kinds has feeds
	Others   bool        // accounts of other kinds may be selected too, which OPML leaves out
	Trail    string      // the address of what happened to an account that may be gone; empty: none
	Views    *savedViews
}

// sorting is how the list can be sorted by a column.
type sorting struct {
	Address string // the list in the column's order or, if it is in that order, in none
	Aria    string // the order, as aria-sort has it
}

// sortsOf returns the columns by which the list can be sorted.
func (v *visit) sortsOf(now string) map[string]sorting {
	sorts := make(map[string]sorting)
	for name, aria := range map[string]string{"due": "ascending", "success": "ascending", "failures": "descending"} {
		to := name
		if name == now {
			to = ""
		} else {
			aria = ""
		}
		sorts[name] = sorting{v.With("sort", to, "cursor", "", "looked", "", "rest", "", "said", ""), aria}
	}
	return sorts
}

// row is an account in the list.
type row struct {
	api.Account
	Gone bool // it was deregistered while its row was shown
}

// liveAt returns the address of the live rows: the accounts that the page shows, whatever becomes of
// them, so that no row moves.
func (l *accountsList) liveAt() string { return l.at }

// still reports whether the page has no live rows.
func (l *accountsList) still() bool { return l.at == "" }

// choiceOf is a value of a filter, and the address without it.
type choiceOf struct {
	Name, Value, Without string
	Many                 int // the number of values, if they are not each shown
}

// Shown returns the value for people, without the digest that follows the sign ~ in the name of a
// cause.
func (c choiceOf) Shown() string {
	if c.Name == "cause" {
		code, _, _ := strings.Cut(c.Value, "~")
		return code
	}
	return c.Value
}

// chipsOf returns the values of a query's filters. without returns the address without some of
// them.
func chipsOf(chosen url.Values, without func(name string, values []string) string) []choiceOf {
	var all []choiceOf
	for _, name := range filterNames {
		values := chosen[name]
		if len(values) > chipsOfOne && slices.Contains(givenNames, name) {
			all = append(all, choiceOf{Name: name, Many: len(values), Without: without(name, values)})
			continue
		}
		for _, value := range values {
			all = append(all, choiceOf{Name: name, Value: value, Without: without(name, []string{value})})
		}
	}
	return all
}

// bulkActions are the actions on many accounts.
var bulkActions = []string{"pause", "resume", "retry", "nudge", "set", "delete"}

func accountsPage() *page {
	return &page{
		name: "accounts", path: "/accounts", menu: "accounts", scripts: []string{"accounts.js"}, data: listAccounts,
		actions: map[string]action{viewsPath: doView},
		raw:     map[string]func(*visit, http.ResponseWriter){"GET /accounts/filter": tidyFilters, "GET /accounts/choose": chooseAccounts},
	}
}

// selected returns the parameters of a query that select accounts, without empty ones.
func selected(q url.Values) url.Values {
	chosen := url.Values{}
	for _, name := range filterNames {
		for _, value := range q[name] {
			if value = strings.TrimSpace(value); value != "" && !slices.Contains(chosen[name], value) {
				chosen.Add(name, value)
			}
		}
	}
	return chosen
}

// tidyFilters sends the browser to the list without the fields that were left empty.
func tidyFilters(v *visit, w http.ResponseWriter) {
	q := v.r.URL.Query()
	tidy := selected(q)
	for _, name := range q["col"] {
		if slices.Contains(columnNames, name) && !slices.Equal(q["col"], columnsShown) {
			tidy.Add("col", name)
		}
	}
	if len(q["col"]) == 0 && q.Has("cols") {
		tidy.Set("col", "none")
	}
	if sort := q.Get("sort"); sort != "" {
		tidy.Set("sort", sort)
	}
	if limit := rowsOf(q); limit != pageRows {
		tidy.Set("limit", strconv.Itoa(limit))
	}
	http.Redirect(w, v.r, address("/accounts", tidy), http.StatusSeeOther)
}

func rowsOf(q url.Values) int {
	n, err := strconv.Atoi(q.Get("limit"))
	if err != nil || n < 1 {
		return pageRows
	}
	return min(n, mostRows)
}

func listAccounts(v *visit) (any, error) {
	q := v.r.URL.Query()
	chosen := selected(q)
	kinds, err := v.kinds()
	if err != nil {
		return nil, err
	}
	l := &accountsList{Limit: rowsOf(q), Sizes: []int{25, pageRows, mostRows}, On: make(map[string]bool), Sort: q.Get("sort")}
	l.Sorts = v.sortsOf(l.Sort)
	for _, name := range filterNames {
		f := filter{Name: name, Values: chosen[name], Given: slices.Contains(givenNames, name)}
		switch name {
		case "kind":
			for _, k := range kinds {
				f.Of = append(f.Of, k.Name)
			}
		case "state":
			f.Of = stateNames
		}
		for _, value := range f.Values {
			if f.Of != nil && !slices.Contains(f.Of, value) {
				f.Of = append(slices.Clone(f.Of), value)
			}
		}
		if len(f.Values) == 0 && !f.Given {
			f.Values = []string{""}
		}
		l.Filters = append(l.Filters, f)
	}
	l.Chosen = chipsOf(chosen, func(name string, values []string) string {
		rest := v.r.URL.Query()
		rest.Del("cursor")
		rest.Del("said")
		rest[name] = slices.DeleteFunc(rest[name], func(one string) bool { return slices.Contains(values, strings.TrimSpace(one)) })
		return address("/accounts", rest)
	})
	columns := columnsShown
	if q.Has("col") {
		columns = q["col"]
	}
	for _, name := range columnNames {
		l.On[name] = slices.Contains(columns, name)
		l.Columns = append(l.Columns, choice{name, l.On[name]})
	}
	for _, action := range bulkActions {
		if v.May("POST /v1/accounts:" + action) {
			l.Actions = append(l.Actions, action)
		}
	}
	query := selected(q)
	for _, name := range []string{"sort", "col"} {
		if q.Get(name) != "" {
			query[name] = q[name]
		}
	}
	l.Views = v.views("accounts", query)
	l.Export = address("/v1/accounts:export", chosen)
	if of := chosen["kind"]; len(of) == 0 || slices.Contains(of, "feed") {
		feeds := maps.Clone(chosen)
		feeds.Set("format", "opml")
		l.OPML, l.Others = address("/v1/accounts:export", feeds), len(of) != 1
	}
	l.Jobs, _ = v.jobs(func(j *api.Job) bool { return j.State == "running" || j.State == "stopping" }) // the list is worth showing without them
	ask := selected(q)
	if len(chosen) > 0 && q.Get("count") != "" {
		l.Count = new(api.AccountCount)
		ask.Set("looks", countLooks)
		err = v.get(address("/v1/accounts:count", ask), l.Count)
		ask.Del("looks")
	} else if len(chosen) > 0 {
		l.Counting = v.With("count", "1", "cursor", q.Get("cursor"))
	}
	if l.Sort != "" {
		ask.Set("sort", l.Sort)
	}
	cursor := q.Get("cursor")
	if cursor != "" {
		l.First = v.With("looked", "", "rest", "")
	}
	if err == nil {
		err = v.fill(l, ask, cursor, v.restOf(l.Limit))
	}
	if l.Refused = refusedFor(err, http.StatusUnprocessableEntity); l.Refused != nil {
		l.Counting, l.Count, l.First = "", nil, ""
		return l, nil
	}
	if err != nil {
		return nil, err
	}
	live := url.Values{"limit": {strconv.Itoa(l.Limit)}}
	if q.Has("col") {
		live["col"] = q["col"]
	}
	for i := range l.Accounts {
		live.Add("id", l.Accounts[i].ID)
	}
	if l.at = address("/accounts", live); len(l.at) > mostLive || len(l.Accounts) == 0 {
		l.at = ""
	}
	if part := chosen.Get("part"); len(l.Accounts) == 0 && !l.Partial && part != "" && v.May("GET /v1/trail") {
		l.Trail = link("/trail", "account", part)
	}
	l.Empty = len(l.Accounts) == 0 && len(chosen) == 0 && l.Next == "" && l.First == ""
	return l, nil
}

// restOf returns how many rows the page still needs. A page that goes on by itself asks for them.
func (v *visit) restOf(limit int) int {
	if n, err := strconv.Atoi(v.Query("rest")); err == nil && n > 0 {
		return min(n, limit)
	}
	return limit
}

// fill looks for so many accounts, until there are no more or the visitor has waited for a while.
func (v *visit) fill(l *accountsList, ask url.Values, cursor string, rows int) error {
	before, _ := strconv.Atoi(v.Query("looked"))
	l.Looked = max(0, before)
	for began := time.Now(); ; {
		if ask.Set("limit", strconv.Itoa(rows-len(l.Accounts))); cursor != "" {
			ask.Set("cursor", cursor)
		}
		var page api.AccountList
		get := v.get
		if v.lives() { // many may watch the same rows
			get = v.shared
		}
		if err := get(address("/v1/accounts", ask), &page); err != nil {
			return err
		}
		for i := range page.Accounts {
			l.Accounts = append(l.Accounts, row{Account: page.Accounts[i]})
		}
		l.Looked, cursor = l.Looked+page.Looked, page.Next
		if cursor == "" || len(l.Accounts) >= rows || time.Since(began) >= fillFor || v.r.Context().Err() != nil {
			break
		}
	}
	if v.lives() {
		l.keepPlaces(v.r.URL.Query()["id"])
	}
	if cursor == "" {
		return nil
	}
	l.Next = v.With("cursor", cursor, "looked", "", "rest", "")
	if l.Partial = (len(selected(ask)) > 0 || l.Sort != "") && len(l.Accounts) < rows; l.Partial {
		looked := strconv.Itoa(l.Looked)
		l.Next = v.With("cursor", cursor, "looked", looked, "rest", "")
		l.More = v.With("cursor", cursor, "looked", looked, "rest", strconv.Itoa(rows-len(l.Accounts)))
		if l.Of = v.Figures().Accounts; l.Of < l.Looked {
			l.Of = 0
		}
	}
	return nil
}

// keepPlaces puts the rows in the order of the ids, with those that are gone in their places.
func (l *accountsList) keepPlaces(ids []string) {
	found := make(map[string]row, len(l.Accounts))
	for _, one := range l.Accounts {
		found[one.ID] = one
	}
	l.Accounts = l.Accounts[:0]
	for _, id := range ids {
		one, ok := found[id]
		if !ok {
			one = row{Account: api.Account{ID: id}, Gone: true}
		}
		l.Accounts = append(l.Accounts, one)
	}
}

// chooseAccounts sends the browser to the page that asks for confirmation before many accounts are
// changed. The form has the ids that were checked, and the filters in force.
func chooseAccounts(v *visit, w http.ResponseWriter) {
	q := v.r.URL.Query()
	next := url.Values{}
	action := cmp.Or(q.Get("do"), q.Get("all"))
	switch {
	case !slices.Contains(bulkActions, action):
		v.fail(w, v, refusal(http.StatusUnprocessableEntity, v.lang.text("bulk.unknown")))
		return
	case q.Get("do") != "":
		if len(q["pick"]) == 0 {
			back := selected(q)
			back.Set("said", "accounts.none")
			http.Redirect(w, v.r, address("/accounts", back), http.StatusSeeOther)
			return
		}
		next["id"] = q["pick"]
	default:
		if next = selected(q); len(next) == 0 {
			next.Set("all", "true")
		}
	}
	next.Set("do", action)
	http.Redirect(w, v.r, address("/accounts/bulk", next), http.StatusSeeOther)
}

// search sends the browser to the account whose id was searched for, or else to the accounts whose ids
// have it. What no id has may be a label, NAME=VALUE, or the address of a feed that somebody adds.
func search(v *visit, w http.ResponseWriter) {
	text := strings.TrimSpace(v.Query("q"))
	to := link("/accounts", "part", text)
	if text != "" {
		err := v.get(accountPath(text), nil)
		switch refused := refusedFor(err); {
		case err == nil:
			to = link("/account", "id", text)
		case refused == nil || refused.Status != http.StatusNotFound && refused.Status < 500:
			v.fail(w, v, err)
			return
		default:
			to = cmp.Or(v.otherwise(text), to)
		}
	}
	http.Redirect(w, v.r, to, http.StatusSeeOther)
}

// otherwise returns the address of what a text means that is no part of an id, or an empty text.
func (v *visit) otherwise(text string) string {
	to, _ := v.meaning(text)
	if to == "" {
		return ""
	}
	var found api.AccountList
	if err := v.get(link("/v1/accounts", "part", text, "limit", "1"), &found); err == nil && len(found.Accounts) > 0 {
		return ""
	}
	return to
}

// idOf returns the id that is suggested for a feed: where it is, without its query, which may have a key.
func idOf(at *url.URL) string {
	id := strings.TrimSuffix(at.Host+at.Path, "/")
	for len(id) > mostID {
		_, size := utf8.DecodeLastRuneInString(id)
		id = id[:len(id)-size]
	}
	return id
}
