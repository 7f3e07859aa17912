package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/rounds-dev/rounds/testing/redistest"
)

// unitPath is where packages have the unit.
const unitPath = "/usr/lib/systemd/system/rounds.service"

// ownFiles are what the packages must have, besides man pages, and with which rights.
var ownFiles = map[string]string{
	"/usr/bin/rounds": "-rwxr-xr-x", unitPath: "-rw-r--r--", "/usr/lib/systemd/system/rounds.socket": "-rw-r--r--",
	"/usr/lib/sysusers.d/rounds.conf": "-rw-r--r--", "/etc/rounds/rounds.env": "-rw-------",
	"/usr/share/rounds/systemd/private.sh": "-rwxr-xr-x", "/usr/share/rounds/redis/rounds.acl": "-rw-r--r--",
	"/usr/share/bash-completion/completions/rounds": "-rw-r--r--", "/usr/share/fish/vendor_completions.d/rounds.fish": "-rw-r--r--",
	"/usr/share/man/man1/rounds.1.gz": "-rw-r--r--", "/usr/share/man/man1/rounds-account-add.1.gz": "-rw-r--r--",
	"/usr/share/doc/rounds/README.md": "-rw-r--r--",
}

// try checks what is in a folder as its users would: it compares the checksums, installs
// the .deb of this machine into an empty folder, runs the unit's command line as another
// user beside a Redis with the shipped user, installs it again over changed settings, and
// removes it; and it compares the .rpm with that.
func try(ctx context.Context, out string, say io.Writer) error {
	files, err := checkSums(out)
	if err != nil {
		return err
	}
	fmt.Fprintf(say, "checksums: %d files are as %s says\n", files, sumsName)
	deb, err := only(out, "rounds_*_linux_"+runtime.GOARCH+".deb")
	if err != nil {
		return err
	}
	rpm, err := only(out, "rounds_*_linux_"+runtime.GOARCH+".rpm")
	if err != nil {
		return err
	}
	version := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(deb), "rounds_"), "_linux_"+runtime.GOARCH+".deb")
	redis, err := exec.LookPath("redis-server")
	if err != nil {
		return fmt.Errorf("the service is tried with a Redis: %w", err)
	}
	root, err := os.MkdirTemp("", "rounds-root")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(root) }()
	i := installation{root: root, say: say}
	wants, err := output(ctx, "dpkg-deb", "--field", deb, "Depends")
	if err != nil || strings.TrimSpace(wants) != strings.Join(needed, ", ") {
		return fmt.Errorf("the .deb depends on %q, want %q: %w", wants, needed, errors.Join(err, os.ErrInvalid))
	}
	if err := i.install(ctx, deb); err != nil {
		return err
	}
	if err := i.expectFiles(); err != nil {
		return err
	}
	dir := filepath.Join(root, "redis")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	server, err := redistest.Launch(redis, dir)
	if err != nil {
		return err
	}
	defer server.Kill()
	if err := i.serve(ctx, server, version); err != nil {
		return err
	}
	if err := i.upgrade(ctx, deb); err != nil {
		return err
	}
	if err := i.compare(ctx, rpm); err != nil {
		return err
	}
	return i.purge(ctx)
}

// only returns the one file that a pattern means.
func only(dir, pattern string) (string, error) {
	found, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil || len(found) != 1 {
		return "", fmt.Errorf("%s: %d files %s, want 1: %w", dir, len(found), pattern, errors.Join(err, os.ErrNotExist))
	}
	return found[0], nil
}

// output runs a program and returns what it writes; its error has all of it.
func output(ctx context.Context, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), "LC_ALL=C", "DEBIAN_FRONTEND=noninteractive")
	text, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, text)
	}
	return string(text), nil
}

