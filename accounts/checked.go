package accounts

import (
	"net/url"
	"slices"
	"strings"

	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/circulate"
)

// failing reports whether the last check of an account failed, whatever the cause: an
// operator must see every account that is checked in vain.
func failing(v *circulate.View) bool {
	if len(v.History.Marks) == 0 {
		return false
	}
	word := MarkWord(v.History.Marks[0])
	return word != MarkOK && word != MarkMore
}

// asksChecks reports whether the selector asks for the results of checks, which need a
// full look.
func (s *Selector) asksChecks() bool {
	return len(s.Errors)+len(s.Hosts) > 0 || s.Since > 0 || slices.ContainsFunc(s.States, ofChecks)
}

// ofChecks reports whether a state is about checks and not about a place.
func ofChecks(state string) bool { return state == StateFailing || state == StateNeverSucceeded }

// checked reports whether the results of an account's checks are selected.
func (s *Selector) checked(v *circulate.View) bool {
	if s.Since > 0 && v.Now.Sub(v.History.Succeeded) < s.Since {
		return false
	}
	if len(s.Errors) > 0 && !slices.ContainsFunc(s.Errors, func(word string) bool { return failedWith(v, word) }) {
		return false
	}
	return len(s.Hosts) == 0 || slices.Contains(s.Hosts, hostOf(v.Record))
}

// failedWith reports whether the last check failed with a code, or with a kind of failure.
// The kept text begins with the code: "http_503: …".
func failedWith(v *circulate.View, word string) bool {
	if !failing(v) {
		return false
	}
	code, _, _ := strings.Cut(v.Error, ": ")
	return word == code || word == MarkWord(v.History.Marks[0])
}

// hostOf returns the host in an account's config: that of url or base_url, or the field
// host. It is empty if the config has none of these.
func hostOf(record []byte) string {
	fields, err := strict.Stored(record)
	if err != nil {
		return ""
	}
	config, _ := strict.Members(fields["config"])
	for _, name := range []string{"url", "base_url"} {
		if text, ok := strict.TextIn(config, name); ok {
			if u, err := url.Parse(text); err == nil {
				return strings.ToLower(u.Hostname())
			}
		}
	}
	host, _ := strict.TextIn(config, "host")
	return strings.ToLower(host)
}
