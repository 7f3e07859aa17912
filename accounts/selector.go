package accounts

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/circulate"
)

// The states that a selector knows besides the places of the ring.
const (
	StateActive = "active" // in circulation: in any place but parked
	StatePaused = "paused" // parked by somebody, until it is resumed

	StateFailing        = "failing"         // in circulation, and its last check failed, whatever the cause
	StateNeverSucceeded = "never_succeeded" // in circulation, and checked, but never with complete success
	StateLate           = "late"            // in circulation, and behind as in Failing.Behind
)

// States returns all states by which accounts can be selected.
func States() []string {
	return []string{
		StateActive, StatePaused, StateFailing, StateNeverSucceeded, StateLate, string(circulate.Parked),
		string(circulate.Scheduled), string(circulate.Waiting), string(circulate.Claimed),
	}
}

const (
	// maxSelected is the most values that one field of a Selector may have.
	maxSelected = 100
	maxReason   = 1024
)

// Selector selects the accounts that match every field. An empty field matches all. An
// account must have all labels of Labels, but only one of the values of another field. The
// zero Selector selects every account.
type Selector struct {
	IDs      []string // exact ids, which a walk looks at without looking at others
	Kinds    []string
	States   []string          // some of States
	Labels   map[string]string // name and value
	Prefixes []string          // beginnings of ids
	Parts    []string          // parts of ids, capitals and small letters being the same
	Reasons  []string          // beginnings of the reasons of parked accounts
	Errors   []string          // codes or kinds of the last check's failure, or codes of its warnings
	Causes   []string          // names of causes; see CauseOf
	Hosts    []string          // hosts or corporations in configs
	Except   []string          // hosts that WhereOf must not return
	Secrets  []string          // names of secrets in configs
	Since    time.Duration     // no check has succeeded completely for at least this long
	Until    time.Duration     // a check has succeeded completely within this time, or the account was registered in it

	bound map[string]string // from Registry.Bound, in addition to Labels
}

// The names of a selector's fields.
const (
	fieldID                              = "id"
	fieldKind, fieldState, fieldLabel    = "kind", "state", "label"
	fieldPrefix, fieldReason, fieldError = "prefix", "reason", "error"
	fieldCause, fieldHost                = "cause", "host"
	fieldExcept                          = "except_host"
	fieldSince, fieldUntil               = "since", "until"
	fieldPart, fieldSecret               = "part", "secret"
)

// SelectorFields returns the names of all fields, as ParseSelector takes them.
func SelectorFields() []string {
	return []string{fieldID, fieldKind, fieldState, fieldLabel, fieldPrefix, fieldPart, fieldReason, fieldError, fieldCause, fieldHost, fieldExcept, fieldSecret, fieldSince, fieldUntil}
}

// ParseSelector reads a selector from texts by the names of SelectorFields. It ignores
// other names. A label is NAME=VALUE, since and until are durations such as 1h, and the others
// are plain texts. It returns every fault at once, as Faults.
func ParseSelector(fields map[string][]string) (Selector, error) {
	s := Selector{IDs: fields[fieldID], Kinds: fields[fieldKind], States: fields[fieldState], Prefixes: fields[fieldPrefix], Parts: fields[fieldPart], Reasons: fields[fieldReason],
		Errors: fields[fieldError], Causes: fields[fieldCause], Hosts: comparedHosts(fields[fieldHost]), Except: comparedHosts(fields[fieldExcept]), Secrets: fields[fieldSecret]}
	labels := fields[fieldLabel]
	var faults Faults
	within := func(field string) time.Duration {
		texts := fields[field]
		if len(texts) == 0 {
			return 0
		}
		d, err := time.ParseDuration(texts[0])
		if err != nil || d <= 0 || len(texts) > 1 {
			faults.Add(field, "must be one duration such as 1h")
			return 0
		}
		return d
	}
	s.Since, s.Until = within(fieldSince), within(fieldUntil)
	if s.Until > 0 && s.Until <= s.Since {
		faults.Add(fieldUntil, "must be longer than since: otherwise no account matches")
	}
	if len(labels) > 0 {
		s.Labels = make(map[string]string, len(labels))
	}
	for _, label := range labels {
		name, value, ok := strings.Cut(label, "=")
		before, twice := s.Labels[name]
		switch {
		case !ok:
			faults.Add("label", fmt.Sprintf("must be NAME=VALUE, is %q", label))
		case twice && before != value:
			faults.Add("label", fmt.Sprintf("%q must not have two values: no account has both", name))
		default:
			s.Labels[name] = value
		}
	}
	var invalid Faults
	errors.As(s.Validate(), &invalid) // it returns only Faults
	faults = append(faults, invalid...)
	return s, faults.Err()
}

