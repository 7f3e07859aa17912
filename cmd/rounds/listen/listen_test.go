package listen

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestParse(t *testing.T) {
	for text, local := range map[string]bool{
		"127.0.0.1:8080": true, "[::1]:0": true, "localhost:80": true, "[::ffff:127.0.0.1]:1": true, "unix:/run/rounds/api.sock": true, "systemd:api": true, "systemd:rounds.socket": true,
		":8080": false, "0.0.0.0:8080": false, "[::]:8080": false, "rounds.example.com:80": false,
	} {
		a, err := Parse(text)
		if err != nil || a.Local() != local || a.String() != text {
			t.Errorf("%s: got %v, local %t, %v", text, a, a.Local(), err)
		}
	}
	for text, want := range map[string]error{
		"": errAddress, "8080": errAddress, "127.0.0.1": errAddress, "127.0.0.1:http": errAddress, "127.0.0.1:65536": errAddress, "systemd:": errAddress, "systemd:a b": errAddress, "systemd:a:b": errAddress,
		"unix:": errPath, "unix:api.sock": errPath, "unix:/run/../api.sock": errPath, "unix:/" + strings.Repeat("a", maxPath): errPath, "unix:/a\x00": errPath,
	} {
		if a, err := Parse(text); !errors.Is(err, want) {
			t.Errorf("%q: got %v, %v", text, a, err)
		}
	}
}

func open(t *testing.T, path string, mode fs.FileMode) (net.Listener, error) {
	t.Helper()
	return Open(Address{Unix, path}, Options{Mode: mode})
}

func TestUnixSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "api.sock")
	defer syscall.Umask(syscall.Umask(0o077))
	for _, mode := range []fs.FileMode{0o660, 0o600, 0o666} {
		listener, err := open(t, path, mode)
		if err != nil {
			t.Fatal(err)
		}
		info, err := os.Lstat(path)
		if err != nil || info.Mode() != fs.ModeSocket|mode || listener.Addr().String() != path || Exposed(listener) {
			t.Errorf("%v, %v, at %v", info.Mode(), err, listener.Addr())
		}
		if _, err := open(t, path, mode); err == nil || !strings.Contains(err.Error(), "another process serves there") {
			t.Errorf("a second listener: %v", err)
		}
		conn, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.Close()
		for range 2 {
			if err := listener.Close(); err != nil {
				t.Error(err)
			}
		}
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the socket stays: %v", err)
		}
	}
}

// Open replaces the socket of a process that was killed, and nothing else.
func TestStaleSocketsAreReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "api.sock")
	abandon := func(path string) {
		t.Helper()
		left, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
		if err != nil {
			t.Fatal(err)
		}
		left.SetUnlinkOnClose(false)
		_ = left.Close()
	}
	abandon(path)
	abandon(path + "~")
	listener, err := open(t, path, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	// Close does not remove another socket that has taken its place.
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	other, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if err := listener.Close(); err != nil {
		t.Error(err)
	}
	if _, err := open(t, path, 0o600); err == nil || !strings.Contains(err.Error(), "another process serves there") {
		t.Errorf("a socket of another program: %v", err)
	}
	if conn, err := net.Dial("unix", path); err != nil {
		t.Errorf("the other one is gone: %v", err)
	} else {
		_ = conn.Close()
	}
	for name, make := range map[string]func(string) error{
		"file":    func(path string) error { return os.WriteFile(path, []byte("mine"), 0o600) },
		"folder":  func(path string) error { return os.Mkdir(path, 0o700) },
		"symlink": func(at string) error { return os.Symlink(path, at) },
	} {
		at := filepath.Join(t.TempDir(), name)
		if err := make(at); err != nil {
			t.Fatal(err)
		}
		if _, err := open(t, at, 0o600); err == nil || !strings.Contains(err.Error(), "exists, and is not a socket") {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Lstat(at); err != nil {
			t.Errorf("%s is gone: %v", name, err)
		}
	}
}

func TestNothingIsPassed(t *testing.T) {
	self := fmt.Sprint(os.Getpid())
	for want, variables := range map[string]map[string]string{
		"systemd has passed no socket to this process":  {},
		"systemd has passed no socket to this process:": {"LISTEN_PID": "1", "LISTEN_FDS": "1", "LISTEN_FDNAMES": "api"},
		"systemd has passed no socket":                  {"LISTEN_PID": self, "LISTEN_FDS": "-1", "LISTEN_FDNAMES": "api"},
		`none is named "api"`:                           {"LISTEN_PID": self, "LISTEN_FDS": "1", "LISTEN_FDNAMES": "web:api"},
	} {
		_, err := Open(Address{Systemd, "api"}, Options{Lookup: func(name string) (string, bool) { v, ok := variables[name]; return v, ok }})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: got %v", variables, err)
		}
	}
	if _, err := Open(Address{Systemd, "api"}, Options{}); !errors.Is(err, errNothingPassed) {
		t.Error(err)
	}
}
