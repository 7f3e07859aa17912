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
	source(m, "circulate/datadir/dir.go", "datadir", "circulate/connect")
	source(m, "circulate/namespace/namespace.go", "namespace", "circulate", "circulate/connect")
	source(m, "circulate/limit/limit.go", "limit", "circulate", "circulate/internal/wire")
	source(m, "accounts/account.go", "accounts", "circulate", "accounts/cadence", "accounts/strict")
	source(m, "accounts/cadence/cadence.go", "cadence")
	source(m, "accounts/access/role.go", "access")
	source(m, "accounts/concern/collect.go", "concern", "accounts", "circulate", "circulate/document")
	source(m, "accounts/history/keep.go", "history", "circulate", "circulate/document")
	source(m, "poller/pool.go", "poller", "accounts", "circulate", "circulate/limit")
	source(m, "poller/checkers/feed/feed.go", "feed", "accounts/strict", "poller", "poller/fetch", "poller/secrets")
	source(m, "poller/checkers/wecomkf/wecomkf.go", "wecomkf", "circulate/credential", "poller", "poller/fetch", "poller/secrets")
	source(m, "poller/files/store.go", "files")
	source(m, "poller/files/s3/store.go", "s3", "poller/files", "poller/secrets")
	source(m, "poller/fetch/client.go", "fetch", "accounts/strict", "poller", "poller/secrets")
	source(m, "poller/secrets/secrets.go", "secrets", "accounts/secret", "poller")
	source(m, "poller/delivery/webhook/sink.go", "webhook", "poller/delivery", "poller/fetch", "poller/secrets")
	source(m, "monitor/sweep.go", "monitor", "accounts", "accounts/concern", "circulate")
	source(m, "cmd/rounds/main.go", "main", "cmd/rounds/command")
	source(m, "cmd/rounds/key/keyring.go", "key", "accounts/access", "circulate")
	source(m, "cmd/rounds/trail/trail.go", "trail", "accounts/access", "circulate")
	source(m, "cmd/rounds/callback/receiver.go", "callback", "cmd/rounds/callback/wecomcrypt", "accounts/strict", "circulate")
	source(m, "cmd/rounds/message/reader.go", "message", "accounts/strict", "circulate", "circulate/group")
	source(m, "cmd/rounds/api/server.go", "api", "accounts", "accounts/access", "circulate", "cmd/rounds/callback", "cmd/rounds/key", "cmd/rounds/message")
	source(m, "cmd/rounds/pages/pages.go", "pages", "accounts/access", "cmd/rounds/api", "cmd/rounds/terminal")
	source(m, "cmd/rounds/command/main.go", "command", "poller", "cmd/rounds/api", "cmd/rounds/client", "cmd/rounds/service", "cmd/rounds/settings", "deployments/guide")
	source(m, "cmd/rounds/service/service.go", "service", "poller", "monitor", "cmd/rounds/api", "poller/checkers/feed", "circulate/connect", "cmd/rounds/settings")
	source(m, "cmd/rounds/listen/listen.go", "listen")
	source(m, "cmd/rounds/terminal/writer.go", "terminal")
	source(m, "cmd/rounds/settings/settings.go", "settings", "circulate", "cmd/rounds/listen", "poller/secrets")
	source(m, "cmd/rounds/demo/demo.go", "demo", "circulate/connect", "cmd/rounds/client", "cmd/rounds/sample", "cmd/rounds/service")
	source(m, "cmd/rounds/client/client.go", "client", "cmd/rounds/api")
	source(m, "deployments/examples/bot-go/bot.go", "main", "cmd/rounds/api", "cmd/rounds/client")
	source(m, "deployments/examples/own-kind/main.go", "main", "cmd/rounds/command", "poller", "poller/fetch")
	source(m, "deployments/examples/own-sender/main.go", "main", "cmd/rounds/command", "poller", "poller/fetch")
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
		{"circulate/document/bad.go", "circulate/credential"},
		{"circulate/document/bad.go", "accounts/access"},
		{"cmd/rounds/key/bad.go", "accounts"},
		{"cmd/rounds/key/bad.go", "circulate/connect"},
		{"cmd/rounds/api/bad.go", "circulate/document"},
		{"circulate/group/bad.go", "circulate/limit"},
		{"circulate/document/bad.go", "circulate/group"},
		{"circulate/document/bad.go", "circulate/limit"},
		{"circulate/namespace/bad.go", "circulate/internal/wire"},
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
		{"accounts/bad.go", "cmd/rounds/api"},
		{"accounts/bad.go", "circulate/connect"},
		{"accounts/bad.go", "cmd/rounds/callback/wecomcrypt"},
		{"accounts/bad.go", "cmd/rounds/message"},
		{"accounts/access/bad.go", "accounts"},
		{"accounts/access/bad.go", "circulate"},
		{"accounts/cadence/bad.go", "accounts"},
		{"accounts/strict/bad.go", "accounts"},
		{"cmd/rounds/message/bad.go", "cmd/rounds/callback"},
		{"cmd/rounds/message/bad.go", "poller"},
		{"cmd/rounds/callback/bad.go", "accounts"},
		{"cmd/rounds/callback/wecomcrypt/bad.go", "accounts/strict"},
		{"cmd/rounds/signin/bad.go", "accounts"},
		{"cmd/rounds/listen/bad.go", "cmd/rounds/settings"},
		{"cmd/rounds/terminal/bad.go", "cmd/rounds/client"},
		{"cmd/rounds/signin/bad.go", "cmd/rounds/api"},
		{"cmd/rounds/doctor/bad.go", "cmd/rounds/command"},
		{"cmd/rounds/demo/bad.go", "cmd/rounds/command"},
		{"circulate/group/bad.go", "circulate/document"},
		{"circulate/bad.go", "circulate/document"},
		{"accounts/concern/bad.go", "cmd/rounds/message"},
		{"accounts/concern/bad.go", "monitor"},
		{"accounts/bad.go", "circulate/document"},
		{"monitor/bad.go", "circulate/document"},
		{"poller/secrets/bad.go", "circulate/document"},
		{"accounts/history/bad.go", "accounts"},
		{"cmd/rounds/api/bad.go", "cmd/rounds/pages"},
		{"cmd/rounds/api/bad.go", "poller/byhand"},
		{"accounts/strict/bad.go", "poller"},
		{"accounts/trial/bad.go", "accounts"},
		{"poller/byhand/bad.go", "circulate"},
		{"cmd/rounds/pages/bad.go", "accounts"},
		{"cmd/rounds/pages/bad.go", "accounts/concern"},
		{"cmd/rounds/pages/bad.go", "cmd/rounds/client"},
		{"cmd/rounds/pages/bad.go", "circulate"},
		{"cmd/rounds/api/bad.go", "monitor"},
		{"cmd/rounds/api/bad.go", "poller/secrets"}, // it seals secrets, and opens none
		{"accounts/secret/bad.go", "poller/secrets"},
		{"cmd/rounds/pages/bad.go", "poller/secrets"},
		{"cmd/rounds/client/bad.go", "poller/secrets"},
		{"monitor/bad.go", "poller/secrets"},
		{"poller/bad.go", "monitor"},
		{"poller/bad.go", "poller/checkers/feed"},
		{"poller/checkers/feed/bad.go", "poller/checkers/http"},
		{"poller/bad.go", "poller/fetch"},
		{"poller/files/bad.go", "poller/files/s3"},
		{"poller/files/bad.go", "circulate"},
		{"poller/delivery/bad.go", "poller/files/s3"},
		{"cmd/rounds/api/bad.go", "poller/files/s3"},
		{"poller/fetch/bad.go", "poller/checkers/feed"},
		{"poller/secrets/bad.go", "poller/fetch"},
		{"accounts/secret/bad.go", "accounts"},
		{"poller/checkers/feed/bad.go", "accounts"},
		{"poller/checkers/feed/bad.go", "circulate/credential"},
		{"poller/checkers/feed/bad.go", "circulate"},
		{"poller/checkers/feed/bad.go", "poller/delivery"},
		{"poller/delivery/bad.go", "cmd/rounds/message"},
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
		{"circulate/bad.go", "monitor"},
		{"cmd/rounds/build/bad.go", "cmd/rounds/settings"},
		{"cmd/rounds/bad.go", "poller"},
		{"cmd/rounds/bad.go", "cmd/rounds/service"},
		{"cmd/rounds/command/bad.go", "monitor"},
		{"cmd/rounds/command/bad.go", "circulate/connect"},
		{"cmd/rounds/service/bad.go", "cmd/rounds/command"},
		{"deployments/examples/own-kind/bad.go", "cmd/rounds/service"},
		{"deployments/examples/bot-go/bad.go", "circulate"},
		{"deployments/examples/own-sender/bad.go", "circulate"},
		{"deployments/examples/other/bad.go", "cmd/rounds/command"},
		{"deployments/monitoring/board/bad.go", "monitor"},
		{"accounts/bad.go", "cmd/rounds/pages"},
		{"accounts/strict/bad.go", "circulate"},
		{"poller/bad.go", "cmd/rounds/api"},
		{"monitor/bad.go", "cmd/rounds/message"},
		{"cmd/rounds/api/bad.go", "cmd/rounds/client"},
		{"cmd/rounds/backup/bad.go", "cmd/rounds/api"},
		{"cmd/rounds/key/bad.go", "cmd/rounds/signin"},
	} {
		m := good()
		source(m, c.path, "bad", c.to)
		want := []string{c.path + ": must not import " + c.to}
		if found := judge(t, m); !slices.Equal(found, want) {
			t.Errorf("%s importing %s: got %q", c.path, c.to, found)
		}
	}
}

