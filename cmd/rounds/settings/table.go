package settings

import (
	"cmp"
	"fmt"
	"io"
	"iter"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/rounds-dev/rounds/poller/secrets"
)

// setting is one variable, as described by its field in Settings.
type setting struct {
	Name    string // ROUNDS_CONCURRENCY
	Default string // empty: unset
	About   string // what it means
	Secret  string // empty; "yes"; "in part": a URL with a password
	Live    bool   // a running process uses another value when it reads its settings again

	min, max, oneof string
	ownFlag         string // empty: the flag follows from the name
	kind            reflect.Type
	index           []int // the field's place in its struct
}

// settingsOf returns the settings of a struct type and the structs in it.
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
			Name: name, Default: fallback, About: f.Tag.Get("about"), Secret: f.Tag.Get("secret"), Live: f.Tag.Get("live") != "",
			min: f.Tag.Get("min"), max: f.Tag.Get("max"), oneof: f.Tag.Get("oneof"), ownFlag: f.Tag.Get("flag"), kind: f.Type, index: f.Index,
		})
	}
	return all
}

// all returns every setting of the service.
func all() []setting { return settingsOf(reflect.TypeFor[Settings]()) }

// namesOf returns the names of settings.
func namesOf(settings []setting) map[string]bool {
	names := make(map[string]bool)
	for _, s := range settings {
		names[s.Name] = true
	}
	return names
}

// namedByUsers are the table's rows for variables whose names users choose.
func namedByUsers() []setting {
	return []setting{
		{Name: secrets.EnvPrefix + "NAME", Secret: "yes", About: "the secret NAME that records refer to, if ROUNDS_SECRETS_DIR has no such file"},
		{Name: secrets.ServiceEnvPrefix + "NAME", Secret: "yes", About: "the secret NAME that webhooks and callbacks refer to, or that ROUNDS_FILES needs, if ROUNDS_SECRETS_DIR has no file service.NAME; no record can name it"},
		{Name: secrets.BindingEnvPrefix + "NAME", About: "where the secret NAME of records may be sent: hosts=a.example,*.b.example kinds=http,imap, of which one may be left out"},
		{Name: secrets.ServiceBindingEnvPrefix + "NAME", About: "the same for the secret NAME of webhooks, callbacks and ROUNDS_FILES, whose kinds are webhook, callback and files"},
	}
}

// isUsers reports whether a variable is one whose name users choose.
func isUsers(name string) bool {
	return slices.ContainsFunc(namedByUsers(), func(s setting) bool { return strings.HasPrefix(name, strings.TrimSuffix(s.Name, "NAME")) })
}

// flag returns the setting's flag. A secret has none, because everybody on a machine can read the
// arguments of its processes.
func (s setting) flag() string {
	switch {
	case s.Secret == "yes":
		return ""
	case s.ownFlag != "":
		return s.ownFlag
	}
	return strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(s.Name, "ROUNDS_")), "_", "-")
}

// allowed says which values the setting may have.
func (s setting) allowed() string {
	switch {
	case s.kind == reflect.TypeFor[Roles]():
		return "one or more of " + strings.ReplaceAll(s.oneof, " ", ", ") + ", separated by commas"
	case s.oneof != "":
		return "one of " + strings.ReplaceAll(s.oneof, " ", ", ")
	case s.kind == reflect.TypeFor[time.Duration]():
		return fmt.Sprintf("a duration such as 90s, 5m or 1h30m, from %s to %s", s.min, s.max)
	case s.kind == reflect.TypeFor[int]():
		return fmt.Sprintf("a whole number from %s to %s", s.min, s.max)
	case s.kind == reflect.TypeFor[bool]():
		return "true or false"
	case s.kind == reflect.TypeFor[Mode]():
		return "three octal digits, such as 660"
	}
	return s.About
}

// Meanings returns what each variable means, by name, in the table's order.
func Meanings() iter.Seq2[string, string] {
	return func(yield func(name, about string) bool) {
		for _, s := range append(all(), namedByUsers()...) {
			if !yield(s.Name, s.About) {
				return
			}
		}
	}
}

// Write prints the table for people.
func Write(w io.Writer) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "VARIABLE\tDEFAULT\tMEANING")
	for _, s := range append(all(), namedByUsers()...) {
		fmt.Fprintf(table, "%s\t%s\t%s\n", s.Name, cmp.Or(s.Default, "-"), s.About)
	}
	return table.Flush()
}

// WriteMarkdown prints the table in the guide's form.
func WriteMarkdown(w io.Writer) error {
	var b strings.Builder
	b.WriteString("| variable | default | meaning |\n|---|---|---|\n")
	for _, s := range append(all(), namedByUsers()...) {
		fallback := ""
		if s.Default != "" {
			fallback = "`" + s.Default + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", s.Name, fallback, strings.ReplaceAll(s.About, "|", `\|`))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// serviceLinks are the variables that Kubernetes and Docker set in a container for every
// service that it can see: a service named "rounds" sets ROUNDS_PORT, for example. They
// are not typing errors.
func serviceLinks() *regexp.Regexp {
	return regexp.MustCompile(`_(SERVICE_HOST|SERVICE_PORT|PORT)(_.*)?$`)
}

// UnknownVariables returns the ROUNDS_ variables that mean nothing, probably because
// they are misspelt.
func UnknownVariables(environ []string) []string {
	known, links := namesOf(all()), serviceLinks()
	var unknown []string
	for _, assignment := range environ {
		name, _, _ := strings.Cut(assignment, "=")
		switch {
		case !strings.HasPrefix(name, "ROUNDS_"), known[name]:
		case isUsers(name), strings.HasPrefix(name, "ROUNDS_TEST_"), links.MatchString(name):
		default:
			unknown = append(unknown, name)
		}
	}
	slices.Sort(unknown)
	return unknown
}

// Likely returns the setting that a misspelt variable probably means: the one with the
// fewest changed letters, if they are few. It is empty if none is near.
func Likely(unknown string) string {
	if unknown == "ROUNDS_HTTP_PROXY" || unknown == "ROUNDS_HTTPS_PROXY" {
		return "ROUNDS_PROXY" // as in HTTP_PROXY
	}
	if word, ok := strings.CutPrefix(unknown, "ROUNDS_"); ok && word != "" {
		for _, s := range all() { // the only one that ends so, as ROUNDS_API_ADDR does for ROUNDS_ADDR
			if strings.HasSuffix(s.Name, "_"+word) {
				return s.Name
			}
		}
	}
	likely, least := "", max(2, len(unknown)/4)+1
	for _, s := range all() {
		if n := Distance(unknown, s.Name); n < least {
			likely, least = s.Name, n
		}
	}
	return likely
}

// Distance is how many letters must be inserted, removed or changed to turn one text into
// another (V. Levenshtein, 1965).
func Distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
