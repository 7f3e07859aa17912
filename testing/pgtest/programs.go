package pgtest

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"syscall"
)

// errMissing tells what a test that needs PostgreSQL is missing.
var errMissing = errors.New("PostgreSQL is not installed, and this test needs it: install the package that has initdb and postgres " +
	"(apt-get install postgresql, dnf install postgresql-server, apk add postgresql, brew install postgresql), or run testing/run.sh, which does")

// programs is where a PostgreSQL is installed.
type programs struct{ initdb, postgres string }

// findPrograms looks in PATH first and then where packages put programs that are not in
// it, the newest version first.
func findPrograms() (programs, error) {
	initdb, err1 := exec.LookPath("initdb")
	postgres, err2 := exec.LookPath("postgres")
	if err1 == nil && err2 == nil {
		return programs{initdb, postgres}, nil
	}
	var dirs []string
	for _, pattern := range []string{
		"/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/usr/libexec/postgresql*",
		"/opt/homebrew/opt/postgresql*/bin", "/usr/local/opt/postgresql*/bin",
	} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			return programs{}, err
		}
		dirs = append(dirs, found...)
	}
	slices.SortStableFunc(dirs, func(a, b string) int { return cmp.Compare(version(b), version(a)) })
	for _, dir := range dirs {
		p := programs{filepath.Join(dir, "initdb"), filepath.Join(dir, "postgres")}
		if executable(p.initdb) && executable(p.postgres) {
			return p, nil
		}
	}
	return programs{}, errMissing
}

// version is the number in the name of a directory, 0 without one.
func version(dir string) int {
	n, _ := strconv.Atoi(regexp.MustCompile(`[0-9]+`).FindString(dir))
	return n
}

func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

// servant returns the user that the server runs as, or nil for the user of the test.
func servant() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
		gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
		if err := errors.Join(err1, err2); err != nil {
			return nil, fmt.Errorf("user %s: %w", name, err)
		}
		return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
	}
	return nil, errors.New("PostgreSQL refuses to run as root, and there is neither a user postgres nor nobody")
}
