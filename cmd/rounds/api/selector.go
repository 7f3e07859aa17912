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
		param("id", "Only accounts with one of these ids, at most 100."),
		param("kind", "Only accounts of one of these kinds."),
		param("state", "Only accounts in one of these states. active: in circulation; parked: out of circulation, paused accounts included; failing: the last check failed; never_succeeded: checked, but never with complete success.", states...),
		param("label", "Only accounts that have all of these labels, each as NAME=VALUE."),
		param("prefix", "Only accounts whose id begins with one of these."),
		param("reason", "Only parked accounts whose reason begins with one of these."),
		param("error", "Only accounts whose last check failed with one of these codes or kinds."),
		param("cause", "Only accounts that fail, or are parked for a failure, for one of these causes: the field cause of a group of /v1/problems. Paused accounts are not among them."),
		param("host", "Only accounts whose config names one of these hosts, at any port or as HOST:PORT, or one of these corporations."),
		param("except_host", "Only accounts whose config names none of these hosts or corporations."),
		{Name: "since", In: "query", Description: "Only accounts without a complete success for at least this long.", Schema: &huma.Schema{Type: huma.TypeString, Examples: []any{"1h"}}},
	}, others...)
}

// selection returns the parameters by which a request selects accounts, as they were given.
func selection(r *http.Request) map[string][]string {
	query := r.URL.Query()
	maps.DeleteFunc(query, func(name string, _ []string) bool { return !slices.Contains(accounts.SelectorFields(), name) })
	return query
}
