//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package listen

import (
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

const (
	firstPassed = 3  // SD_LISTEN_FDS_START of sd_listen_fds(3)
	maxPassed   = 64 // more than any unit of this program has
)

// inherited returns a socket that systemd opened, by the protocol of sd_listen_fds(3).
func inherited(name string, lookup func(string) (string, bool)) (net.Listener, error) {
	if pid, _ := lookup("LISTEN_PID"); pid != strconv.Itoa(os.Getpid()) {
		return nil, errNothingPassed // sockets were passed to no process, or to another one
	}
	text, _ := lookup("LISTEN_FDS")
	count, err := strconv.Atoi(text)
	if err != nil || count < 1 || count > maxPassed {
		return nil, errNothingPassed
	}
	given, _ := lookup("LISTEN_FDNAMES")
	names := strings.Split(given, ":")
	at := slices.Index(names, name)
	if at < 0 || at >= count {
		return nil, fmt.Errorf("systemd passed %d sockets, and none is named %q: their names are %q", count, name, names)
	}
	fd := firstPassed + at
	syscall.CloseOnExec(fd)
	if listening, err := syscall.GetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_ACCEPTCONN); err != nil || listening != 1 {
		return nil, fmt.Errorf("what systemd passed as %q is not a listening socket", name)
	}
	file := os.NewFile(uintptr(fd), name)
	listener, err := net.FileListener(file)
	if err != nil {
		return nil, fmt.Errorf("what systemd passed as %q: %w", name, err)
	}
	_ = file.Close() // the listener has a copy
	return listener, nil
}
