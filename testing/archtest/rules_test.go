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
var forCheckers = []string{"accounts/form", "accounts/hostname", "accounts/strict", "poller", "poller/fetch", "poller/header", "poller/secrets", "poller/signing"}

// forEdges are what the edges of the registry may import.
var forEdges = []string{"accounts", "accounts/backup", "accounts/access", "accounts/access/idp", "accounts/access/key", "accounts/access/origin", "accounts/access/session", "accounts/access/signin", "accounts/cadence", "accounts/callback", "accounts/concern", "accounts/form", "accounts/history", "accounts/law", "accounts/message", "accounts/problem", "accounts/scan", "accounts/secret", "accounts/strict", "accounts/timeline", "accounts/trail", "accounts/trial", "circulate"}

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
	{"circulate/apikey", []string{"circulate", "circulate/internal/wire"}},
	{"circulate/bulletin", []string{"circulate", "circulate/internal/wire"}},
	{"circulate/credential", []string{"circulate", "circulate/internal/wire"}},
	{"circulate/endpoint", []string{"circulate", "circulate/internal/wire"}},
	{"circulate/failing", []string{"circulate", "circulate/internal/wire"}},
	{"circulate/group", []string{"circulate", "circulate/internal/wire"}},
	{"circulate/journal", []string{"circulate", "circulate/internal/wire"}},
	{"circulate/limit", []string{"circulate", "circulate/internal/wire"}},
	{"circulate/migration", []string{"circulate", "circulate/internal/wire"}},
	{"circulate/series", []string{"circulate", "circulate/internal/wire"}},
	{"circulate/session", []string{"circulate", "circulate/internal/wire"}},
	{"circulate/timeline", []string{"circulate", "circulate/internal/wire"}},
	{"circulate/vault", []string{"circulate", "circulate/internal/wire"}},
	{"circulate/connect", []string{"circulate"}},
	{"circulate/image", []string{"circulate", "circulate/connect"}},
	{"circulate/datadir", []string{"circulate/connect", "circulate/image"}},
	{"circulate/namespace", []string{"circulate", "circulate/connect"}},
	{"accounts", []string{"accounts/access", "accounts/cadence", "accounts/cause", "accounts/cursor", "accounts/history", "accounts/hostname", "accounts/strict", "circulate", "circulate/failing"}},
	{"accounts/access", nil},
	{"accounts/access/key", []string{"circulate", "circulate/apikey", "accounts/access", "accounts/strict"}},
	{"accounts/access/origin", nil},
	{"accounts/access/session", []string{"accounts/access", "accounts/access/origin", "accounts/trail", "circulate", "circulate/session"}},
	{"accounts/access/signin", []string{"accounts/access", "accounts/access/idp", "accounts/access/origin", "accounts/access/session"}},
	{"accounts/access/idp", []string{"accounts/access", "accounts/access/origin", "accounts/access/session"}},
	{"accounts/law", []string{"circulate", "circulate/bulletin"}},
	{"accounts/concern", []string{"accounts", "accounts/law", "circulate", "circulate/bulletin", "circulate/credential", "circulate/endpoint"}},
	{"accounts/backup", []string{"accounts/secret", "circulate", "circulate/apikey", "circulate/credential", "circulate/vault"}},
	{"accounts/cadence", nil},
	{"accounts/history", []string{"circulate", "circulate/series"}},
	{"accounts/cause", nil},
	{"accounts/cursor", nil},
	{"accounts/form", nil},
	{"accounts/hostname", nil},
	{"accounts/legible", nil},
	{"accounts/strict", nil},
	{"accounts/trial", []string{"accounts/strict"}},
	{"accounts/problem", []string{"accounts", "accounts/cadence", "accounts/cause", "circulate", "circulate/bulletin", "circulate/failing"}},
	{"accounts/scan", []string{"accounts", "circulate", "circulate/session"}},
	{"accounts/secret", []string{"accounts/hostname", "circulate", "circulate/vault"}},
	{"accounts/message", []string{"circulate", "circulate/endpoint", "circulate/group", "accounts/cursor", "accounts/strict"}},
	{"accounts/callback", []string{"circulate", "accounts/callback/wecomcrypt", "accounts/strict"}},
	{"accounts/callback/wecomcrypt", nil},
	{"accounts/trail", []string{"accounts/access", "accounts/cursor", "circulate", "circulate/journal"}},
	{"accounts/api", append([]string{"accounts/api/intake", "accounts/api/outlook"}, forEdges...)},
	{"accounts/timeline", []string{"accounts/access", "accounts/cursor", "accounts/trail", "circulate", "circulate/timeline"}},
	{"accounts/api", append([]string{"accounts/api/outlook"}, forEdges...)},
	{"accounts/dashboard", []string{"accounts/access", "accounts/access/origin", "accounts/legible", "accounts/scan"}}, // it asks the API for everything else
	{"accounts/api/outlook", append([]string{"circulate/credential", "circulate/limit"}, forEdges...)},
	{"accounts/...", forEdges}, // api, dashboard: not each other
	{"poller/byhand", []string{"accounts/cadence", "accounts/trial", "poller"}},
	{"poller", []string{"accounts", "accounts/cadence", "accounts/history", "circulate", "circulate/limit", "poller/crew", "poller/hold", "poller/timebox"}},
	{"poller/crew", nil},
	{"poller/hold", nil},
	{"poller/timebox", nil},
	{"poller/fetch", []string{"accounts/hostname", "poller"}},
	{"poller/header", []string{"accounts/form", "accounts/strict", "poller/fetch", "poller/secrets"}},
	{"poller/secrets", []string{"accounts/secret", "poller"}},
	{"poller/secrets/opener", []string{"accounts/secret", "circulate", "circulate/vault", "poller/secrets"}},
	{"poller/signing", nil},
	{"poller/checkers/wecomkf", append([]string{"circulate/credential"}, forCheckers...)},
	{"poller/checkers/...", forCheckers},
	{"poller/delivery/webhook", []string{"accounts/strict", "circulate", "circulate/endpoint", "poller/delivery", "poller/fetch", "poller/secrets", "poller/signing"}},
	{"poller/delivery/...", []string{"circulate", "circulate/group", "poller/delivery"}},
	{"deployments/examples/own-kind", []string{"accounts/form", "accounts/strict", "cmd/rounds/command", "poller", "poller/fetch"}},
	{"monitor", []string{"accounts", "accounts/concern", "accounts/history", "accounts/law", "accounts/problem", "circulate", "circulate/failing", "circulate/group", "circulate/migration"}},
	{"deployments/examples/...", []string{"accounts", "circulate", "circulate/connect", "poller", "poller/delivery", "poller/delivery/sqlonce"}},
	{"deployments/guide", nil},
	{"deployments/monitoring/board", nil},
	{"cmd/rounds/build", nil},
	{"cmd/rounds/listen", nil},
	{"cmd/rounds/terminal", []string{"accounts/legible"}},
	{"cmd/rounds/settings", []string{"accounts/secret", "circulate", "cmd/rounds/listen", "poller/secrets"}},
	{"cmd/rounds/doctor", []string{"accounts", "accounts/api", "accounts/concern", "accounts/law", "circulate", "circulate/connect", "cmd/rounds/client", "cmd/rounds/service", "cmd/rounds/settings", "poller/fetch", "poller/secrets"}},
	{"cmd/rounds/client", []string{"accounts", "accounts/api", "accounts/api/intake", "accounts/concern", "accounts/law", "accounts/api/outlook", "circulate"}},
	{"cmd/rounds/service", []string{"cmd/rounds/listen", "cmd/rounds/settings", "accounts/...", "circulate/...", "monitor", "poller/...", "deployments/guide"}},
	{"cmd/rounds/sample", nil},
	{"cmd/rounds/demo", []string{"cmd/rounds/client", "cmd/rounds/sample", "cmd/rounds/service", "cmd/rounds/settings", "accounts", "accounts/api", "accounts/api/outlook", "circulate/connect", "poller/secrets", "poller/secrets/opener"}},
	{"cmd/rounds/admin", []string{"cmd/rounds/doctor", "accounts/backup", "circulate", "cmd/rounds/client", "cmd/rounds/terminal", "cmd/rounds/service", "cmd/rounds/settings", "accounts/access", "accounts/access/key", "accounts/api", "accounts/api/intake", "accounts/api/outlook", "accounts/problem", "accounts/scan", "accounts/secret", "accounts/trail", "poller/secrets/opener"}},
	{"cmd/rounds/command", []string{"cmd/rounds/admin", "cmd/rounds/doctor", "cmd/rounds/build", "cmd/rounds/terminal", "cmd/rounds/client", "cmd/rounds/demo", "cmd/rounds/listen", "cmd/rounds/service", "cmd/rounds/settings", "accounts/...", "circulate", "deployments/guide", "poller/..."}},
	{"cmd/...", []string{"cmd/rounds/command"}},
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