func comparedHosts(texts []string) (hosts []string) {
	for _, text := range texts {
		hosts = append(hosts, comparedHost(text))
	}
	return hosts
}

// Validate returns every fault of the selector as Faults, or nil.
func (s Selector) Validate() error {
	var faults Faults
	values := func(field string, most int, values []string) {
		if len(values) > maxSelected {
			faults.Add(field, fmt.Sprintf("must be at most %d, are %d", maxSelected, len(values)))
		}
		for _, value := range values {
			switch {
			case value == "":
				faults.Add(field, "must not be empty: leave it out to select all")
			case len(value) > most:
				faults.Add(field, fmt.Sprintf("must have at most %d bytes, has %d", most, len(value)))
			case !utf8.ValidString(value):
				faults.Add(field, "must be UTF-8")
			}
		}
	}
	values(fieldID, circulate.MaxIDLength, s.IDs)
	values("kind", MaxLabel, s.Kinds)
	values("state", MaxLabel, s.States)
	for _, state := range s.States {
		if state != "" && !slices.Contains(States(), state) {
			faults.Add("state", fmt.Sprintf("must be one of %s, is %q", strings.Join(States(), ", "), state))
		}
	}
	if len(s.Labels) > MaxLabels {
		faults.Add("label", fmt.Sprintf("must be at most %d, are %d", MaxLabels, len(s.Labels)))
	}
	for _, name := range slices.Sorted(maps.Keys(s.Labels)) {
		if name == "" || len(name) > MaxLabel || len(s.Labels[name]) > MaxLabel {
			faults.Add("label", fmt.Sprintf("name and value must have at most %d bytes, the name at least one", MaxLabel))
		}
	}
	values("prefix", circulate.MaxIDLength, s.Prefixes)
	values(fieldPart, circulate.MaxIDLength, s.Parts)
	values("reason", maxReason, s.Reasons)
	values("error", maxReason, s.Errors)
	values("cause", maxReason, s.Causes)
	values("host", maxReason, s.Hosts)
	values("except_host", maxReason, s.Except)
	values(fieldSecret, MaxLabel, s.Secrets)
	return faults.Err()
}

// Empty reports whether the selector selects every account.
func (s Selector) Empty() bool {
	return len(s.IDs)+len(s.Kinds)+len(s.States)+len(s.Labels)+len(s.Prefixes)+len(s.Parts)+len(s.Reasons)+len(s.Errors)+len(s.Causes)+len(s.Hosts)+len(s.Except)+len(s.Secrets) == 0 && s.Since == 0 && s.Until == 0
}

// namesParked reports whether the selector names parked accounts or reasons, so that it
// selects accounts that are parked and not paused.
func (s *Selector) namesParked() bool {
	return len(s.Reasons) > 0 || slices.Contains(s.States, string(circulate.Parked))
}

// named reports whether the prefixes and parts select an id.
func (s *Selector) named(id string) bool {
	return oneOf(s.Prefixes, id, strings.HasPrefix) && oneOf(s.Parts, id, hasPart)
}

// hasPart reports whether an id has a part, whether in capitals or in small letters.
func hasPart(id, part string) bool { return strings.Contains(folded(id), folded(part)) }

// folded returns a text in the form in which parts of ids are compared.
func folded(text string) string { return strings.ToLower(text) }

// passes returns the ids that the prefixes and parts select. It overwrites ids.
func (s *Selector) passes(ids []string) []string {
	if len(s.Prefixes)+len(s.Parts) == 0 {
		return ids
	}
	return slices.DeleteFunc(ids, func(id string) bool { return !s.named(id) })
}

// needsLook reports whether the selector needs more than a brief look at an account.
func (s *Selector) needsLook() bool {
	return s.asksChecks() || slices.ContainsFunc(s.States, func(state string) bool {
		return state != StateActive && state != StatePaused && state != string(circulate.Parked)
	})
}

// matchesView reports whether an account that was looked at is selected.
func (s *Selector) matchesView(v *circulate.View) bool {
	return s.inStateOf(v) && s.hasReason(v.Place, v.Reason) && s.checked(v) && s.matchesRecord(v.Record)
}

func (s *Selector) inStateOf(v *circulate.View) bool {
	circulates := v.Place != circulate.Parked
	return circulates && slices.Contains(s.States, StateFailing) && LastFailed(v) ||
		circulates && slices.Contains(s.States, StateLate) && late(v) ||
		circulates && slices.Contains(s.States, StateNeverSucceeded) && v.History.NeverSucceeded() ||
		s.inState(v.Place, v.Reason)
}

