package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/rounds-dev/rounds/testing/ports"
	"github.com/rounds-dev/rounds/testing/redistest"
)

// nobody is who runs the service when the installer is root, as systemd would have it run
// as another user.
const nobody = 65534

// needed are the packages that both packages depend on.
var needed = []string{"ca-certificates"}

// startTimeout bounds how long the service may take to serve.
const startTimeout = 30 * time.Second

// installation is the package in a folder that stands for the file system.
type installation struct {
	root string
	say  io.Writer
}

// at returns where a path is.
func (i installation) at(path string) string { return filepath.Join(i.root, filepath.FromSlash(path)) }

// install has dpkg install a package.
func (i installation) install(ctx context.Context, deb string) error {
	for _, dir := range []string{"/var/lib/dpkg/info", "/var/lib/dpkg/updates", "/etc", "/tmp"} {
		if err := os.MkdirAll(i.at(dir), 0o755); err != nil {
			return err
		}
	}
	if err := os.Chmod(i.root, 0o755); err != nil {
		return err
	}
	// The folder has what the package may depend on, and nothing else: dpkg refuses a package
	// that wants more.
	var status strings.Builder
	for _, name := range needed {
		fmt.Fprintf(&status, "Package: %s\nStatus: install ok installed\nArchitecture: all\nVersion: 1\nMaintainer: nobody\nDescription: stands for the one of the system\n\n", name)
		if err := os.WriteFile(i.at("/var/lib/dpkg/info/"+name+".list"), nil, 0o644); err != nil {
			return err
		}
	}
	if err := os.WriteFile(i.at("/var/lib/dpkg/status"), []byte(status.String()), 0o644); err != nil {
		return err
	}
	said, err := i.dpkg(ctx, "--force-architecture", "--install", deb)
	if err != nil {
		return err
	}
	fmt.Fprintf(i.say, "dpkg:\n  %s\n", strings.ReplaceAll(strings.TrimSpace(said), "\n", "\n  "))
	return nil
}

// dpkg runs dpkg on the folder. The package's scripts run outside of it, and are told.
func (i installation) dpkg(ctx context.Context, args ...string) (string, error) {
	return output(ctx, "dpkg", append([]string{"--root=" + i.root, "--force-script-chrootless", "--force-not-root", "--force-bad-path", "--no-triggers"}, args...)...)
}

// serve does what systemd does with the unit: the environment file, the credentials, the
// command line, another user. Redis gets the user that postinst wrote down.
func (i installation) serve(ctx context.Context, server *redistest.Server, version string) error {
	if err := i.giveUser(server); err != nil {
		return err
	}
	api, err := ports.Address()
	if err != nil {
		return err
	}
	env := i.at("/etc/rounds/rounds.env")
	text, err := os.ReadFile(env)
	if err != nil {
		return err
	}
	changed := strings.Replace(string(text), "127.0.0.1:6379", server.Addr(), 1) + "ROUNDS_API_ADDR=" + api + "\n"
	if err := os.WriteFile(env, []byte(changed), 0o600); err != nil {
		return err
	}
	cmd, err := i.command(ctx)
	if err != nil {
		return err
	}
	log, err := os.Create(i.at("/tmp/log"))
	if err != nil {
		return err
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return err
	}
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()
	served := i.awaitServed(ctx, api, version)
	_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	if err := errors.Join(served, <-exited); err != nil {
		written, _ := os.ReadFile(log.Name()) // what is there
		return fmt.Errorf("%w\n%s", err, written)
	}
	fmt.Fprintf(i.say, "unit: served %s as user %d, with the token and the password of its own, and ended well\n", version, cmd.SysProcAttr.Credential.Uid)
	return nil
}

// giveUser has Redis do what the file for redis-cli says.
func (i installation) giveUser(server *redistest.Server) error {
	text, err := os.ReadFile(i.at("/etc/rounds/redis-user"))
	if err != nil {
		return err
	}
	conn, err := server.Dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	words := strings.Fields(strings.TrimSuffix(strings.TrimSpace(string(text)), "CONFIG REWRITE"))
	args := make([]any, 0, len(words))
	for _, word := range words[1:] {
		args = append(args, word)
	}
	if _, err := conn.Do(words[0], args...); err != nil {
		return fmt.Errorf("redis-cli </etc/rounds/redis-user: %w", err)
	}
	return nil
}

