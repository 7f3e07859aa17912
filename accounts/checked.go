package accounts

import (
	"net/url"
	"slices"
	"strings"

	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/circulate"
)

// failing reports whether the last check of an account failed. It does
// not matter here who is to blame: an account that is checked in vain must show.
func failing(v *circulate.View) bool {
	if len(v.History.Marks) == 0 {
		return false
	}
	word := MarkWord(v.History.Marks[0])
	return word != MarkOK && word != MarkMore
}

// asksChecks reports whether the selector asks how checks went, which only a look tells.
func (s *Selector) asksChecks() bool {
	return len(s.Errors)+len(s.Hosts) > 0 || s.Since > 0 || slices.ContainsFunc(s.States, ofChecks)
}

// ofChecks reports whether a state is about checks rather than about a place.
func ofChecks(state string) bool { return state == StateFailing || state == StateNeverSucceeded }

// checked judges how the checks of an account went.
func (s *Selector) checked(v *circulate.View) bool {
	if s.Since > 0 && v.Now.Sub(v.History.Succeeded) < s.Since {
		return false
	}
	if len(s.Errors) > 0 && !slices.ContainsFunc(s.Errors, func(word string) bool { return failedWith(v, word) }) {
		return false
	}
	return len(s.Hosts) == 0 || slices.Contains(s.Hosts, hostOf(v.Record))
}

// failedWith reports whether the last check failed with a code, or is marked with a word
// for its kind. The text that is kept begins with the code: "http_503: …".
func failedWith(v *circulate.View, word string) bool {
	if !failing(v) {
		return false
	}
	code, _, _ := strings.Cut(v.Error, ": ")
	return word == code || word == MarkWord(v.History.Marks[0])
}

// hostOf is the host that an account's config names, empty where it names none in a way
// that kinds share: an address in url or base_url, or a host.
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
