package command

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/accounts/secret"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/poller/secrets"
	"github.com/rounds-dev/rounds/testing/redistest"
)

func TestBackupAndRestore(t *testing.T) {
	s := startAPI(t)
	s.must("account", "add", "a", "--kind", "feed", "--set", "url=http://127.0.0.1:9/a")
	s.must("account", "add", "é/b", "--kind", "feed", "--set", "url=http://127.0.0.1:9/b", "--every", "1h")
	s.must("account", "pause", "a")
	dir := t.TempDir()
	process := redistest.Start(t)
	restore := func(args ...string) (output, error) {
		return runWith(t.Context(), map[string]string{"ROUNDS_REDIS_URL": "redis://" + process.Addr()}, "", append([]string{"restore"}, args...)...)
	}
	for i, name := range []string{"b.ndjson", "b.ndjson.zst"} {
		file := filepath.Join(dir, name)
		if got := s.must("backup", file); !strings.HasPrefix(got, file+" has 2 accounts, 0 messages and 0 dead letters: ") || !strings.Contains(got, "kB, taken in ") {
			t.Errorf("backup: %q", got)
		}
		if got := s.must("stats"); !strings.Contains(got, "2 accounts and 0 messages, verified") {
			t.Errorf("stats: %q", got)
		}
		if got, err := restore(file, "--dry-run"); err != nil || !strings.Contains(got.out, "of namespace rounds with 4 shards, taken ") {
			t.Errorf("dry run: %+v, %v", got, err)
		}
		namespace := []string{"one", "two"}[i]
		got, err := restore(file, "--namespace", namespace, "--shards", "3")
		if err != nil || !strings.Contains(got.out, "restored 2 accounts, 0 messages and 0 dead letters into namespace "+namespace) {
			t.Fatalf("restore: %+v, %v", got, err)
		}
		ring, err := circulate.Open(t.Context(), redistest.Connect(t, process), circulate.Options{Namespace: namespace})
		if err != nil {
			t.Fatal(err)
		}
		if view, err := ring.Account("a").Look(t.Context()); err != nil || view.Place != circulate.Parked || view.Reason != "paused" {
			t.Errorf("a: %+v, %v", view, err)
		}
		if view, err := ring.Account("é/b").Look(t.Context()); err != nil || view.Place != circulate.Scheduled || ring.Shards() != 3 {
			t.Errorf("b: %+v, %v", view, err)
		}
		if _, err := restore(file, "--namespace", namespace); err == nil || !strings.Contains(err.Error(), "is not empty: it has 2 accounts") {
			t.Errorf("again: %v", err)
		}
		whole, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, whole[:len(whole)-5], 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := restore(file, "--namespace", "three"); err == nil || !strings.Contains(err.Error(), "nothing was restored: backup: line ") {
			t.Errorf("cut off: %v", err)
		}
	}
	if _, err := restore(filepath.Join(dir, "none")); err == nil || exitCode(err) != 1 {
		t.Errorf("no file: %v", err)
	}
	if _, err := restore("-", "--shards", "-1"); err == nil || !strings.Contains(err.Error(), "--shards: must be 1 to 16384") {
		t.Errorf("shards: %v", err)
	}
	// A namespace that was written in part is used by nobody.
	server := redistest.Connect(t, process)
	ring, err := circulate.Open(t.Context(), server, circulate.Options{Namespace: "partly", Restoring: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := ring.Archive().Begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := circulate.Open(t.Context(), server, circulate.Options{Namespace: "partly"}); err == nil || !strings.Contains(err.Error(), "a backup is being restored into it") {
		t.Errorf("a namespace that is partly there: %v", err)
	}
	if err := ring.Archive().End(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := circulate.Open(t.Context(), server, circulate.Options{Namespace: "partly"}); err != nil {
		t.Error(err)
	}
}

// A backup is restored into the Redis that --to names, with a password from a file, as the
// guide has it where there is no Redis yet.
func TestRestoreToWithAPasswordFile(t *testing.T) {
	s := startAPI(t)
	s.must("account", "add", "a", "--kind", "feed", "--set", "url=http://127.0.0.1:9/a")
	file, password := filepath.Join(t.TempDir(), "b.ndjson"), filepath.Join(t.TempDir(), "password")
	s.must("backup", file)
	if err := os.WriteFile(password, []byte("hunter2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	to := "redis://" + redistest.Start(t).Addr()
	conn, err := redis.DialURL(to)
	if err != nil {
		t.Fatal(err)
	}
	_, err = conn.Do("CONFIG", "SET", "requirepass", "hunter2")
	if err := errors.Join(err, conn.Close()); err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"ROUNDS_REDIS_PASSWORD_FILE": password}
	if got, err := runWith(t.Context(), env, "", "restore", file, "--to", to); err != nil || !strings.Contains(got.out, "restored 1 account") {
		t.Errorf("got %+v, %v", got, err)
	}
	if _, err := runWith(t.Context(), nil, "", "restore", file, "--to", to); err == nil || strings.Contains(err.Error(), "restored") {
		t.Errorf("without the password: %v", err)
	}
	if _, err := runWith(t.Context(), env, "", "restore", file, "--to", "127.0.0.1:6379"); err == nil || !strings.Contains(err.Error(), "must be a URL such as") {
		t.Errorf("no URL: %v", err)
	}
}

// A backup with secrets is restored with the private key and without it, and says so. A
// terminal sees how far it is.
func TestBackupWithSecrets(t *testing.T) {
	s := startAPI(t)
	s.must("account", "add", "a", "--kind", "feed", "--set", "url=http://127.0.0.1:9/a")
	if _, err := s.roundsWith(t.Context(), "hunter2-hunter2", "secret", "set", "KF"); err != nil {
		t.Fatal(err)
	}
	s.must("key", "create", "ci", "--role", "viewer")
	file := filepath.Join(t.TempDir(), "b.ndjson")
	if got := s.must("backup", file); strings.Contains(got, "secret") || !strings.Contains(got, "1 key:") {
		t.Errorf("without secrets: %q", got)
	}
	if got := s.must("backup", "--with-secrets", file); !strings.Contains(got, "1 key and 1 sealed secret: ") {
		t.Errorf("with secrets: %q", got)
	}
	whole, err := os.ReadFile(file)
	if err != nil || strings.Contains(string(whole), "hunter2") {
		t.Errorf("the file has the secret in clear, or %v", err)
	}
	other, err := secrets.Generate()
	if err != nil {
		t.Fatal(err)
	}
	private, err := other.Text()
	if err != nil {
		t.Fatal(err)
	}
	process := redistest.Start(t)
	for i, c := range []struct {
		key, says string
		args      []string
	}{
		{"", "which ROUNDS_SECRETS_KEY does not have here", nil},
		{private, "which ROUNDS_SECRETS_KEY does not have here", []string{"--without-keys"}},
	} {
		env := map[string]string{"ROUNDS_REDIS_URL": "redis://" + process.Addr(), "ROUNDS_SECRETS_KEY": c.key}
		namespace := []string{"one", "two"}[i]
		got, err := runWith(t.Context(), env, "", append([]string{"restore", file, "--namespace", namespace}, c.args...)...)
		if err != nil || !strings.Contains(got.out, c.says) || !strings.Contains(got.out, "1 sealed secret into namespace "+namespace) || strings.Contains(got.out, "1 key and 1 sealed secret into") != (len(c.args) == 0) {
			t.Errorf("%d: %+v, %v", i, got, err)
		}
		stored, _, err := secret.At(redistest.Connect(t, process), namespace).Page(t.Context(), "", 10)
		if err != nil || len(stored) != 1 || stored[0].Name != "KF" {
			t.Errorf("%d: %+v, %v", i, stored, err)
		}
	}
	if _, err := runWith(t.Context(), map[string]string{"ROUNDS_SECRETS_KEY": "x"}, "", "restore", file, "--dry-run"); err == nil || !strings.Contains(err.Error(), "ROUNDS_SECRETS_KEY") {
		t.Errorf("a bad key: %v", err)
	}
}

// A backup that arrives in part is refused, and leaves nothing behind.
func TestWhatIsIncompleteIsNotWritten(t *testing.T) {
	const header = `{"header":{"is":"rounds backup","format":1,"namespace":"n","shards":1,"time":"2026-11-22T10:00:00Z"}}` + "\n"
	lost := errors.New("the connection was lost")
	for _, name := range []string{"b.ndjson", "b.ndjson.zst"} {
		for _, c := range []struct {
			name, text string
			fails      error
			says       string
		}{
			{"nothing", "", nil, "line 1: the file ends here"},
			{"half", header, nil, "line 2: the file ends here"},
			{"something else", strings.Repeat("<html>\n", 100_000), nil, "line 1: this is not a backup"},
			{"a cut connection", header, lost, lost.Error()},
		} {
			dir := t.TempDir()
			_, _, err := writeBackup(filepath.Join(dir, name), func(w io.Writer) error {
				if _, err := io.WriteString(w, c.text); err != nil {
					return err
				}
				return c.fails
			}, newGauge(environment{isTerminal: func(any) bool { return false }}))
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s, %s: %v, want %q", name, c.name, err, c.says)
			}
			if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
				t.Errorf("%s, %s: %v is left, %v", name, c.name, left, err)
			}
		}
	}
	if _, _, err := writeBackup(filepath.Join(t.TempDir(), "none", "b"), nil, nil); err == nil || strings.Contains(err.Error(), ".b.") || !strings.Contains(err.Error(), "none/b: nothing can be written there: no such file") {
		t.Errorf("no folder: %v", err)
	}
}

// A directory that has something is not restored into; the cure is another directory.
func TestRestoreIntoADirectory(t *testing.T) {
	s := startAPI(t)
	s.must("account", "add", "a", "--kind", "feed", "--set", "url=http://127.0.0.1:9/a")
	file, data := filepath.Join(t.TempDir(), "b.ndjson"), filepath.Join(t.TempDir(), "data")
	s.must("backup", file)
	for _, want := range []string{"", "the directory " + data + " is not empty: it has 1 accounts and 0 messages in "} {
		_, err := runWith(t.Context(), nil, "", "restore", file, "--data", data)
		if want == "" && err != nil || want != "" && (err == nil || !strings.HasPrefix(err.Error(), want) || !strings.HasSuffix(err.Error(), "; choose another with --data")) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