// command returns the unit's command line, ready to start.
func (i installation) command(ctx context.Context) (*exec.Cmd, error) {
	unit, err := os.ReadFile(i.at(unitPath))
	if err != nil {
		return nil, err
	}
	all := func(name string) [][]string {
		return regexp.MustCompile(`(?m)^`+name+`=(.*)$`).FindAllStringSubmatch(string(unit), -1)
	}
	started, files := all("ExecStart"), all("EnvironmentFile")
	if len(started) != 1 || len(files) != 1 {
		return nil, fmt.Errorf("%s: %d ExecStart, %d EnvironmentFile", unitPath, len(started), len(files))
	}
	credentials := i.at("/tmp/credentials")
	if err := os.Mkdir(credentials, 0o700); err != nil {
		return nil, err
	}
	who := &syscall.Credential{Uid: uint32(os.Getuid()), Gid: uint32(os.Getgid()), NoSetGroups: true}
	if os.Getuid() == 0 {
		who = &syscall.Credential{Uid: nobody, Gid: nobody}
		if err := os.Chown(credentials, nobody, nobody); err != nil {
			return nil, err
		}
	}
	for _, c := range all("LoadCredential") {
		name, path, _ := strings.Cut(c[1], ":")
		text, err := os.ReadFile(i.at(path))
		if err != nil {
			return nil, err
		}
		to := filepath.Join(credentials, name)
		if err := errors.Join(os.WriteFile(to, text, 0o400), os.Chown(to, int(who.Uid), int(who.Gid))); err != nil {
			return nil, err
		}
	}
	words := strings.Fields(started[0][1])
	cmd := exec.CommandContext(ctx, i.at(words[0]), words[1:]...)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: who}
	cmd.Env = []string{"PATH=/usr/bin:/bin"}
	text, err := os.ReadFile(i.at(files[0][1]))
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			cmd.Env = append(cmd.Env, line)
		}
	}
	for _, e := range all("Environment") {
		cmd.Env = append(cmd.Env, strings.ReplaceAll(e[1], "%d", credentials))
	}
	return cmd, nil
}

// awaitServed waits until the API answers with the installation's token, and names the
// version in its metrics.
func (i installation) awaitServed(ctx context.Context, api, version string) error {
	token, err := os.ReadFile(i.at("/etc/rounds/api-token"))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		body, err := get(ctx, "http://"+api+"/metrics", string(token))
		if err == nil {
			if !strings.Contains(body, `rounds_build_info{`) || !strings.Contains(body, `version="v`+version+`"`) {
				return fmt.Errorf("/metrics does not name the version %s", version)
			}
			if _, err := get(ctx, "http://"+api+"/v1/stats", ""); err == nil {
				return errors.New("the API answers without the token")
			}
			said, err := i.rounds(ctx, api, "stats")
			if err == nil && !strings.Contains(said, version) {
				err = fmt.Errorf("rounds stats does not name the version %s:\n%s", version, said)
			}
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("it does not serve: %w", err)
		case <-tick.C:
		}
	}
}

// rounds runs a command of the installed program as the operator does.
func (i installation) rounds(ctx context.Context, api string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, i.at("/usr/bin/rounds"), args...)
	cmd.Env = []string{"ROUNDS_API_URL=http://" + api, "ROUNDS_API_TOKEN_FILE=" + i.at("/etc/rounds/api-token")}
	text, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("rounds %s: %w\n%s", strings.Join(args, " "), err, text)
	}
	return string(text), nil
}

func get(ctx context.Context, url, token string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, 8<<20))
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s answers %d: %s", url, answer.StatusCode, body)
	}
	return string(body), err
}

// upgrade installs the package over itself: changed settings and secrets stay.
func (i installation) upgrade(ctx context.Context, deb string) error {
	kept := make(map[string]string)
	for _, name := range []string{"rounds.env", "api-token", "redis-password", "redis-user"} {
		sum, err := sumOf(i.at("/etc/rounds/" + name))
		if err != nil {
			return err
		}
		kept[name] = sum
	}
	if _, err := i.dpkg(ctx, "--force-architecture", "--install", deb); err != nil {
		return err
	}
	for name, want := range kept {
		if got, err := sumOf(i.at("/etc/rounds/" + name)); err != nil || got != want {
			return fmt.Errorf("an upgrade changes /etc/rounds/%s: %w", name, errors.Join(err, os.ErrInvalid))
		}
	}
	fmt.Fprintln(i.say, "upgrade: settings, token and password are kept")
	return nil
}

// purge removes the package with its settings.
func (i installation) purge(ctx context.Context) error {
	if _, err := i.dpkg(ctx, "--purge", "rounds"); err != nil {
		return err
	}
	for _, path := range []string{"/etc/rounds", "/usr/bin/rounds", "/usr/share/rounds", unitPath} {
		if _, err := os.Lstat(i.at(path)); !os.IsNotExist(err) {
			return fmt.Errorf("%s is left when the package is purged: %w", path, errors.Join(err, os.ErrExist))
		}
	}
	fmt.Fprintln(i.say, "purge: nothing is left")
	return nil
}
