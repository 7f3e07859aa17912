package command

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rounds-dev/rounds/accounts/secret"
	"github.com/rounds-dev/rounds/testing/redistest"
)

// copyOf copies files of deployments into a folder under the same names, so that the test can
// run a script that writes next to itself.
func copyOf(t *testing.T, paths ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, path := range paths {
		at := filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(deployment(t, path)), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func script(t *testing.T, env []string, words ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), words[0], words[1:]...)
	cmd.Env = append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%q: %v\n%s", words, err, out)
	}
}

// composeInit runs init.sh and returns the folder with the files that it makes, under the
// names in the compose file.
func composeInit(t *testing.T) string {
	t.Helper()
	dir := copyOf(t, "compose/init.sh", "redis/rounds.acl")
	script(t, nil, filepath.Join(dir, "compose/init.sh"))
	named := t.TempDir()
	for name, s := range readCompose(t).Secrets {
		if err := os.Link(filepath.Join(dir, "compose", s.File), filepath.Join(named, name)); err != nil {
			t.Errorf("init.sh does not write what is the secret %s: %v", name, err)
		}
	}
	return named
}

func contentsOf(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestComposeInit runs the script of the compose file. Its files are secret, differ between
// installations, and stay as they are. A real Redis accepts rounds with its password, and
// nobody without one.
func TestComposeInit(t *testing.T) {
	dir := copyOf(t, "compose/init.sh", "redis/rounds.acl")
	init, private := filepath.Join(dir, "compose/init.sh"), filepath.Join(dir, "compose/private")
	if err := os.WriteFile(filepath.Join(dir, "compose/.env"), []byte("A=b\nROUNDS_API_TOKEN=0123456789abcdef\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	script(t, nil, init)
	token, password, users := filepath.Join(private, "api-token"), filepath.Join(private, "redis-password"), filepath.Join(private, "users.acl")
	first, acl := contentsOf(t, password), contentsOf(t, users)
	if strings.TrimSpace(contentsOf(t, token)) != "0123456789abcdef" || len(first) != 64 || strings.Contains(acl, "SHA256") || strings.Contains(acl, first) {
		t.Errorf("token %q, users\n%s", contentsOf(t, token), acl)
	}
	if info, err := os.Stat(private); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("others may look into the folder: %v, %v", info.Mode(), err)
	}
	script(t, nil, init)
	if contentsOf(t, password) != first || contentsOf(t, users) != acl {
		t.Error("a second run makes others")
	}
	if err := os.Remove(token); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "compose/.env")); err != nil {
		t.Fatal(err)
	}
	script(t, nil, init)
	if made := contentsOf(t, token); len(made) != 64 || made == first {
		t.Errorf("made %q", made)
	}
	server := redistest.Start(t)
	askRedis(t, server, "CONFIG", "SET", "appendonly", "no")
	for line := range strings.Lines(acl) {
		words := strings.Fields(line)
		if len(words) > 2 && words[1] == "rounds" {
			loadUser(t, server, words[1:])
		}
	}
	expectUser(t, server, first)
}

// loadUser makes a Redis user from the words of its file.
func loadUser(t *testing.T, server *redistest.Server, words []string) {
	t.Helper()
	args := []any{"ACL", "SETUSER"}
	for _, word := range words {
		args = append(args, word)
	}
	askRedis(t, server, args...)
}

// expectUser expects that Redis accepts the user rounds with a password.
func expectUser(t *testing.T, server *redistest.Server, password string) {
	t.Helper()
	conn, err := server.Dial()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Do("AUTH", "rounds", password); err != nil {
		t.Errorf("rounds is not let in: %v", err)
	}
	if _, err := conn.Do("PING"); err != nil {
		t.Errorf("the health check of Redis fails: %v", err)
	}
	if _, err := conn.Do("FLUSHALL"); err == nil || !strings.Contains(err.Error(), "NOPERM") {
		t.Errorf("it may do anything: %v", err)
	}
}

// TestUsersOfRedisAreTheGuides compares the shipped Redis user with the guide's. The test of the
// whole service runs as the guide's user.
func TestUsersOfRedisAreTheGuides(t *testing.T) {
	rules, _ := guideACL(t)
	want := strings.Replace(strings.Join(rules, " "), ">PASSWORD", "#PASSWORD_SHA256", 1)
	users := strings.Split(strings.TrimSpace(deployment(t, "redis/rounds.acl")), "\n")
	if len(users) != 2 || users[0] != "user default on #ADMIN_SHA256 ~* &* +@all" || users[1] != "user rounds "+want {
		t.Errorf("deployments/redis/rounds.acl is not what the guide shows. Its second line must be:\nuser rounds %s", want)
	}
}

