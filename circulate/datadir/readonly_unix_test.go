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

// A directory that may not be written is refused with a sentence. Root may write anything, so
// the test runs as somebody else.
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
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	said, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(said), "--- PASS: TestReadOnlyDirectory") {
		t.Errorf("%v\n%s", err, said)
	}
}