// matches reports whether an account is selected, from its record and whether it is parked.
// It is only for selectors for which needsLook is false.
func (s *Selector) matches(record []byte, place circulate.Place, reason string) bool {
	return s.inState(place, reason) && s.hasReason(place, reason) && s.matchesRecord(record)
}

func (s *Selector) inState(place circulate.Place, reason string) bool {
	if len(s.States) == 0 {
		return true
	}
	for _, state := range s.States {
		switch {
		case state == string(place),
			state == StateActive && place != circulate.Parked,
			state == StatePaused && place == circulate.Parked && paused(reason):
			return true
		}
	}
	return false
}

func (s *Selector) hasReason(place circulate.Place, reason string) bool {
	return len(s.Reasons) == 0 || place == circulate.Parked && oneOf(s.Reasons, reason, strings.HasPrefix)
}

// matchesRecord reports whether the kind, labels and secrets of a record are selected. A record that
// cannot be read has none.
func (s *Selector) matchesRecord(record []byte) bool {
	if len(s.Kinds) == 0 && len(s.Labels) == 0 && len(s.bound) == 0 && len(s.Secrets) == 0 {
		return true
	}
	if s.lacks(record) {
		return false
	}
	fields, err := strict.Stored(record)
	if err != nil {
		return false
	}
	if len(s.Kinds) > 0 {
		if kind, ok := strict.TextIn(fields, "kind"); !ok || !slices.Contains(s.Kinds, kind) {
			return false
		}
	}
	if len(s.Secrets) > 0 && !slices.ContainsFunc(SecretsIn(fields["config"]), func(name string) bool { return slices.Contains(s.Secrets, name) }) {
		return false
	}
	return labelsIn(fields, s.Labels) && labelsIn(fields, s.bound)
}

// SecretsIn returns the names of the secrets to which a config refers as {"secret": "NAME"}, in order.
// They are the same wherever in the config that stands.
func SecretsIn(config json.RawMessage) []string {
	if !bytes.Contains(config, []byte(`"secret"`)) && bytes.IndexByte(config, '\\') < 0 {
		return nil
	}
	var value any
	if json.Unmarshal(config, &value) != nil {
		return nil
	}
	var names []string
	var look func(value any)
	look = func(value any) {
		switch value := value.(type) {
		case map[string]any:
			if name, ok := value["secret"].(string); ok {
				names = append(names, name)
			}
			for _, member := range value {
				look(member)
			}
		case []any:
			for _, element := range value {
				look(element)
			}
		}
	}
	look(value)
	slices.Sort(names)
	return slices.Compact(names)
}

// lacks reports whether a record surely lacks a selected kind, label or secret, without reading it, as most
// records of a long walk do. A text without escapes stands in JSON as it is.
func (s *Selector) lacks(record []byte) bool {
	if bytes.IndexByte(record, '\\') >= 0 {
		return false
	}
	has := func(text string) bool { return bytes.Contains(record, []byte(`"`+text+`"`)) }
	for _, labels := range []map[string]string{s.Labels, s.bound} {
		for name, value := range labels {
			if !has(name) || !has(value) {
				return true
			}
		}
	}
	return len(s.Kinds) > 0 && !slices.ContainsFunc(s.Kinds, has) || len(s.Secrets) > 0 && !slices.ContainsFunc(s.Secrets, has)
}

// asksRecord reports whether a record alone shows of some accounts that they are not selected.
func (s *Selector) asksRecord() bool {
	return len(s.Kinds)+len(s.Labels)+len(s.bound)+len(s.Hosts)+len(s.Except)+len(s.Secrets) > 0
}

// mayBeRecord reports whether an account with this record may be selected.
func (s *Selector) mayBeRecord(record []byte) bool {
	if !s.matchesRecord(record) {
		return false
	}
	_, ok := s.atHost(record)
	return ok
}

// labelsIn reports whether a record's fields have all of some labels.
func labelsIn(fields map[string]json.RawMessage, want map[string]string) bool {
	if len(want) == 0 {
		return true
	}
	labels, _ := strict.Members(fields["labels"])
	for name, value := range want {
		if has, ok := strict.TextIn(labels, name); !ok || has != value {
			return false
		}
	}
	return true
}

// oneOf reports whether fn holds for one of the values, or whether there are no values.
func oneOf(values []string, text string, fn func(text, value string) bool) bool {
	return len(values) == 0 || slices.ContainsFunc(values, func(value string) bool { return fn(text, value) })
}
