package archtest

import (
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
)

// forCheckers are what every kind may import.
var forCheckers = []string{"accounts/strict", "poller", "poller/checkers/message", "poller/fetch", "poller/secrets"}

// forEdges are what the edges of the program may import of the rooms below it.
var forEdges = []string{"accounts", "accounts/access", "accounts/activity", "accounts/budget", "accounts/cadence", "accounts/concern", "accounts/endpoint", "accounts/history", "accounts/job", "accounts/latest", "accounts/maintenance", "accounts/problem", "accounts/savedview", "accounts/secret", "accounts/strict", "accounts/trial", "circulate"}

// mayImport lists which of our packages a package may import: exactly those in the first
// line that covers it. Tests may import anything. Only tests may import what is there for
// tests.
var mayImport = []struct {
	from string // a folder; with /... also all below it
	to   []string
}{
	{"circulate", []string{"circulate/internal/wire"}},
	{"circulate/internal/wire", nil},
	{"circulate/internal/wiretest", []string{"circulate/internal/wire"}}, // for tests only
	{"circulate/connect", []string{"circulate"}},
	{"circulate/datadir", []string{"circulate", "circulate/connect"}},
	{"circulate/namespace", []string{"circulate", "circulate/connect"}},
	{"circulate/...", []string{"circulate", "circulate/internal/wire"}}, // what replicas share besides the ring

	{"accounts", []string{"accounts/access", "accounts/cadence", "accounts/history", "accounts/strict", "circulate"}},
	{"accounts/access", nil},
	{"accounts/activity", []string{"circulate", "circulate/document"}},
	{"accounts/budget", []string{"accounts/cadence", "circulate", "circulate/document"}},
	{"accounts/cadence", nil},
	{"accounts/concern", []string{"accounts", "accounts/budget", "accounts/endpoint", "circulate", "circulate/credential", "circulate/document", "circulate/group"}},
	{"accounts/job", []string{"accounts", "accounts/access", "circulate", "circulate/document"}},
	{"accounts/history", []string{"circulate", "circulate/document"}},
	{"accounts/endpoint", []string{"circulate", "circulate/document"}},
	{"accounts/latest", []string{"circulate", "circulate/document"}},
	{"accounts/maintenance", []string{"accounts", "accounts/strict", "circulate", "circulate/document"}},
	{"accounts/problem", []string{"accounts", "accounts/cadence", "circulate", "circulate/document"}},
	{"accounts/savedview", []string{"accounts", "circulate", "circulate/document"}},
	{"accounts/secret", []string{"accounts/strict", "circulate", "circulate/document"}},
	{"accounts/strict", nil},
	{"accounts/trial", []string{"accounts/strict"}},

	{"poller", []string{"accounts", "accounts/activity", "accounts/budget", "accounts/cadence", "accounts/latest", "accounts/maintenance", "accounts/history", "circulate", "circulate/limit", "poller/egress", "poller/internal/conceal", "poller/internal/panics", "poller/span"}},
	{"poller/egress", nil},
	{"poller/span", nil},
	{"poller/internal/...", nil},
	{"poller/byhand", []string{"accounts/cadence", "accounts/trial", "poller", "poller/egress", "poller/internal/conceal", "poller/internal/panics"}},
	{"poller/files", nil},
	{"poller/files/s3", []string{"poller/files", "poller/secrets"}},
	{"poller/fetch", []string{"accounts/strict", "poller", "poller/egress", "poller/secrets", "poller/span"}},
	{"poller/secrets", []string{"accounts/secret", "accounts/strict", "poller", "poller/internal/conceal", "poller/internal/copies"}},
	{"poller/checkers/message", []string{"accounts/strict", "poller"}},
	{"poller/token", []string{"circulate/credential", "poller", "poller/internal/copies"}},
	{"poller/oauth", []string{"poller", "poller/fetch", "poller/internal/conceal", "poller/secrets", "poller/token"}},
	{"poller/checkers/imap", append([]string{"poller/oauth", "poller/checkers/email"}, forCheckers...)},
	{"poller/checkers/wecomkf", append([]string{"circulate/credential", "poller/token"}, forCheckers...)},
	{"poller/checkers/email", []string{"accounts/strict", "poller", "poller/checkers/message"}},
	{"poller/checkers/graph", append([]string{"poller/checkers/email", "poller/oauth"}, forCheckers...)},
	{"poller/websub", []string{"poller/fetch"}},
	{"poller/checkers/feed", append([]string{"poller/websub"}, forCheckers...)},
	{"poller/checkers/...", forCheckers},
	{"poller/delivery/webhook", []string{"accounts/strict", "circulate", "circulate/document", "poller/delivery", "poller/delivery/internal/refusals", "poller/delivery/sink", "poller/fetch", "poller/secrets", "poller/span"}},
	{"poller/delivery/sink", []string{"accounts/strict", "circulate", "poller/delivery", "poller/span"}},
	{"poller/delivery/ndjson", []string{"accounts/strict", "poller/delivery", "poller/delivery/sink"}},
	{"poller/delivery/parquet", []string{"accounts/strict", "poller/delivery", "poller/delivery/ndjson", "poller/delivery/sink"}},
	{"poller/delivery/kafka", []string{"accounts/strict", "poller/delivery", "poller/delivery/internal/broker", "poller/delivery/sink", "poller/secrets"}},
	{"poller/delivery/nats", []string{"accounts/strict", "poller/delivery", "poller/delivery/internal/broker", "poller/delivery/sink", "poller/secrets"}},
	{"poller/delivery/internal/broker", []string{"accounts/strict", "poller/delivery", "poller/delivery/sink", "poller/fetch", "poller/secrets"}},
	{"poller/delivery/postgres", []string{"accounts/strict", "poller/delivery", "poller/delivery/internal/broker", "poller/delivery/sink", "poller/delivery/sqlonce", "poller/secrets"}},
	{"poller/delivery", []string{"circulate", "circulate/group", "poller/delivery/internal/refusals", "poller/span"}},
	{"poller/delivery/internal/refusals", nil},
	{"poller/delivery/...", []string{"circulate", "circulate/group", "poller/delivery"}},

	{"poller/files/keep", []string{"accounts", "circulate", "circulate/group", "poller", "poller/delivery", "poller/egress", "poller/files"}},

	{"monitor", []string{"accounts", "accounts/activity", "accounts/budget", "accounts/cadence", "accounts/concern", "accounts/maintenance", "accounts/history", "accounts/problem", "circulate", "circulate/group"}},

	{"deployments/examples/bot-go", []string{"cmd/rounds/api", "cmd/rounds/client"}},
	{"deployments/examples/own-kind", []string{"accounts/strict", "cmd/rounds/command", "poller", "poller/fetch"}},
	{"deployments/examples/own-sender", []string{"accounts/strict", "cmd/rounds/command", "poller", "poller/fetch"}},
	{"deployments/examples/...", []string{"accounts", "circulate", "circulate/connect", "poller", "poller/delivery", "poller/delivery/sqlonce"}},
	{"deployments/guide", []string{"cmd/rounds/locale"}},
	{"deployments/monitoring/board", nil},

	{"cmd/rounds", []string{"cmd/rounds/command"}},
	{"cmd/rounds/build", nil},
	{"cmd/rounds/listen", nil},
	{"cmd/rounds/locale", nil},
	{"cmd/rounds/sample", []string{"cmd/rounds/sample/ilink"}},
	{"cmd/rounds/sample/ilink", nil},
	{"cmd/rounds/terminal", nil},
	{"cmd/rounds/thumbnail", nil},
	{"cmd/rounds/callback/wecomcrypt", nil},
	{"cmd/rounds/callback", []string{"accounts/strict", "circulate", "cmd/rounds/callback/wecomcrypt", "poller/websub"}},
	{"cmd/rounds/message", []string{"accounts", "accounts/endpoint", "accounts/strict", "circulate", "circulate/document", "circulate/group"}},
	{"cmd/rounds/key", []string{"accounts/access", "accounts/strict", "circulate", "circulate/document"}},
	{"cmd/rounds/trail", []string{"accounts", "accounts/access", "circulate", "circulate/document"}},
	{"cmd/rounds/signin", []string{"accounts/access", "circulate", "circulate/document", "cmd/rounds/locale", "cmd/rounds/trail"}},
	{"cmd/rounds/login", []string{"accounts", "circulate", "circulate/document"}},
	{"cmd/rounds/mailbox", []string{"accounts", "circulate", "circulate/document", "cmd/rounds/login"}},
	{"cmd/rounds/scan", []string{"accounts", "circulate", "circulate/document", "cmd/rounds/login"}},
	{"cmd/rounds/backup", []string{"accounts/endpoint", "accounts/secret", "circulate", "circulate/credential", "circulate/document"}},
	{"cmd/rounds/moving", []string{"accounts", "accounts/cadence", "accounts/strict"}},
	{"cmd/rounds/pages", []string{"accounts/access", "cmd/rounds/api", "cmd/rounds/locale", "cmd/rounds/mailbox", "cmd/rounds/scan", "cmd/rounds/signin", "cmd/rounds/terminal"}}, // they ask the API for everything else
	// The API seals secrets, and has nothing that opens one.
	{"cmd/rounds/api", append([]string{"circulate/credential", "circulate/limit", "cmd/rounds/backup", "cmd/rounds/callback", "cmd/rounds/key", "cmd/rounds/locale", "cmd/rounds/login", "cmd/rounds/mailbox", "cmd/rounds/message", "cmd/rounds/moving", "cmd/rounds/scan", "cmd/rounds/signin", "cmd/rounds/thumbnail", "cmd/rounds/trail", "poller/span"}, forEdges...)},
	{"cmd/rounds/client", []string{"accounts", "accounts/concern", "circulate", "cmd/rounds/api"}},
	{"cmd/rounds/settings", []string{"accounts/secret", "circulate", "cmd/rounds/listen", "poller/egress", "poller/secrets"}},
	{"cmd/rounds/service", []string{"accounts/...", "circulate/...", "monitor", "poller/...", "deployments/guide", "cmd/rounds/api", "cmd/rounds/callback", "cmd/rounds/key", "cmd/rounds/listen", "cmd/rounds/login", "cmd/rounds/mailbox", "cmd/rounds/pages", "cmd/rounds/scan", "cmd/rounds/settings", "cmd/rounds/signin", "cmd/rounds/telemetry", "cmd/rounds/trail"}},
	{"cmd/rounds/telemetry", []string{"poller/span"}},
	{"cmd/rounds/doctor", []string{"accounts", "accounts/concern", "circulate", "circulate/connect", "cmd/rounds/client", "cmd/rounds/service", "cmd/rounds/settings", "poller/egress", "poller/fetch", "poller/files", "poller/secrets"}},
	{"cmd/rounds/demo", []string{"accounts", "circulate/connect", "cmd/rounds/api", "cmd/rounds/client", "cmd/rounds/sample", "cmd/rounds/service", "cmd/rounds/settings", "poller/secrets"}},
	{"cmd/rounds/command", []string{"accounts/...", "circulate", "cmd/rounds/api", "cmd/rounds/backup", "cmd/rounds/build", "cmd/rounds/client", "cmd/rounds/demo", "cmd/rounds/doctor", "cmd/rounds/key", "cmd/rounds/listen", "cmd/rounds/locale", "cmd/rounds/mailbox", "cmd/rounds/message", "cmd/rounds/scan", "cmd/rounds/service", "cmd/rounds/settings", "cmd/rounds/terminal", "cmd/rounds/trail", "deployments/guide", "poller/..."}},
}

