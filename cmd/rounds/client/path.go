package client

import (
	"maps"
	"net/url"
	"slices"
	"strconv"

	"github.com/rounds-dev/rounds/accounts"
)

// namedPath returns a path that ends in a name. A name may contain slashes, and a name of dots must
// not look like a directory.
func namedPath(before, name string) string {
	escaped := url.PathEscape(name)
	switch escaped {
	case ".":
		escaped = "%2E"
	case "..":
		escaped = "%2E%2E"
	}
	return before + escaped
}

// queryPath returns a path with parameters, which are pairs of name and value. Parameters
// without a value are left out.
func queryPath(path string, pairs ...string) string {
	values := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			values.Add(pairs[i], pairs[i+1])
		}
	}
	if len(values) == 0 {
		return path
	}
	return path + "?" + values.Encode()
}

// pagePath returns the path of a page of a list.
func pagePath(path, cursor string, limit int, pairs ...string) string {
	if limit > 0 {
		pairs = append(pairs, "limit", strconv.Itoa(limit))
	}
	return queryPath(path, append(pairs, "cursor", cursor)...)
}

// selection returns the parameters of a selector.
func selection(s accounts.Selector) []string {
	var pairs []string
	add := func(name string, values []string) {
		for _, value := range values {
			pairs = append(pairs, name, value)
		}
	}
	add("id", s.IDs)
	add("kind", s.Kinds)
	add("state", s.States)
	for _, name := range slices.Sorted(maps.Keys(s.Labels)) {
		pairs = append(pairs, "label", name+"="+s.Labels[name])
	}
	add("prefix", s.Prefixes)
	add("reason", s.Reasons)
	add("error", s.Errors)
	add("cause", s.Causes)
	add("host", s.Hosts)
	add("except_host", s.Except)
	if s.Since > 0 {
		pairs = append(pairs, "since", s.Since.String())
	}
	return pairs
}
