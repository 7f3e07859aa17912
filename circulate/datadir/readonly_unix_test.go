package datadir

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
)

// inFakeTime runs a test with a process in a bubble.
func inFakeTime(t *testing.T, test func(context.Context, *process)) {
	t.Helper()
	path := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		p := mustBegin(t, path)
		test(ctx, p)
		cancel()
		synctest.Wait()
		_ = p.conn.Close()
	})
}

// asNobody is set for a test binary that acts as a user without rights.
const asNobody = "ROUNDS_TEST_DATADIR"

// nobody is that user.
const nobody = 65534

// A directory that may not be written is refused with a sentence. Root may write
// anything, so the test runs as another user.
func TestReadOnlyDirectory(t *testing.T) {
	if path := os.Getenv(asNobody); path != "" {
		_, err := begin(t, path, nil)
		if err == nil || !strings.Contains(err.Error(), path+": cannot be locked: permission denied") {
			t.Errorf("read-only: %v", err)
		}
		_, err = begin(t, path+"/below", nil)
		if err == nil || !strings.Contains(err.Error(), "cannot be made: permission denied") {
			t.Errorf("below a read-only directory: %v", err)
		}
		return
	}
	if runtime.GOOS == "windows" {
		t.Skip("a directory has no modes")
	}
	path := t.TempDir()
	for dir, mode := range map[string]os.FileMode{filepath.Dir(path): 0o755, path: 0o555} {
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
	}
	if os.Getuid() == 0 {
		if err := os.Chown(path, nobody, nobody); err != nil {
			t.Fatal(err)
		}
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if os.Getuid() == 0 {
		program = "/proc/self/exe" // the folder of the test's program is closed to others
	}
	cmd := exec.CommandContext(t.Context(), program, "-test.run=^TestReadOnlyDirectory$", "-test.v")
	cmd.Dir = "/"
	cmd.Env = append(os.Environ(), asNobody+"="+path)
	if os.Getuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}
	said, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(said), "--- PASS: TestReadOnlyDirectory") {
		t.Errorf("%v\n%s", err, said)
	}
}

// Other users could change files that they own or may write. No link is followed.
func TestForeignDirectory(t *testing.T) {
	path := t.TempDir()
	for mode, want := range map[os.FileMode]string{0o770: "chmod go-w", 0o707: "chmod go-w", 0o755: "", 0o700: ""} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		p, err := begin(t, path, nil)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("mode %o: %v", mode, err)
		}
		if err == nil {
			p.kill()
		}
	}
	if os.Getuid() == 0 {
		if err := os.Chown(path, nobody, -1); err != nil {
			t.Fatal(err)
		}
		if _, err := begin(t, path, nil); err == nil || !strings.Contains(err.Error(), "belongs to user 65534") {
			t.Errorf("another's: %v", err)
		}
	}
	victim := filepath.Join(t.TempDir(), "victim")
	for _, name := range []string{lockName, holderName, newestName, writtenName, segmentName(1), segmentName(2)} {
		path := t.TempDir()
		if err := os.WriteFile(victim, []byte("mine"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(victim, filepath.Join(path, name)); err != nil {
			t.Fatal(err)
		}
		if p, err := begin(t, path, nil); err == nil {
			p.set(1)
			_ = p.dir.Close()
		}
		if text, err := os.ReadFile(victim); err != nil || string(text) != "mine" {
			t.Errorf("%s was followed: the file has %q, %v", name, text, err)
		}
	}
}