// mayOpen lists which documents a package may open, by the methods of document.Documents. Those
// that are not listed open none.
var mayOpen = map[string][]string{
	"accounts/budget":         {"Notices"},
	"accounts/concern":        {"Endpoints", "Notices", "Silences"},
	"accounts/history":        {"Series"},
	"accounts/activity":       {"Activity"},
	"accounts/job":            {"Jobs"},
	"accounts/latest":         {"Checks"},
	"accounts/maintenance":    {"Maintenance"},
	"accounts/problem":        {"Notices"},
	"accounts/savedview":      {"Views"},
	"accounts/endpoint":       {"Destinations"},
	"accounts/secret":         {"Vault"},
	"cmd/rounds/backup":       {"Keys", "Maintenance", "Silences", "Vault", "Views"},
	"cmd/rounds/key":          {"Keys"},
	"cmd/rounds/message":      {"Endpoints"},
	"cmd/rounds/login":        {"Sessions"},
	"cmd/rounds/service":      {"Endpoints"},
	"cmd/rounds/signin":       {"Sessions"},
	"cmd/rounds/trail":        {"Journal"},
	"poller/delivery/webhook": {"Endpoints"},
}

// confined lists modules of others that one folder alone may import: programs that embed rounds
// must not inherit what they bring along.
var confined = map[string]string{
	"github.com/minio/minio-go/v7": "poller/files/s3",
	"golang.org/x/image":           "cmd/rounds/thumbnail",
	"go.opentelemetry.io":          "cmd/rounds/telemetry",
	"github.com/expr-lang/expr":    "poller/delivery/sink",
}

