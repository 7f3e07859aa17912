package archtest

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// good is a module without a fault. Other examples begin with it.
func good() fstest.MapFS {
	m := fstest.MapFS{
		"go.mod":                      {Data: []byte("module example.org/m\n\ngo 1.26\n")},
		"deployments/compose.yaml":    {},
		".github/workflows/ci.go":     {Data: []byte("not Go")},
		"bin/rounds":                  {},
		"testing/bench/go.mod":        {Data: []byte("module example.org/m/testing/bench\n")},
		"testing/bench/main.go":       {Data: []byte("not Go")},
		"accounts/testdata/broken.go": {Data: []byte("not Go")},
	}
	source(m, "circulate/ring.go", "circulate", "circulate/internal/wire")
	source(m, "circulate/internal/wire/wire.go", "wire")
	source(m, "circulate/ring_test.go", "circulate_test", "circulate", "circulate/connect", "testing/redistest")
	source(m, "circulate/connect/connect.go", "connect", "circulate")
	source(m, "circulate/bulletin/bulletin.go", "bulletin", "circulate", "circulate/internal/wire")
	source(m, "accounts/concern/collect.go", "concern", "accounts", "accounts/law", "circulate", "circulate/bulletin", "circulate/endpoint")
	source(m, "accounts/law/law.go", "law", "circulate", "circulate/bulletin")
	source(m, "circulate/credential/credential.go", "credential", "circulate", "circulate/internal/wire")
	source(m, "circulate/namespace/namespace.go", "namespace", "circulate", "circulate/connect")
	source(m, "circulate/endpoint/order.go", "endpoint", "circulate", "circulate/internal/wire")
	source(m, "circulate/group/group.go", "group", "circulate", "circulate/internal/wire")
	source(m, "circulate/journal/journal.go", "journal", "circulate", "circulate/internal/wire")
	source(m, "circulate/limit/limit.go", "limit", "circulate", "circulate/internal/wire")
	source(m, "circulate/series/series.go", "series", "circulate", "circulate/internal/wire")
	source(m, "accounts/history/keep.go", "history", "circulate", "circulate/series")
	source(m, "circulate/session/session.go", "session", "circulate", "circulate/internal/wire")
	source(m, "accounts/account.go", "accounts", "circulate", "accounts/cadence", "accounts/cursor", "accounts/strict")
	source(m, "accounts/cadence/cadence.go", "cadence")
	source(m, "accounts/access/role.go", "access")
	source(m, "accounts/access/key/keyring.go", "key", "accounts/access", "accounts/strict", "circulate", "circulate/apikey")
	source(m, "circulate/apikey/apikey.go", "apikey", "circulate", "circulate/internal/wire")
	source(m, "accounts/api/server.go", "api", "accounts", "accounts/access", "accounts/callback", "accounts/message", "circulate")
	source(m, "circulate/timeline/timeline.go", "timeline", "circulate", "circulate/internal/wire")
	source(m, "accounts/timeline/timeline.go", "timeline", "accounts/access", "accounts/cursor", "accounts/trail", "circulate", "circulate/timeline")
	source(m, "accounts/trail/trail.go", "trail", "accounts/access", "accounts/cursor", "circulate", "circulate/journal")
	source(m, "poller/pool.go", "poller", "accounts", "circulate", "circulate/limit")
	source(m, "accounts/message/reader.go", "message", "accounts/cursor", "accounts/strict", "circulate")
	source(m, "accounts/callback/receiver.go", "callback", "accounts/callback/wecomcrypt", "accounts/strict", "circulate")
	source(m, "poller/checkers/feed/feed.go", "feed", "accounts/strict", "poller", "poller/fetch", "poller/header", "poller/secrets")
	source(m, "poller/fetch/client.go", "fetch", "poller")
	source(m, "poller/header/header.go", "header", "accounts/strict", "poller/fetch", "poller/secrets")
	source(m, "poller/secrets/secrets.go", "secrets", "accounts/secret", "poller")
	source(m, "poller/signing/signing.go", "signing")
	source(m, "poller/delivery/webhook/sink.go", "webhook", "poller/delivery", "poller/fetch", "poller/secrets", "poller/signing")
	source(m, "monitor/sweep.go", "monitor", "accounts", "accounts/law", "circulate")
	source(m, "cmd/rounds/main.go", "main", "cmd/rounds/command")
	source(m, "cmd/rounds/command/main.go", "command", "poller", "accounts/api", "cmd/rounds/client", "cmd/rounds/service", "cmd/rounds/settings", "deployments/guide")
	source(m, "deployments/examples/own-kind/main.go", "main", "cmd/rounds/command", "poller", "poller/fetch")
	source(m, "cmd/rounds/service/service.go", "service", "poller", "monitor", "accounts/api", "poller/checkers/feed", "circulate/connect", "cmd/rounds/settings")
	source(m, "cmd/rounds/listen/listen.go", "listen")
	source(m, "cmd/rounds/terminal/writer.go", "terminal")
	source(m, "cmd/rounds/settings/settings.go", "settings", "circulate", "cmd/rounds/listen", "poller/secrets")
	source(m, "cmd/rounds/admin/trail.go", "admin", "accounts/api", "accounts/trail", "cmd/rounds/client")
	source(m, "cmd/rounds/demo/demo.go", "demo", "accounts/api/outlook", "circulate/connect", "cmd/rounds/client", "cmd/rounds/sample", "cmd/rounds/service")
	source(m, "cmd/rounds/client/client.go", "client", "accounts/api")
	source(m, "testing/checktest/suite.go", "checktest", "poller", "testing/upstream")
	source(m, "testing/chaos/chaos.go", "chaos", "poller", "testing/redistest")
	return m
}

