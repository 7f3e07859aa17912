package api

import (
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rounds-dev/rounds/accounts"
)

// query is the parameters of a request that no handler of huma reads, and what is wrong with them.
type query struct {
	selector accounts.Selector
	values   map[string]string // of the others
	faults   accounts.Faults
}

// readQuery reads the parameters that a route knows, each at most once, and those that select accounts
// if the route selects.
func readQuery(r *http.Request, selects bool, names ...string) *query {
	q := &query{values: make(map[string]string)}
	given, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		q.faults.Add(accounts.RecordField, "must be parameters, percent-encoded")
		return q
	}
	var fields []string
	if selects {
		fields = accounts.SelectorFields()
		q.selector, err = accounts.ParseSelector(given)
		errors.As(err, &q.faults)
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		switch {
		case slices.Contains(fields, name):
		case !slices.Contains(names, name):
			// If a misspelt parameter were ignored, more accounts would be selected.
			q.faults.Add(name, "is not a parameter of this route")
		case len(given[name]) > 1:
			q.faults.Add(name, "must be given once")
		default:
			q.values[name] = given[name][0]
		}
	}
	return q
}

// flag returns a parameter that is true or false. It is false if it is not given.
func (q *query) flag(name string) bool {
	text, ok := q.values[name]
	if !ok {
		return false
	}
	on, err := strconv.ParseBool(text)
	if err != nil {
		q.faults.Add(name, "must be true or false")
	}
	return on
}

// badQuery is the reply for parameters with faults.
func badQuery(err error) *errorReply {
	var faults accounts.Faults
	if !errors.As(err, &faults) {
		faults = accounts.Faults{{Reason: err.Error()}}
	}
	return newErrorReply(http.StatusUnprocessableEntity, "validation failed", detailsOf(faults, "query.")...)
}

// selecting describes the parameters of a route that selects.
func selecting(others ...*huma.Param) []*huma.Param {
	explode := true
	param := func(name, description string, words ...any) *huma.Param {
		return &huma.Param{
			Name: name, In: "query", Explode: &explode, Description: description,
			Schema: &huma.Schema{Type: huma.TypeArray, Items: &huma.Schema{Type: huma.TypeString, Enum: words}},
		}
	}
	var states []any
	for _, state := range accounts.States() {
		states = append(states, state)
	}
	return append([]*huma.Param{
		param("id", "Only the account with this id, or with one of several, at most 100."),
		param("kind", "Only accounts of this kind, or of one of several."),
		param("state", "Only accounts in this state, or in one of several. active: in circulation; parked: out of it, paused ones among them; failing: in circulation, and the last check failed; never_succeeded: in circulation and checked, but never with complete success. Neither has parked ones, as in all figures.", states...),
		param("label", "Only accounts that have this label, NAME=VALUE; of several, all."),
		param("prefix", "Only accounts whose id begins so, or with one of several."),
		param("reason", "Only parked accounts whose reason begins so, or with one of several."),
		param("error", "Only accounts whose last check failed with this code or kind, or with one of several."),
		param("cause", "Only accounts that fail, or are parked for a failure, because of this, or of one of several: the field cause of a group of /v1/problems. Paused accounts are not among them."),
		param("host", "Only accounts whose config names this host, at any port or at that of HOST:PORT, or this corporation, or one of several."),
		param("except_host", "Only accounts whose config does not name this host or corporation, or any of several."),
		{Name: "since", In: "query", Description: "Only accounts of which for at least so long no check has succeeded completely.", Schema: &huma.Schema{Type: huma.TypeString, Examples: []any{"1h"}}},
	}, others...)
}

// selection returns the parameters by which a request selects accounts, as they were given.
func selection(r *http.Request) map[string][]string {
	query := r.URL.Query()
	maps.DeleteFunc(query, func(name string, _ []string) bool { return !slices.Contains(accounts.SelectorFields(), name) })
	return query
}
