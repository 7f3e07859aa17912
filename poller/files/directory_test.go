package files_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/poller/files"
	"github.com/rounds-dev/rounds/testing/filestest"
)

func open(t *testing.T, path string) *files.Directory {
	t.Helper()
	d, err := files.OpenDirectory(path)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestDirectory(t *testing.T) {
	filestest.Run(t, filestest.Options{Store: open(t, filepath.Join(t.TempDir(), "files")), Memory: 256 << 10})
}

// Nobody else on the machine can read what is stored.
func TestModes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "files")
	if _, err := open(t, path).Put(t.Context(), strings.NewReader("x"), files.Want{}); err != nil {
		t.Fatal(err)
	}
	seen := 0
	err := filepath.WalkDir(path, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if want := map[bool]fs.FileMode{true: 0o700, false: 0o600}[entry.IsDir()]; err == nil && info.Mode().Perm() != want {
			t.Errorf("%s has mode %v", name, info.Mode())
		}
		seen++
		return err
	})
	if err != nil || seen != 4 {
		t.Errorf("%d names, %v", seen, err)
	}
}

// steps are the steps of a Put.
var steps = []string{"create", "write", "sync", "rename", "sync folder"}

// TestKilled runs itself again, as a process that kills itself before a step of a Put. There is a
// complete object then, or none.
func TestKilled(t *testing.T) {
	const stepVariable, pathVariable = "ROUNDS_TEST_KILLED_BEFORE", "ROUNDS_TEST_KILLED_IN"
	content := filestest.Bytes(1, 100_000)
	if step := os.Getenv(stepVariable); step != "" {
		d := open(t, os.Getenv(pathVariable))
		writes := 0
		d.SetStep(func(name string) {
			if name == "write" {
				writes++
			}
			if name == step && writes != 1 { // in the middle of the file
				_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
				select {}
			}
		})
		_, err := d.Put(t.Context(), bytes.NewReader(content), files.Want{})
		t.Fatalf("it lives, %v", err)
	}
	for _, step := range steps {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "files")
			d := open(t, path)
			again := exec.Command(os.Args[0], "-test.run=^TestKilled$")
			again.Env = append(os.Environ(), stepVariable+"="+step, pathVariable+"="+path)
			out, err := again.CombinedOutput()
			if ended, ok := errors.AsType[*exec.ExitError](err); !ok || ended.ExitCode() != -1 {
				t.Fatalf("%v\n%s", err, out)
			}
			found := 0
			for o, err := range d.List(t.Context()) {
				if err != nil {
					t.Fatal(err)
				}
				got, err := os.ReadFile(filepath.Join(path, o.Name))
				if found++; err != nil || !bytes.Equal(got, content) {
					t.Errorf("%s has %d bytes, %v", o.Name, len(got), err)
				}
			}
			if whole := step == "sync folder"; (found == 1) != whole {
				t.Errorf("there are %d objects", found)
			}
			left := map[string]int{"write": 1, "sync": 1, "rename": 1}[step]
			if n, err := d.Tidy(t.Context(), time.Now().Add(-files.LeftoverAge)); n != 0 || err != nil {
				t.Errorf("tidied %d leftovers of today, %v", n, err)
			}
			if n, err := d.Tidy(t.Context(), time.Now().Add(time.Minute)); n != left || err != nil {
				t.Errorf("tidied %d leftovers, %v", n, err)
			}
			if _, err := d.Put(t.Context(), bytes.NewReader(content), files.Want{}); err != nil {
				t.Error(err)
			}
		})
	}
}

// A store works again as soon as its disk does.
func TestFolderThatGoesAway(t *testing.T) {
	path := filepath.Join(t.TempDir(), "files")
	d := open(t, path)
	put := func() error {
		_, err := d.Put(t.Context(), strings.NewReader("x"), files.Want{})
		return err
	}
	if err := put(); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path, path+".away"); err != nil {
		t.Fatal(err)
	}
	const want = "cannot be opened: no such file or directory: make it, mount its disk, or name another directory in ROUNDS_FILES"
	if err := put(); err == nil || !strings.HasPrefix(err.Error(), "files directory "+path+": "+want) {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it was made where a disk may be mounted: %v", err)
	}
	if err := os.Mkdir(path, 0o700); err != nil { // another disk, an empty one
		t.Fatal(err)
	}
	if err := put(); err != nil {
		t.Error(err)
	}
}

func TestOpenDirectory(t *testing.T) {
	dir := t.TempDir()
	file, public := filepath.Join(dir, "file"), filepath.Join(dir, "public")
	if err := errors.Join(os.WriteFile(file, nil, 0o600), os.Mkdir(public, 0o700), os.Chmod(public, 0o777)); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		filepath.Join(dir, "missing", "files"): "the directory above it is missing: make it, mount its disk, or name another directory in ROUNDS_FILES",
		file:                                   "it is no directory: name another one in ROUNDS_FILES",
		public:                                 "everybody on this machine may write to it (mode 0777), and so change what is in it: chmod o-w " + public,
	} {
		if _, err := files.OpenDirectory(path); err == nil || !strings.HasPrefix(err.Error(), "files directory "+path+": "+want) {
			t.Errorf("got %v", err)
		}
	}
}

// What the operating system says becomes an error with a cure.
func TestCures(t *testing.T) {
	d := open(t, t.TempDir())
	for _, c := range []struct {
		err  error
		want string
		full bool
	}{
		{&fs.PathError{Op: "write", Path: "secret", Err: syscall.ENOSPC}, "there is no room left on its disk: make room, or name a directory on another disk in ROUNDS_FILES", true},
		{syscall.EDQUOT, "there is no room left on its disk: make room", true},
		{syscall.EROFS, "cannot be written: read-only file system: mount its disk for writing, or name another directory in ROUNDS_FILES", false},
		{&os.LinkError{Op: "rename", Old: "secret", New: "secret", Err: syscall.EACCES}, "cannot be written: permission denied: give it to the user ", false},
		{syscall.EIO, "cannot be written: input/output error: see its disk", false},
	} {
		err := d.Failed("cannot be written", c.err)
		if !strings.Contains(err.Error(), ": "+c.want) || strings.Contains(err.Error(), "secret") || errors.Is(err, files.ErrFull) != c.full {
			t.Errorf("got %v", err)
		}
	}
}

// A Put fails while the disk is full, leaves nothing, and succeeds again once there is room.
func TestFull(t *testing.T) {
	path := filepath.Join(t.TempDir(), "files")
	d := open(t, path)
	restore := limitFileSize(t, 50_000)
	_, err := d.Put(t.Context(), bytes.NewReader(filestest.Bytes(1, 100_000)), files.Want{})
	restore()
	if err == nil || !strings.HasPrefix(err.Error(), "files directory "+path+": cannot be written: ") {
		t.Errorf("got %v", err)
	}
	if n, err := d.Tidy(t.Context(), time.Now().Add(time.Minute)); n != 0 || err != nil {
		t.Errorf("%d leftovers, %v", n, err)
	}
	if _, err := d.Put(t.Context(), bytes.NewReader(filestest.Bytes(1, 100_000)), files.Want{}); err != nil {
		t.Error(err)
	}
}

// limitFileSize makes writes beyond a size fail, which needs no disk that is full.
func limitFileSize(t *testing.T, size uint64) (restore func()) {
	t.Helper()
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
		t.Fatal(err)
	}
	limited := before
	limited.Cur = size
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limited); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
			t.Fatal(err)
		}
	}
}
