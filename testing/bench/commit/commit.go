// Package commit finds the commit at which a figure was measured, so that every figure
// that is kept can name it.
package commit

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"runtime/debug"
	"strings"
)

// dirty ends the commit of a tree with uncommitted changes.
const dirty = "+changes"

// short is how many digits of a commit are kept.
const short = 12

// Of returns the commit of the tree that a directory is in, or else the one that this
// program was built from.
func Of(ctx context.Context, dir string) (string, error) {
	name, err := git(ctx, dir, "rev-parse", "HEAD")
	if err == nil {
		changes, failed := git(ctx, dir, "status", "--porcelain", "--untracked-files=no", "--", ":/*.go", ":/*.lua", ":/*.mod")
		return shorten(name, changes != ""), failed
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "", err
	}
	if name := ofBuild(info); name != "" {
		return name, nil
	}
	return "", errors.Join(errors.New("neither the tree nor the program names its commit"), err)
}

func ofBuild(info *debug.BuildInfo) string {
	var name string
	changed := false
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			name = s.Value
		case "vcs.modified":
			changed = s.Value == "true"
		}
	}
	if name == "" {
		return ""
	}
	return shorten(name, changed)
}

func shorten(name string, changed bool) string {
	name = name[:min(short, len(name))]
	if changed {
		name += dirty
	}
	return name
}

func git(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w", args[0], err)
	}
	return strings.TrimSpace(string(out)), nil
}
