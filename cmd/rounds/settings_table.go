package main

import (
	"cmp"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/rounds-dev/rounds/poller/checkers/secrets"
)

// setting is one variable, as its field in settings has it.
type setting struct {
	Name    string // ROUNDS_CONCURRENCY
	Default string // empty: unset
	About   string
	Secret  string // empty; "yes"; "in part": a URL with a password

	min, max, oneof string
	kind            reflect.Type
	index           []int // where the field is in its struct
}

// settingsOf gives the settings of a struct type and the structs in it.
func settingsOf(t reflect.Type) []setting {
	var all []setting
	for _, f := range reflect.VisibleFields(t) {
		tag, ok := f.Tag.Lookup("env")
		if !ok {
			if f.Type.Kind() == reflect.Struct {
				for _, s := range settingsOf(f.Type) {
					s.index = append(slices.Clone(f.Index), s.index...)
					all = append(all, s)
				}
			}
			continue
		}
		name, fallback, _ := strings.Cut(tag, ",default=")
		all = append(all, setting{
			Name: name, Default: fallback, About: f.Tag.Get("about"), Secret: f.Tag.Get("secret"),
			min: f.Tag.Get("min"), max: f.Tag.Get("max"), oneof: f.Tag.Get("oneof"), kind: f.Type, index: f.Index,
		})
	}
	return all
}

// settingsTable gives every setting of the service.
func settingsTable() []setting { return settingsOf(reflect.TypeFor[settings]()) }

// secretRow stands for the variables that users name themselves.
func secretRow() setting {
	return setting{
		Name: secrets.EnvPrefix + "NAME", Secret: "yes",
		About: "the secret NAME that records and webhooks refer to, where ROUNDS_SECRETS_DIR has no such file",
	}
}

// flag is the setting's flag; a secret has none, for everyone on a machine can
// read the arguments of its processes.
func (s setting) flag() string {
	if s.Secret == "yes" {
		return ""
	}
	return strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(s.Name, "ROUNDS_")), "_", "-")
}

// allowed says what the setting may be.
func (s setting) allowed() string {
	switch {
	case s.kind == reflect.TypeFor[roleSet]():
		return "one or more of " + strings.ReplaceAll(s.oneof, " ", ", ") + ", separated by commas"
	case s.oneof != "":
		return "one of " + strings.ReplaceAll(s.oneof, " ", ", ")
	case s.kind == reflect.TypeFor[time.Duration]():
		return fmt.Sprintf("a duration such as 90s, 5m or 1h30m, from %s to %s", s.min, s.max)
	case s.kind == reflect.TypeFor[int]():
		return fmt.Sprintf("a whole number from %s to %s", s.min, s.max)
	case s.kind == reflect.TypeFor[bool]():
		return "true or false"
	}
	return s.About
}

// writeSettings prints the table for people.
func writeSettings(w io.Writer) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "VARIABLE\tDEFAULT\tMEANING")
	for _, s := range append(settingsTable(), secretRow()) {
		fmt.Fprintf(table, "%s\t%s\t%s\n", s.Name, cmp.Or(s.Default, "-"), s.About)
	}
	return table.Flush()
}

// writeSettingsMarkdown prints the table as the README has it.
func writeSettingsMarkdown(w io.Writer) error {
	var b strings.Builder
	b.WriteString("| variable | default | meaning |\n|---|---|---|\n")
	for _, s := range append(settingsTable(), secretRow()) {
		fallback := ""
		if s.Default != "" {
			fallback = "`" + s.Default + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", s.Name, fallback, strings.ReplaceAll(s.About, "|", `\|`))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// serviceLinks are the variables that Kubernetes and Docker set in a container
// for every service that it can see: a service named "rounds" makes ROUNDS_PORT
// of them. They are nobody's typing error.
func serviceLinks() *regexp.Regexp {
	return regexp.MustCompile(`_(SERVICE_HOST|SERVICE_PORT|PORT)(_.*)?$`)
}

// unknownVariables gives the ROUNDS_ variables that mean nothing: most likely
// they are misspelt.
func unknownVariables(environ []string) []string {
	known := make(map[string]bool)
	for _, s := range settingsTable() {
		known[s.Name] = true
	}
	links := serviceLinks()
	var unknown []string
	for _, assignment := range environ {
		name, _, _ := strings.Cut(assignment, "=")
		switch {
		case !strings.HasPrefix(name, "ROUNDS_"), known[name]:
		case strings.HasPrefix(name, secrets.EnvPrefix), strings.HasPrefix(name, "ROUNDS_TEST_"), links.MatchString(name):
		default:
			unknown = append(unknown, name)
		}
	}
	slices.Sort(unknown)
	return unknown
}
