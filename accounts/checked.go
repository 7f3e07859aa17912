package accounts

import (
	"net"
	"net/url"
	"slices"
	"strings"

	"github.com/rounds-dev/rounds/accounts/cadence"
	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/circulate"
)

// LastFailed reports whether the last check of an account failed, whatever the cause: an
// operator must see every account that is checked in vain, unless it is in a maintenance window.
func LastFailed(v *circulate.View) bool {
	if len(v.History.Marks) == 0 {
		return false
	}
	word := MarkWord(v.History.Marks[0])
	return word != MarkOK && word != MarkMore && word != MarkMaintenance
}

// asksChecks reports whether the selector asks for the results of checks, which need a
// full look.
func (s *Selector) asksChecks() bool {
	return len(s.Errors)+len(s.Causes)+len(s.Hosts)+len(s.Except) > 0 || s.Since > 0 || s.Until > 0 || slices.ContainsFunc(s.States, ofChecks)
}

// ofChecks reports whether a state is about checks and not about a place.
func ofChecks(state string) bool {
	return state == StateFailing || state == StateNeverSucceeded || state == StateLate
}

// late reports whether an account missed three slots of its cadence or more, as
// Failing.Behind counts it.
func late(v *circulate.View) bool {
	age := v.Now.Sub(v.History.Succeeded)
	if v.History.Succeeded.IsZero() || age < SlowFrom {
		return false
	}
	fields, err := strict.Stored(v.Record)
	if err != nil {
		return false
	}
	text, _ := strict.TextIn(fields, "cadence") // without one the default applies
	rhythm, err := cadence.Parse(text)
	if err != nil {
		return false
	}
	missed, _ := slotsOf(rhythm, v.ID, v.Now, age)
	return missed >= BehindSlots
}

// checked reports whether the results of an account's checks are selected.
func (s *Selector) checked(v *circulate.View) bool {
	if s.Since > 0 && v.Now.Sub(v.History.Succeeded) < s.Since {
		return false
	}
	if s.Until > 0 && v.Now.Sub(v.History.Succeeded) >= s.Until {
		return false
	}
	if len(s.Errors) > 0 && !slices.ContainsFunc(s.Errors, func(word string) bool { return failedWith(v, word) || warnedWith(v, word) }) {
		return false
	}
	if len(s.Hosts)+len(s.Except)+len(s.Causes) == 0 {
		return true
	}
	where, ok := s.atHost(v.Record)
	return ok && (len(s.Causes) == 0 || slices.Contains(s.Causes, causeOf(v, where).Name))
}

// atHost returns what WhereOf does, and whether an account that is checked there is selected.
func (s *Selector) atHost(record []byte) (where string, ok bool) {
	if len(s.Hosts)+len(s.Except)+len(s.Causes) == 0 {
		return "", true
	}
	host, where := hostOf(record)
	return where, !slices.Contains(s.Except, where) && (where == WithoutPort(where) || !slices.Contains(s.Except, WithoutPort(where))) &&
		(len(s.Hosts) == 0 || slices.Contains(s.Hosts, where) || slices.Contains(s.Hosts, host))
}

// causeOf returns what is wrong with an account: why it is parked, or why its last check
// failed. It returns the zero Cause for an account that is well, paused or finished.
func causeOf(v *circulate.View, where string) Cause {
	switch {
	case v.Place == circulate.Parked && AtRest(v.Reason):
	case v.Place == circulate.Parked:
		return CauseOfReason(v.Reason, where)
	case LastFailed(v) && v.Error != "":
		return CauseOf(v.Error, where)
	}
	return Cause{}
}

// AtRest reports whether an account is parked for a reason that is no failure: somebody
// paused it, or its one check is done.
func AtRest(reason string) bool {
	return paused(reason) || strings.HasPrefix(reason, cadence.RuleFinished)
}

// failedWith reports whether the last check failed with a code, or with a kind of
// failure. The stored text begins with the code: "http_503: …".
func failedWith(v *circulate.View, word string) bool {
	if !LastFailed(v) {
		return false
	}
	code, _, _ := strings.Cut(v.Error, ": ")
	return word == code || word == MarkWord(v.History.Marks[0])
}

// warnedWith reports whether the last check succeeded with a warning of a code. A memory has
// several warnings as "code: text; code: text".
func warnedWith(v *circulate.View, word string) bool {
	if v.State == "" {
		return false
	}
	memory, _ := ReadMemory(v.State)
	for text := range strings.SplitSeq(memory.Warning, "; ") {
		if code, _, ok := strings.Cut(text, ": "); ok && code == word {
			return true
		}
	}
	return false
}

// WhereOf returns the upstream that an account shares with others: the corporation or the
// host in its config, in lower case. A host has its port behind a colon, unless that is
// the default of the URL's scheme. WhereOf returns "" if the config names neither.
func WhereOf(record []byte) string {
	_, where := hostOf(record)
	return where
}

// WhereConfig is WhereOf for an account's config.
func WhereConfig(config []byte) string {
	_, where := hostIn(config)
	return where
}

// WithoutPort returns what WhereOf returned without the port, if it has one.
func WithoutPort(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		return name
	}
	return host
}

// comparedHost returns a host in the form in which it is dialled, with its port if it has
// one. It returns a text that is not a host as it is.
func comparedHost(host string) string {
	if name, port, err := net.SplitHostPort(host); err == nil {
		return net.JoinHostPort(comparedHost(name), port)
	}
	if dialled, err := strict.Hostname(host); err == nil {
		return dialled
	}
	return host
}

// hostOf returns the host in an account's config, from url, base_url or host, and
// WhereOf. Both are empty if the config has none of these.
func hostOf(record []byte) (host, where string) {
	fields, err := strict.Stored(record)
	if err != nil {
		return "", ""
	}
	return hostIn(fields["config"])
}

// hostIn is hostOf for a config.
func hostIn(text []byte) (host, where string) {
	config, _ := strict.Members(text)
	host, _ = strict.TextIn(config, "host")
	port := ""
	for _, name := range []string{"url", "base_url"} {
		if text, ok := strict.TextIn(config, name); ok {
			if u, err := url.Parse(text); err == nil {
				host, port = u.Hostname(), u.Port()
				if u.Scheme == "https" && port == "443" || u.Scheme == "http" && port == "80" {
					port = ""
				}
				break
			}
		}
	}
	host = comparedHost(host)
	if corporation, ok := strict.TextIn(config, "corp_id"); ok {
		return host, strings.ToLower(corporation)
	}
	if port != "" {
		return host, net.JoinHostPort(host, port)
	}
	return host, host
}