func TestConfinedModules(t *testing.T) {
	for dir, want := range map[string]string{
		"poller/files/s3": "",
		"poller/files":    "poller/files/a.go: must not import github.com/minio/minio-go/v7/pkg/credentials, which only poller/files/s3 may",
		"testing/chaos":   "",
	} {
		m := good()
		m[dir+"/a.go"] = &fstest.MapFile{Data: []byte("package a\n\nimport _ \"github.com/minio/minio-go/v7/pkg/credentials\"\n")}
		if found := strings.Join(judge(t, m), "\n"); found != want {
			t.Errorf("%s: got %q", dir, found)
		}
	}
}

func TestBadDocuments(t *testing.T) {
	for _, c := range []struct{ path, text, want string }{
		{"accounts/secret/a.go", "var v = document.Of(ring).Vault()", ""},
		{"accounts/secret/a.go", "var v = document.At(server, namespace()).Vault().Get", ""},
		{"accounts/secret/a.go", "var v = other.Of(ring).Keys()", ""},
		{"accounts/secret/a.go", "var v = document.Of(ring).Keys()", "must not open documents as Keys"},
		{"cmd/rounds/key/a.go", "var v = document.At(server, namespace).Vault()", "must not open documents as Vault"},
		{"cmd/rounds/api/a.go", "var v = document.Of(ring).Sessions(0)", "must not open documents as Sessions"},
		{"accounts/secret/a.go", "var v = document.Of(ring)", "must not open documents as *"},
		{"accounts/secret/a.go", "var of = document.At", "must not open documents as *"},
		{"accounts/secret/a_test.go", "var v = document.Of(ring).Keys()", ""},
	} {
		m := good()
		m[c.path] = &fstest.MapFile{Data: []byte("package a\n\n" + c.text + "\n")}
		want := c.want
		if want != "" {
			want = c.path + ": " + want
		}
		if found := strings.Join(judge(t, m), "\n"); found != want {
			t.Errorf("%s: got %q, want %q", c.text, found, want)
		}
	}
}

func TestPagesUseOnlyTypesOfTheAPI(t *testing.T) {
	for use, bad := range map[string]string{
		"type account struct{ api.Account }": "",
		"const place = api.Place":            "",
		"func f() { api.New() }":             "New",
		"var open = api.New":                 "New",
		"var all = api.Rights":               "Rights",
	} {
		m := good()
		m["cmd/rounds/api/a.go"] = &fstest.MapFile{Data: []byte("package api\n\nconst Place = 1\n\nvar Rights int\n\ntype Account int\n\nfunc New() {}\n\nfunc (Account) Body() {}\n")}
		m["cmd/rounds/pages/a.go"] = &fstest.MapFile{Data: []byte("package pages\n\nimport named \"example.org/m/cmd/rounds/api\"\n\n" + strings.ReplaceAll(use, "api.", "named.") + "\n")}
		want := ""
		if bad != "" {
			want = "cmd/rounds/pages/a.go: must use only types of cmd/rounds/api, not " + bad
		}
		if found := strings.Join(judge(t, m), "\n"); found != want {
			t.Errorf("%s: got %q, want %q", use, found, want)
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