// source adds a file that imports folders of the module.
func source(m fstest.MapFS, path, name string, imports ...string) {
	var b strings.Builder
	b.WriteString("package " + name + "\n\nimport (\n\t_ \"fmt\"\n")
	for _, folder := range imports {
		b.WriteString("\t_ \"example.org/m/" + folder + "\"\n")
	}
	b.WriteString(")\n")
	m[path] = &fstest.MapFile{Data: []byte(b.String())}
}

func judge(t *testing.T, m fstest.MapFS) []string {
	t.Helper()
	read, err := readTree(m)
	if err != nil {
		t.Fatal(err)
	}
	return faults(read)
}

func TestGoodExample(t *testing.T) {
	if found := judge(t, good()); len(found) > 0 {
		t.Errorf("got %q", found)
	}
}

func TestBadImports(t *testing.T) {
	for _, c := range []struct{ path, to string }{
		{"circulate/bad.go", "accounts"},
		{"circulate/bad.go", "circulate/connect"},
		{"circulate/internal/wire/bad.go", "circulate"},
		{"circulate/limit/bad.go", "circulate/credential"},
		{"circulate/credential/bad.go", "circulate/limit"},
		{"circulate/apikey/bad.go", "circulate/credential"},
		{"circulate/apikey/bad.go", "accounts/access"},
		{"accounts/access/key/bad.go", "accounts"},
		{"accounts/access/key/bad.go", "circulate/connect"},
		{"accounts/api/bad.go", "circulate/apikey"},
		{"circulate/group/bad.go", "circulate/limit"},
		{"circulate/endpoint/bad.go", "circulate/group"},
		{"circulate/session/bad.go", "circulate/credential"},
		{"circulate/namespace/bad.go", "circulate/internal/wire"},
		{"accounts/api/bad.go", "circulate/endpoint"},
		{"circulate/group/bad.go", "accounts"},
		{"circulate/bad.go", "circulate/group"},
		{"monitor/bad.go", "circulate/limit"},
		{"poller/bad.go", "circulate/group"},
		{"circulate/bad.go", "circulate/limit"},
		{"circulate/bad.go", "circulate/internal/wiretest"},
		{"circulate/connect/bad.go", "accounts"},
		{"accounts/bad.go", "circulate/limit"},
		{"accounts/bad.go", "circulate/group"},
		{"accounts/bad.go", "poller"},
		{"accounts/bad.go", "accounts/api"},
		{"accounts/bad.go", "circulate/connect"},
		{"accounts/bad.go", "accounts/callback/wecomcrypt"},
		{"accounts/bad.go", "accounts/message"},
		{"accounts/access/bad.go", "accounts"},
		{"accounts/access/bad.go", "circulate"},
		{"accounts/cadence/bad.go", "accounts"},
		{"accounts/cursor/bad.go", "circulate"},
		{"accounts/strict/bad.go", "accounts"},
		{"accounts/message/bad.go", "accounts/callback"},
		{"accounts/message/bad.go", "poller"},
		{"accounts/callback/bad.go", "accounts"},
		{"accounts/callback/wecomcrypt/bad.go", "accounts/strict"},
		{"accounts/access/origin/bad.go", "accounts"},
		{"cmd/rounds/listen/bad.go", "cmd/rounds/settings"},
		{"cmd/rounds/terminal/bad.go", "cmd/rounds/client"},
		{"accounts/access/session/bad.go", "accounts/access/idp"},
		{"accounts/access/idp/bad.go", "accounts/api"},
		{"accounts/access/signin/bad.go", "circulate"},
		{"accounts/trail/bad.go", "accounts"},
		{"cmd/rounds/admin/bad.go", "cmd/rounds/command"},
		{"cmd/rounds/demo/bad.go", "cmd/rounds/command"},
		{"circulate/journal/bad.go", "circulate/group"},
		{"circulate/bulletin/bad.go", "circulate/journal"},
		{"accounts/law/bad.go", "accounts"},
		{"accounts/concern/bad.go", "accounts/message"},
		{"accounts/concern/bad.go", "monitor"},
		{"accounts/api/bad.go", "circulate/bulletin"},
		{"circulate/timeline/bad.go", "circulate/journal"},
		{"accounts/timeline/bad.go", "circulate/journal"},
		{"accounts/api/bad.go", "circulate/journal"},
		{"circulate/series/bad.go", "circulate/journal"},
		{"accounts/api/bad.go", "circulate/series"},
		{"accounts/history/bad.go", "accounts"},
		{"accounts/api/bad.go", "accounts/dashboard"},
		{"accounts/api/intake/bad.go", "accounts/api"},
		{"accounts/api/intake/bad.go", "poller/byhand"},
		{"accounts/api/outlook/bad.go", "accounts/api"},
		{"accounts/api/outlook/bad.go", "circulate/journal"},
		{"accounts/api/bad.go", "circulate/limit"},
		{"accounts/form/bad.go", "poller"},
		{"accounts/trial/bad.go", "accounts"},
		{"poller/byhand/bad.go", "circulate"},
		{"accounts/dashboard/bad.go", "accounts/api"},
		{"accounts/dashboard/bad.go", "circulate"},
		{"accounts/api/bad.go", "monitor"},
		{"accounts/api/bad.go", "poller/secrets/opener"}, // it seals secrets, and opens none
		{"accounts/secret/bad.go", "poller/secrets/opener"},
		{"accounts/dashboard/bad.go", "poller/secrets/opener"},
		{"cmd/rounds/client/bad.go", "poller/secrets/opener"},
		{"monitor/bad.go", "poller/secrets/opener"},
		{"poller/checkers/feed/bad.go", "poller/secrets/opener"},
		{"poller/bad.go", "monitor"},
		{"poller/bad.go", "poller/checkers/feed"},
		{"poller/checkers/feed/bad.go", "poller/checkers/http"},
		{"poller/bad.go", "poller/fetch"},
		{"poller/fetch/bad.go", "poller/checkers/feed"},
		{"poller/fetch/bad.go", "poller/secrets"},
		{"poller/secrets/bad.go", "poller/fetch"},
		{"poller/secrets/bad.go", "circulate"},
		{"poller/secrets/bad.go", "poller/secrets/opener"},
		{"accounts/secret/bad.go", "accounts"},
		{"poller/signing/bad.go", "poller/secrets"},
		{"poller/header/bad.go", "poller"},
		{"poller/header/bad.go", "poller/signing"},
		{"poller/fetch/bad.go", "poller/header"},
		{"poller/checkers/feed/bad.go", "accounts"},
		{"poller/checkers/feed/bad.go", "circulate/credential"},
		{"poller/checkers/feed/bad.go", "circulate"},
		{"poller/checkers/feed/bad.go", "poller/delivery"},
		{"poller/checkers/feed/bad.go", "accounts/cursor"},
		{"poller/delivery/bad.go", "accounts/message"},
		{"poller/delivery/bad.go", "poller/checkers/feed"},
		{"poller/delivery/bad.go", "poller/fetch"},
		{"poller/delivery/sqlonce/bad.go", "poller/secrets"},
		{"poller/delivery/webhook/bad.go", "poller/checkers/feed"},
		{"poller/delivery/webhook/bad.go", "poller"},
		{"monitor/bad.go", "poller"},
		{"monitor/bad.go", "poller/fetch"},
		{"cmd/rounds/bad.go", "testing/upstream"},
		{"poller/bad.go", "testing/redistest"},
		{"poller/checkers/feed/bad.go", "testing/checktest"},
		{"cmd/rounds/bad.go", "testing/checktest"},
		{"poller/unplanned/bad.go", "circulate"},
		{"circulate/bad.go", "cmd/rounds/client"},
		{"cmd/rounds/settings/bad.go", "cmd/rounds/service"},
		{"cmd/rounds/settings/bad.go", "cmd/rounds/client"},
		{"cmd/rounds/settings/bad.go", "circulate/connect"},
		{"cmd/rounds/settings/bad.go", "poller"},
		{"cmd/rounds/client/bad.go", "cmd/rounds/settings"},
		{"cmd/rounds/doctor/bad.go", "poller"},
		{"cmd/rounds/service/bad.go", "cmd/rounds/doctor"},
		{"cmd/rounds/client/bad.go", "poller"},
		{"cmd/rounds/service/bad.go", "cmd/rounds/client"},
		{"cmd/rounds/sample/bad.go", "accounts"},
		{"circulate/migration/bad.go", "monitor"},
		{"cmd/rounds/build/bad.go", "cmd/rounds/settings"},
		{"cmd/rounds/bad.go", "poller"},
		{"cmd/rounds/bad.go", "cmd/rounds/service"},
		{"cmd/rounds/command/bad.go", "monitor"},
		{"cmd/rounds/command/bad.go", "circulate/connect"},
		{"cmd/rounds/service/bad.go", "cmd/rounds/command"},
		{"deployments/examples/own-kind/bad.go", "cmd/rounds/service"},
		{"deployments/examples/other/bad.go", "cmd/rounds/command"},
		{"deployments/monitoring/board/bad.go", "monitor"},
	} {
		m := good()
		source(m, c.path, "bad", c.to)
		want := []string{c.path + ": must not import " + c.to}
		if found := judge(t, m); !slices.Equal(found, want) {
			t.Errorf("%s importing %s: got %q", c.path, c.to, found)
		}
	}
}

