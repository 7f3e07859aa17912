// Command upgrade has two versions of rounds run side by side, as during a rolling restart:
// the one that was released before, built from git's history, and that of the working tree.
//
//	go run ./testing/upgrade
//	go run ./testing/upgrade --previous v1.2.3 --stage 30s
//	go run ./testing/upgrade --accounts 9 --record testing/upgrade/testdata/previous.ndjson
//
// The last form only writes down what the older version leaves in Redis, for the test of this
// package, which works on that with every change.
//
// Three processes with all roles check accounts at one Redis, under load. They are replaced
// one by one by the newer version, and then one by one by the older one again. At each stage
// accounts come, go, pause and resume through both versions, messages are found, and the
// audits of both versions must be clean. In the end every message is there once. Then a send is
// queued, which an older version that does not know sends must refuse.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/testing/processes"
	"github.com/rounds-dev/rounds/testing/redistest"
	"github.com/rounds-dev/rounds/testing/upstream"
)

// previous is the version that was released last. When a release is made, this becomes its
// tag, in the first commit after it.
const previous = "70b14e45c952a13f70011b80b858edd07c31d744"

// slots is how many processes there are.
const slots = 3

func main() {
	commit := flag.String("previous", previous, "the older version, as git names it")
	older := flag.String("older", "", "a binary of the older version, in place of building it")
	stage := flag.Duration("stage", 5*time.Second, "how long each mix of versions runs")
	many := flag.Int("accounts", 200, "how many accounts are checked every second")
	record := flag.String("record", "", "a file for what the older version leaves in Redis; nothing is replaced then")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, *commit, *older, *record, *stage, *many)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "upgrade:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, commit, older, record string, stage time.Duration, many int) error {
	dir, err := os.MkdirTemp("", "upgrade")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if older == "" {
		if older, err = buildAt(ctx, commit, filepath.Join(dir, "older")); err != nil {
			return err
		}
	}
	newer, err := processes.Build(dir)
	if err != nil {
		return err
	}
	path, err := exec.LookPath("redis-server")
	if err != nil {
		return err
	}
	server, err := redistest.Launch(path, dir)
	if err != nil {
		return err
	}
	defer server.Kill()
	third, closeThird, err := upstream.Serve(upstream.Options{PageLimit: 7})
	if err != nil {
		return err
	}
	defer closeThird()
	f := &fleet{ctx: ctx, server: server, third: third, stage: stage}
	defer f.kill()
	for slot := range slots {
		if err := f.replace(slot, older); err != nil {
			return err
		}
	}
	if err := f.register(many); err != nil {
		return err
	}
	if err := f.live("all older"); err != nil {
		return err
	}
	if record != "" {
		return f.keep(record)
	}
	for _, way := range []struct{ name, path string }{{"newer", newer}, {"older again", older}} {
		for slot := range slots {
			if err := f.replace(slot, way.path); err != nil {
				return err
			}
			if err := f.live(fmt.Sprintf("%d of %d %s", slot+1, slots, way.name)); err != nil {
				return err
			}
		}
	}
	if err := f.finish(); err != nil {
		return err
	}
	return f.refuse(older)
}

// buildAt builds the version of a commit, and returns the binary's path.
func buildAt(ctx context.Context, commit, dir string) (string, error) {
	if err := exec.CommandContext(ctx, "git", "cat-file", "-e", commit+"^{commit}").Run(); err != nil {
		return "", fmt.Errorf("the older version %s is not in this clone's history (git fetch --unshallow --tags), or this is no clone; --older names a binary in its place: %w", commit, err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	archive, tar := exec.CommandContext(ctx, "git", "archive", commit), exec.CommandContext(ctx, "tar", "-x", "-C", dir)
	pipe, err := archive.StdoutPipe()
	if err != nil {
		return "", err
	}
	tar.Stdin = pipe
	if err := errors.Join(archive.Start(), tar.Run(), archive.Wait()); err != nil {
		return "", fmt.Errorf("git archive %s: %w", commit, err)
	}
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-o", "rounds", "./cmd/rounds")
	build.Dir = dir
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build of %s: %w\n%s", commit, err, out)
	}
	return filepath.Join(dir, "rounds"), nil
}

// ours returns the last lines of a text, for an error.
func ours(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-20):], "\n")
}
