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

// readQuery reads the parameters that select accounts, and the others that the route
// knows, each at most once. It returns every fault as accounts.Faults.
func readQuery(r *http.Request, others ...string) (accounts.Selector, map[string]string, error) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return accounts.Selector{}, nil, accounts.Faults{{Field: accounts.RecordField, Reason: "must be parameters, percent-encoded"}}
	}
	chosen, err := accounts.ParseSelector(query)
	var faults accounts.Faults
	errors.As(err, &faults)
	more := make(map[string]string)
	for _, name := range slices.Sorted(maps.Keys(query)) {
		switch {
		case slices.Contains(accounts.SelectorFields(), name):
		case !slices.Contains(others, name):
			// If a misspelt parameter were ignored, more accounts would be selected.
			faults = append(faults, accounts.Fault{Field: name, Reason: "is not a parameter of this route"})
		case len(query[name]) > 1:
			faults = append(faults, accounts.Fault{Field: name, Reason: "must be given once"})
		default:
			more[name] = query[name][0]
		}
	}
	if len(faults) > 0 {
		return chosen, more, faults
	}
	return chosen, more, nil
}

// readFlag reads a parameter that is true or false. It is false if it is not given.
func readFlag(values map[string]string, name string) (bool, accounts.Faults) {
	text, ok := values[name]
	if !ok {
		return false, nil
	}
	on, err := strconv.ParseBool(text)
	if err != nil {
		return false, accounts.Faults{{Field: name, Reason: "must be true or false"}}
	}
	return on, nil
}

// badQuery is the reply for parameters with faults.
func badQuery(err error) *errorReply {
	var faults accounts.Faults
	if !errors.As(err, &faults) {
		faults = accounts.Faults{{Reason: err.Error()}}
	}
	return newErrorReply(http.StatusUnprocessableEntity, "validation failed", detailsOf(faults, "query.")...)
}

// selecting describes the parameters of readQuery.
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