// expectFiles compares rights with ownFiles, and has man read a page.
func (i installation) expectFiles() error {
	for path, want := range ownFiles {
		info, err := os.Stat(i.at(path))
		if err != nil {
			return err
		}
		if got := info.Mode().String(); got != want {
			return fmt.Errorf("%s: rights %s, want %s", path, got, want)
		}
	}
	for _, name := range []string{"api-token", "redis-password", "redis-user"} {
		if info, err := os.Stat(i.at("/etc/rounds/" + name)); err != nil || info.Mode().Perm() != 0o600 || info.Size() < 64 {
			return fmt.Errorf("postinst leaves no secret %s: %v, %w", name, info, err)
		}
	}
	users, err := os.ReadFile(i.at("/etc/passwd"))
	if err != nil || !bytes.Contains(users, []byte("rounds:")) {
		return fmt.Errorf("postinst makes no user: %s, %w", users, err)
	}
	pages, err := filepath.Glob(i.at("/usr/share/man/man1/rounds*.1.gz"))
	if err != nil || len(pages) < 40 {
		return fmt.Errorf("only %d man pages: %w", len(pages), err)
	}
	fmt.Fprintf(i.say, "files: %d man pages, rights as they should be, a user, a token and a password of its own\n", len(pages))
	return nil
}

// rpmLine has rpm print a line for each file: its path, digest, rights and flags.
const rpmLine = `[%{FILENAMES} %{FILEDIGESTS} %{FILEMODES:perms} %{FILEFLAGS:fflags}\n]`

// ofRPM returns a file's path, and its digest, rights and flags, from such a line. A folder,
// which has no digest, is no file.
func ofRPM(line string) (path string, words []string, ok bool) {
	words = strings.Fields(line)
	if len(words) < 3 || len(words[1]) != hex.EncodedLen(sha256.Size) {
		return "", nil, false
	}
	return words[0], words[1:], true
}

// compare compares the .rpm with what the .deb installed: the same files with the same
// bytes, but for where zsh and licences are looked for.
func (i installation) compare(ctx context.Context, rpm string) error {
	listed, err := output(ctx, "rpm", "-qp", "--nosignature", "--qf", rpmLine, rpm)
	if err != nil {
		return fmt.Errorf("%w (the program rpm reads the package: install it)", err)
	}
	seen := make(map[string]bool)
	for line := range strings.Lines(listed) {
		path, words, ok := ofRPM(line)
		if !ok {
			continue
		}
		seen[path] = true
		if want := ownFiles[path]; want != "" && words[1] != want {
			return fmt.Errorf("%s: rights %s in the .rpm, want %s", path, words[1], want)
		}
		if path == "/etc/rounds/rounds.env" {
			if flags := strings.Join(words[2:], ""); !strings.Contains(flags, "c") || !strings.Contains(flags, "n") {
				return fmt.Errorf("%s: has the flags %q, and would be replaced", path, flags)
			}
			continue // it was changed here
		}
		if strings.HasPrefix(path, "/usr/share/zsh/") || strings.HasPrefix(path, "/usr/share/licenses/") {
			continue
		}
		if got, err := sumOf(i.at(path)); err != nil || got != words[0] {
			return fmt.Errorf("%s: differs between the packages, or is only in the .rpm: %w", path, errors.Join(err, os.ErrInvalid))
		}
	}
	for path := range ownFiles {
		if !seen[path] {
			return fmt.Errorf("%s: is not in the .rpm", path)
		}
	}
	wants, err := output(ctx, "rpm", "-qp", "--nosignature", "--requires", rpm)
	if err != nil {
		return err
	}
	for _, name := range needed {
		if !slices.Contains(strings.Fields(wants), name) {
			return fmt.Errorf("the .rpm does not depend on %s", name)
		}
	}
	scripts, err := output(ctx, "rpm", "-qp", "--nosignature", "--scripts", rpm)
	if err != nil {
		return err
	}
	if missing := slices.DeleteFunc([]string{"postinstall", "preuninstall", "postuninstall"}, func(name string) bool { return strings.Contains(scripts, name+" scriptlet") }); len(missing) > 0 {
		return fmt.Errorf("the .rpm has no %v", missing)
	}
	fmt.Fprintf(i.say, "rpm: %d files as in the .deb, with the three scripts\n", len(seen))
	return nil
}
