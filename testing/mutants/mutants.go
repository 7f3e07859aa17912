// Package mutants is one table of the protocol's rules, each broken on purpose. It shows
// what would find such a mistake. Every mutant names the tool that must find it. That
// tool's tests run all of its own at night, and some of them with every change:
//
//   - explore, which runs every interleaving of single steps,
//   - simulate, which runs whole replicas under faults in fake time,
//   - the conformance suite of package ringtest,
//   - a test of a package, for rules that are kept in Go: TestCodeMutantsAreFound
//     builds the package with the rule broken (go test -overlay) and runs that test.
//
// A mutant that does not fit the script or the source any more is an error and not a
// miss: whoever changes a rule must say again how it breaks. That all fit is tested with every change.
package mutants

import (
	"fmt"
	"regexp"
	"strings"
)

// all is the text that scripts share: each has what it uses of it.
const all = "entry"

// Tool is what finds a mutant.
type Tool string

// The tools.
const (
	Explore     Tool = "explore"
	Simulate    Tool = "simulate"
	Conformance Tool = "conformance"
	Code        Tool = "code"
)

// Mutant breaks one rule.
type Mutant struct {
	Rule   string // what it does against the rules; also its name
	Script string // the step that it changes, by the script's own name, or all; "" if it is Go code
	File   string // the Go source that it changes, from the module's root; "" if it is a script
	Old    string // the part of its text, which must be there exactly once
	New    string
	By     Tool

	Bounds  Bounds // for explore: the bounds within which it is found
	Test    string // of the conformance suite, or of a package: the test that must fail; A/B is a subtest
	Package string // for code: the test's package, from the module's root
}

// Bounds are how many of each there are in an exploration.
type Bounds struct {
	Pollers, Strangers, Keepers, Monitors, Movers, Senders, Crashes, Cuts, Changes int

	Accounts int  // 0: one
	Aborts   bool // movers give the change up
	Late     bool // what is due is an hour late, and a poller claims one account at a time
}

// By returns the mutants that a tool must find.
func By(tool Tool) []Mutant {
	var found []Mutant
	for _, m := range table() {
		if m.By == tool {
			found = append(found, m)
		}
	}
	return found
}

// Tried returns the mutants that a tool's tests try on it: all of them with the build tag night, and
// otherwise a few from the whole table, which show that the tool still finds what is broken.
func Tried(tool Tool) []Mutant {
	var tried []Mutant
	for i, m := range By(tool) {
		if i%oneOf == 0 {
			tried = append(tried, m)
		}
	}
	return tried
}

// Named returns the mutant of a rule.
func Named(rule string) (Mutant, bool) {
	for _, m := range table() {
		if m.Rule == rule {
			return m, true
		}
	}
	return Mutant{}, false
}

// Apply returns what runs in place of a script: its changed text, or the same text if the
// mutant changes another script.
func (m Mutant) Apply(text string) (string, error) {
	switch m.Script {
	case "":
		return text, nil
	case all, shared, outbox, fileList, late: // a script has of these what it uses
		if !strings.Contains(text, m.Old) {
			return text, nil
		}
	case byKind: // a script may have it in several branches
		return strings.ReplaceAll(text, m.Old, m.New), nil
	default:
		if m.Script != ScriptName(text) {
			return text, nil
		}
	}
	return m.replace(text)
}

func (m Mutant) replace(text string) (string, error) {
	if n := strings.Count(text, m.Old); n != 1 {
		return "", fmt.Errorf("mutant %q: %s has %d times %q", m.Rule, m.Source(), n, m.Old)
	}
	return strings.Replace(text, m.Old, m.New, 1), nil
}

// shared is the text that all scripts of consumer groups share.
const shared = "group"

// outbox is the text that all steps of sends share.
const outbox = "sends"

// fileList is the text that all steps of files share.
const fileList = "files"

// byKind is the text that scripts share which know of accounts that wait by their kinds.
const byKind = "bykind"

// late is the text with which a claim chooses where accounts are late.
const late = "late"

var stepComment = regexp.MustCompile(`(?m)^-- ([a-z]{3,12}(?: (?:aside|session|key|value|point|send|file))?): `)

// ScriptName returns the name that a script states in its own first comment, behind the
// text that it shares with others.
func ScriptName(text string) string {
	for _, m := range stepComment.FindAllStringSubmatch(text, -1) {
		if m[1] != "entry" && m[1] != "list" && m[1] != "known" && m[1] != shared {
			return m[1]
		}
	}
	return "script"
}

// Source returns the file in which the step's text is.
func (m Mutant) Source() string {
	switch m.Script {
	case "":
		return m.File
	case "depart", "arrive", "stay", "leave":
		return "reshard_" + m.Script + ".lua"
	case "far", "move", "rewind":
		return "clock_" + m.Script + ".lua"
	}
	if verb, noun, ok := strings.Cut(m.Script, " "); ok { // of sends, or of package circulate/document
		return noun + "_" + verb + ".lua"
	}
	return m.Script + ".lua"
}

// markdown returns the table as testing/README.md has it.
func markdown() string {
	var b strings.Builder
	b.WriteString("| rule broken | in | found by |\n|---|---|---|\n")
	for _, m := range table() {
		by := string(m.By)
		if m.By == Code {
			by = m.Package
		}
		if m.Test != "" {
			by += ": " + m.Test
		}
		fmt.Fprintf(&b, "| %s | `%s` | %s |\n", m.Rule, m.Source(), by)
	}
	return b.String()
}