func TestBadFiles(t *testing.T) {
	for _, c := range []struct{ path, text, want string }{
		{"pkg/a.go", "package pkg\n", "pkg/: no such folder is planned at the top"},
		{"testing/a.go", "package testing\n", "testing/a.go: testing/ holds folders only"},
		{"a.go", "package rounds\n", "a.go: ./ holds folders only"},
		{"circulate/util/a.go", "package util\n", "circulate/util/a.go: package util says nothing"},
		{"circulate/a_test.go", "package helpers_test\n", "circulate/a_test.go: package helpers_test says nothing"},
		{"circulate/a.go", "package circulate\n\nfunc init() {}\n", "circulate/a.go: has an init: what it does nobody asked for"},
		{"circulate/a_test.go", "package circulate\n\nfunc init() {}\n", ""},
		{"circulate/a.go", "package circulate\n\ntype t int\n\nfunc (t) init() {}\n", ""},
	} {
		m := good()
		m[c.path] = &fstest.MapFile{Data: []byte(c.text)}
		if found := strings.Join(judge(t, m), "\n"); found != c.want {
			t.Errorf("%s: got %q, want %q", c.path, found, c.want)
		}
	}
	m := good()
	delete(m, "monitor/sweep.go")
	if found := judge(t, m); !slices.Equal(found, []string{"monitor/ is missing"}) {
		t.Errorf("a folder less: got %q", found)
	}
	m = good()
	m["circulate/a.go"] = &fstest.MapFile{Data: []byte("not Go")}
	if _, err := readTree(m); err == nil {
		t.Error("a file that is not Go: no error")
	}
}