// typesOnly lists packages of which another one may use the types and constants, and nothing
// that works.
var typesOnly = []struct{ from, of string }{
	{"cmd/rounds/pages", "cmd/rounds/api"}, // a page asks the API's handler, as its visitor
}

// folders are all folders at the top, except those that begin with a dot.
var folders = []string{"accounts", "circulate", "cmd", "deployments", "monitor", "poller", "testing"}

// built are folders that git ignores.
var built = []string{"bin", "dist"}

// vague are package names that say nothing.
var vague = []string{"util", "utils", "common", "helper", "helpers", "misc", "base", "shared"}

// covers reports whether a pattern is a folder, or covers all below it.
func covers(pattern, dir string) bool {
	if pattern == dir {
		return true
	}
	above, ok := strings.CutSuffix(pattern, "/...")
	return ok && (dir == above || strings.HasPrefix(dir, above+"/"))
}

// faults returns everything that is wrong with a tree.
func faults(t tree) []string {
	var found []string
	fault := func(format string, args ...any) { found = append(found, fmt.Sprintf(format, args...)) }
	for _, folder := range t.folders {
		if !slices.Contains(folders, folder) && !slices.Contains(built, folder) {
			fault("%s/: no such folder is planned at the top", folder)
		}
	}
	for _, folder := range folders {
		if !slices.Contains(t.folders, folder) {
			fault("%s/ is missing", folder)
		}
	}
	for _, f := range t.files {
		if slices.Contains([]string{".", "cmd", "deployments", "testing"}, f.dir()) {
			fault("%s: %s/ holds folders only", f.path, path.Clean(f.dir()))
		}
		if slices.Contains(vague, strings.TrimSuffix(f.name, "_test")) {
			fault("%s: package %s says nothing", f.path, f.name)
		}
		if f.isTest() {
			continue
		}
		supports := isSuite(f.dir())
		if f.hasInit {
			fault("%s: has an init: what it does nobody asked for", f.path)
		}
		for _, imported := range f.imports {
			to, ours := strings.CutPrefix(imported, t.module+"/")
			if ours && !supports && (!allowed(f.dir(), to) || isSuite(to)) {
				fault("%s: must not import %s", f.path, to)
			}
			for module, dir := range confined {
				if covers(module+"/...", imported) && f.dir() != dir && !supports {
					fault("%s: must not import %s, which only %s may", f.path, imported, dir)
				}
			}
		}
		for _, opened := range f.opened {
			if !supports && !slices.Contains(mayOpen[f.dir()], opened) {
				fault("%s: must not open documents as %s", f.path, opened)
			}
		}
	}
	for _, rule := range typesOnly {
		works := make(map[string]bool)
		for _, f := range t.files {
			if f.dir() == rule.of && !f.isTest() {
				for _, name := range f.works {
					works[name] = true
				}
			}
		}
		for _, f := range t.files {
			if f.dir() != rule.from || f.isTest() {
				continue
			}
			for _, name := range f.uses[t.module+"/"+rule.of] {
				if works[name] {
					fault("%s: must use only types of %s, not %s", f.path, rule.of, name)
				}
			}
		}
	}
	return found
}

// isSuite reports whether a folder holds what only tests use: all of testing/. It may
// import what tests may import, and only tests may import it.
func isSuite(dir string) bool { return strings.HasPrefix(dir, "testing/") }

func allowed(from, to string) bool {
	for _, rule := range mayImport {
		if covers(rule.from, from) {
			return slices.ContainsFunc(rule.to, func(pattern string) bool { return covers(pattern, to) })
		}
	}
	return false // a package that is not planned imports nothing
}

func TestSource(t *testing.T) {
	source, err := readTree(os.DirFS("../.."))
	if err != nil {
		t.Fatal(err)
	}
	for _, fault := range faults(source) {
		t.Error(fault)
	}
	if len(source.files) < 50 {
		t.Errorf("only %d files were read", len(source.files))
	}
}