// installation is the systemd service as install.sh leaves it.
type installation struct {
	etc       string
	variables map[string]string // the environment of the process
}

// installed runs install.sh into a folder. Then it does with the unit what systemd does: it
// provides the credentials under their names, and replaces %d by their folder.
func installed(t *testing.T) installation {
	t.Helper()
	dir := copyOf(t, "systemd/install.sh", "systemd/private.sh", "systemd/rounds.service", "systemd/rounds.socket", "systemd/rounds.env", "redis/rounds.acl")
	root := t.TempDir()
	binary := filepath.Join(dir, "systemd/rounds")
	if err := os.WriteFile(binary, []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	script(t, []string{"DESTDIR=" + root}, filepath.Join(dir, "systemd/install.sh"))
	i := installation{etc: filepath.Join(root, "etc/rounds"), variables: variablesOf(contentsOf(t, filepath.Join(root, "etc/rounds/rounds.env")))}
	unit := contentsOf(t, filepath.Join(root, "etc/systemd/system/rounds.service"))
	credentials := t.TempDir()
	for _, match := range regexp.MustCompile(`(?m)^LoadCredential=([^:]+):(.+)$`).FindAllStringSubmatch(unit, -1) {
		if err := os.Link(filepath.Join(root, match[2]), filepath.Join(credentials, match[1])); err != nil {
			t.Errorf("systemd would not start it: %v", err)
		}
	}
	for _, match := range regexp.MustCompile(`(?m)^Environment=(\w+)=(.*)$`).FindAllStringSubmatch(unit, -1) {
		i.variables[match[1]] = strings.ReplaceAll(match[2], "%d", credentials)
	}
	return i
}

func TestSystemdInstall(t *testing.T) {
	i := installed(t)
	s, err := read(t, i.variables)
	if err != nil || len(s.Access.Token) != 64 || !strings.HasPrefix(s.Redis.URL, "redis://rounds@") || s.Redis.PasswordFile == "" {
		t.Fatalf("%+v, %+v, %v", s.Access, s.Redis, err)
	}
	for _, name := range []string{"api-token", "redis-password", "rounds.env", "redis-user"} {
		if info, err := os.Stat(filepath.Join(i.etc, name)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
	if other := contentsOf(t, filepath.Join(installed(t).etc, "api-token")); other == s.Access.Token {
		t.Error("each has the same token")
	}
	server := redistest.Start(t)
	for line := range strings.Lines(contentsOf(t, filepath.Join(i.etc, "redis-user"))) {
		if words := strings.Fields(line); words[0] == "ACL" {
			loadUser(t, server, words[2:])
		} else if line != "CONFIG REWRITE\n" {
			t.Errorf("redis-cli is given %q", line)
		}
	}
	expectUser(t, server, contentsOf(t, filepath.Join(i.etc, "redis-password")))
}

// TestCredentialsOfTheUnit checks the credentials of the unit, in comments too. Each one is
// used under its name. The name of a credential that is not meant for records is not the name
// of a secret that records can use.
func TestCredentialsOfTheUnit(t *testing.T) {
	unit := deployment(t, "systemd/rounds.service")
	values := make(map[string]string)
	for _, match := range regexp.MustCompile(`(?m)^(?:#\s+)?Environment=(ROUNDS_\w+)=%d(.*)$`).FindAllStringSubmatch(unit, -1) {
		values[strings.TrimPrefix(match[2], "/")] = match[1]
	}
	var settings []string
	for _, match := range regexp.MustCompile(`(?m)^(?:#\s+)?LoadCredential=([^:]+):(/etc/rounds/.+)$`).FindAllStringSubmatch(unit, -1) {
		id, path := match[1], match[2]
		if strings.Contains(path, "/secrets/") {
			if err := secret.ValidateFullName(id); err != nil || values[""] != "ROUNDS_SECRETS_DIR" {
				t.Errorf("%s is no secret: %v", id, err)
			}
			continue
		}
		if values[id] == "" {
			t.Errorf("nothing uses the credential %s", id)
		}
		if secret.ValidateFullName(id) == nil {
			t.Errorf("a record could name the credential %s, where secrets are beside it", id)
		}
		settings = append(settings, values[id])
	}
	slices.Sort(settings)
	if got := fmt.Sprint(settings); got != "[ROUNDS_API_TOKEN_FILE ROUNDS_CALLBACKS_FILE ROUNDS_REDIS_PASSWORD_FILE ROUNDS_SECRETS_KEY_FILE ROUNDS_SETTINGS_FILE ROUNDS_WEBHOOKS_FILE]" {
		t.Errorf("handed over: %s", got)
	}
}
