package command

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/rounds-dev/rounds/testing/processes"
)

// awaitHealth waits until the program logs that the process is ready.
func awaitHealth(t *testing.T, log *processes.Output, url string) {
	t.Helper()
	log.Await(t, `"msg":"ring open"`)
	for range 1000 {
		if _, err := runWith(t.Context(), nil, "", "health", "--url", url); err == nil {
			return
		}
	}
	t.Fatalf("%s is not ready:\n%s", url, log.String())
}

// The API listens at a unix socket, without a port, and the commands use it.
func TestAPIAtAUnixSocket(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "api.sock")
	url := "unix://" + path
	p := startProgram(t, map[string]string{"ROUNDS_API_ADDR": "unix:" + path, "ROUNDS_API_SOCKET_MODE": "600"}, "serve")
	awaitHealth(t, &p.log, url)
	if info, err := os.Stat(path); err != nil || info.Mode() != fs.ModeSocket|0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	variables := map[string]string{"ROUNDS_API_URL": url}
	for _, args := range [][]string{{"account", "add", "a", "--kind", "feed", "--set", "url=https://example.com/"}, {"account", "list"}, {"stats"}, {"health"}} {
		if out, err := runWith(t.Context(), variables, "", args...); err != nil {
			t.Errorf("%q: %v %s", args, err, out.out)
		}
	}
	if out, err := runWith(t.Context(), variables, "", "trail"); err != nil || !strings.Contains(out.out, "local  unix  create-account") {
		t.Errorf("%v %s", err, out.out)
	}
	if _, err := runWith(t.Context(), map[string]string{"ROUNDS_API_ADDR": "unix:" + path}, "", "health"); err != nil {
		t.Errorf("health by the service's settings: %v", err)
	}
	if _, err := runWith(t.Context(), map[string]string{"ROUNDS_API_ADDR": "unix:" + path}, "", "serve"); err == nil || !strings.Contains(err.Error(), "ROUNDS_API_ADDR: "+path+": another process serves there") {
		t.Errorf("a second process: %v", err)
	}
	if err := p.stop(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the socket stays: %v", err)
	}
	if _, err := runWith(t.Context(), variables, "", "stats"); err == nil || !strings.Contains(err.Error(), "cannot reach the API at "+url) {
		t.Errorf("nobody serves: %v", err)
	}
}

// systemd opens the sockets, as it does for rounds.socket, and passes them to the process
// that it starts. They are the file descriptors from 3 on. LISTEN_PID says for which process
// they are.
func TestSocketsOfSystemd(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "api.sock")
	api, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	ops, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var passed []*os.File
	for _, listener := range []interface{ File() (*os.File, error) }{ops.(*net.TCPListener), api} {
		file, err := listener.File()
		if err != nil {
			t.Fatal(err)
		}
		passed = append(passed, file)
	}
	api.SetUnlinkOnClose(false)
	_, _ = api.Close(), ops.Close() // the files stay open
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	serve := func(pid string) (*exec.Cmd, *processes.Output) {
		var log processes.Output
		cmd := exec.CommandContext(t.Context(), "sh", "-c", "LISTEN_PID="+pid+` exec "$0" serve`, self)
		cmd.Env = []string{"ROUNDS_TEST_PROGRAM=1", "PATH=" + os.Getenv("PATH"), "LISTEN_FDS=2", "LISTEN_FDNAMES=ops:api", "ROUNDS_API_ADDR=systemd:api", "ROUNDS_OPS_ADDR=systemd:ops", "ROUNDS_DATA_DIR=memory"}
		cmd.ExtraFiles, cmd.Stdout, cmd.Stderr = passed, &log, &log
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd, &log
	}
	other, log := serve("1")
	if err := other.Wait(); err == nil || !strings.Contains(log.String(), "ROUNDS_API_ADDR: systemd has passed no socket to this process") {
		t.Errorf("sockets for another process: %v\n%s", err, log.String())
	}
	// The socket stays open when the process ends, and the next process uses it.
	for range 2 {
		cmd, log := serve("$$")
		awaitHealth(t, log, "unix://"+path)
		awaitHealth(t, log, "http://"+ops.Addr().String())
		if _, err := runWith(t.Context(), map[string]string{"ROUNDS_API_URL": "unix://" + path}, "", "stats"); err != nil {
			t.Error(err)
		}
		if status, _ := processes.Get(t, "http://"+ops.Addr().String()+"/metrics", ""); status != 200 {
			t.Errorf("metrics: %d", status)
		}
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("%v\n%s", err, log.String())
		}
		if _, err := os.Lstat(path); err != nil {
			t.Errorf("systemd's socket is gone: %v", err)
		}
	}
}
